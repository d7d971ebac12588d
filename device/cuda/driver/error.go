//go:build linux && gpu && (amd64 || arm64)

package driver

// #include <cuda.h>
import "C"

import (
	"errors"
	"fmt"
	"reflect"

	"gorgonia.org/cu"
)

// Error is a failed call of the driver.
type Error struct {
	Code int    // CUresult
	Call string // what was attempted: "allocate 4096 bytes"
}

// Error has the driver's own name and words for the code.
func (e *Error) Error() string {
	var name, text *C.char
	C.cuGetErrorName(C.CUresult(e.Code), &name)
	C.cuGetErrorString(C.CUresult(e.Code), &text)
	if name == nil || text == nil {
		return fmt.Sprintf("%s: CUDA error %d", e.Call, e.Code)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Call, C.GoString(text), C.GoString(name))
}

// OutOfMemory reports whether the driver had no memory left.
func (e *Error) OutOfMemory() bool { return e.Code == int(cu.OutOfMemory) }

// check makes an error of a CUresult.
func check(code int, format string, a ...any) error {
	if code == 0 {
		return nil
	}
	return &Error{Code: code, Call: fmt.Sprintf(format, a...)}
}

// wrap makes an Error of one of package cu's, whose type is not exported: an integer, perhaps wrapped.
func wrap(err error, format string, a ...any) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if v := reflect.ValueOf(e); v.Kind() == reflect.Int {
			return check(int(v.Int()), format, a...)
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, a...), err)
}
