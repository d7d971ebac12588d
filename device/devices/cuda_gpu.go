//go:build gpu && linux && (amd64 || arm64)

package devices

import (
	"fmt"
	"strconv"
	"strings"

	"halfstep/device"
	"halfstep/device/cuda"
)

// openCUDA opens cuda or cuda:N.
func openCUDA(name string) (device.Device, error) {
	var o cuda.Options
	if _, number, ok := strings.Cut(name, ":"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no device: want cuda or cuda:N", name)
		}
		o.Ordinal = n
	}
	d, err := cuda.Open(o)
	if err != nil {
		return nil, err // not a nil *cuda.Device in an interface
	}
	return d, nil
}
