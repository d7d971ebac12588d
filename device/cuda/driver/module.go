//go:build linux && gpu && (amd64 || arm64)

package driver

// #include <cuda.h>
//
// static CUresult launch(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned threads, CUstream s, void *args) {
//	void *params[1] = {args};
//	return cuLaunchKernel(f, grid_x, grid_y, grid_z, threads, 1, 1, 0, s, params, 0);
// }
import "C"

import (
	"bytes"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// Module is compiled PTX.
type Module struct{ m cu.Module }

// LoadModule has the driver compile PTX for the current context's GPU.
func LoadModule(ptx string) (Module, error) {
	log := make([]byte, 8192)
	m, err := cu.LoadDataEx(ptx, &cu.JITErrorLogBuffer{Buffer: log})
	if err == nil {
		return Module{m}, nil
	}
	err = wrap(err, "compile the kernels")
	if text := bytes.TrimSpace(bytes.TrimRight(log, "\x00")); len(text) > 0 {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return Module{}, err
}

// Unload frees the module.
func (m Module) Unload() error { return wrap(m.m.Unload(), "unload the kernels") }

// Function is a kernel that takes one struct.
type Function struct{ f cu.Function }

// Function finds a kernel by name.
func (m Module) Function(name string) (Function, error) {
	f, err := m.m.Function(name)
	return Function{f}, wrap(err, "find kernel %s", name)
}

// Launch queues a kernel: grid blocks of so many threads, args pointing to its struct, which is copied at once.
// gorgonia.org/cu's own launch passes parameters of 8 bytes only.
func (s Stream) Launch(f Function, grid [3]int, threads int, args unsafe.Pointer) error {
	fn := *(*C.CUfunction)(unsafe.Pointer(&f.f))
	r := C.launch(fn, C.uint(grid[0]), C.uint(grid[1]), C.uint(grid[2]), C.uint(threads), s.c(), args)
	return check(int(r), "launch a kernel")
}

// c is the stream as this package's C code takes it: cu.Stream has that as its only field.
func (s Stream) c() C.CUstream { return *(*C.CUstream)(unsafe.Pointer(&s.s)) }
