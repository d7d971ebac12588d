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
func openCUDA(name string, o Options) (device.Device, error) {
	c, err := cudaOptions(name, o)
	if err != nil {
		return nil, err
	}
	d, err := cuda.Open(c)
	if err != nil {
		return nil, err // not a nil *cuda.Device in an interface
	}
	return d, nil
}

func cudaOptions(name string, o Options) (cuda.Options, error) {
	c := cuda.Options{NoGraph: o.NoGraph, TF32: o.TF32}
	if _, number, ok := strings.Cut(name, ":"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return c, fmt.Errorf("%q is no device: want cuda or cuda:N", name)
		}
		c.Ordinal = n
	}
	return c, nil
}
