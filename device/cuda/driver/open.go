//go:build linux && gpu && (amd64 || arm64)

package driver

/*
#cgo LDFLAGS: -Wl,--as-needed -L${SRCDIR}/lib -ldl
#include "lazy.h"
*/
import "C"

import (
	"errors"
	"fmt"

	"gorgonia.org/cu"
)

// minVersion is CUDA 11.8, the first whose driver compiles PTX 7.8.
const minVersion = 11080

// Open loads the driver's library and initialises it. It may be called again.
func Open() error {
	var why *C.char
	switch r := C.halfstep_cuda_open(&why); r {
	case 0:
	case -1:
		return fmt.Errorf("no NVIDIA driver: %s", C.GoString(why))
	case 100:
		return errors.New("the NVIDIA driver finds no device")
	default:
		return fmt.Errorf("the NVIDIA driver does not start: %w", check(int(r), "cuInit"))
	}
	v := cu.Version()
	if v < minVersion {
		return fmt.Errorf("the NVIDIA driver is too old: it supports CUDA %d.%d, the kernels (PTX 7.8) need driver 520 or newer (CUDA 11.8)",
			v/1000, v%1000/10)
	}
	n, err := cu.NumDevices()
	if err != nil {
		return wrap(err, "count devices")
	}
	if n == 0 {
		return errors.New("the NVIDIA driver finds no device")
	}
	return nil
}

// Version is the CUDA version that the driver supports: 12040 is 12.4.
func Version() int { return cu.Version() }
