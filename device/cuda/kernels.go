//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"fmt"
	"strconv"
	"strings"

	"halfstep/device/cuda/driver"
	"halfstep/device/cuda/ptx"
)

// kernels are the loaded modules and what is known of their kernels.
type kernels struct {
	modules   []driver.Module
	argBytes  map[string]int // size of each kernel's struct
	functions map[string]driver.Function
	module    map[string]driver.Module
}

// loadKernels compiles the PTX that the GPU can run, on the device's thread.
func loadKernels(capability int) (*kernels, error) {
	k := &kernels{argBytes: map[string]int{}, functions: map[string]driver.Function{}, module: map[string]driver.Module{}}
	for _, m := range []struct {
		capability int
		ptx        string
	}{{75, ptx.SM75}, {80, ptx.SM80}} {
		if capability < m.capability {
			continue
		}
		module, err := driver.LoadModule(m.ptx)
		if err != nil {
			return nil, err
		}
		k.modules = append(k.modules, module)
		for name, bytes := range entries(m.ptx) {
			k.argBytes[name], k.module[name] = bytes, module
		}
	}
	return k, nil
}

// entries lists the kernels of a PTX text with the size of their one parameter:
//
//	.visible .entry add_f16(
//		.param .align 8 .b8 add_f16_param_0[32]
//	)
func entries(text string) map[string]int {
	r := map[string]int{}
	for {
		_, rest, ok := strings.Cut(text, ".visible .entry ")
		if !ok {
			return r
		}
		name, params, _ := strings.Cut(rest, "(")
		params, text, _ = strings.Cut(params, ")")
		_, size, _ := strings.Cut(params, "[")
		size, _, _ = strings.Cut(size, "]")
		n, err := strconv.Atoi(size)
		if err != nil {
			n = -1 // a kernel that does not take one struct; find refuses it
		}
		r[name] = n
	}
}

// find gives a kernel whose struct has so many bytes, on the device's thread.
func (k *kernels) find(name string, argBytes int) (driver.Function, error) {
	want, ok := k.argBytes[name]
	if !ok {
		return driver.Function{}, fmt.Errorf("no kernel %s for this GPU", name)
	}
	if want != argBytes {
		return driver.Function{}, fmt.Errorf("kernel %s takes %d bytes, given %d", name, want, argBytes)
	}
	if f, ok := k.functions[name]; ok {
		return f, nil
	}
	f, err := k.module[name].Function(name)
	if err == nil {
		k.functions[name] = f
	}
	return f, err
}

func (k *kernels) unload() error {
	for _, m := range k.modules {
		if err := m.Unload(); err != nil {
			return err
		}
	}
	return nil
}
