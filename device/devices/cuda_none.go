//go:build !gpu || !linux || (!amd64 && !arm64)

package devices

import (
	"errors"

	"halfstep/device"
)

// openCUDA of a binary built without the tag gpu.
func openCUDA(string, Options) (device.Device, error) {
	return nil, errors.New("this binary was built without CUDA; build it with -tags gpu")
}
