//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"fmt"
	"strconv"
	"strings"

	"halfstep/device/cuda/driver"
	"halfstep/device/cuda/ptx"
)

// kernels finds kernels by name. A module is compiled by the driver when the first of its kernels is asked for; the
// driver keeps the result on disk for the next process. All methods run on the device's thread.
type kernels struct {
	capability int
	sources    []*module
	functions  map[string]driver.Function
}

// module is a PTX text with the size of each kernel's struct.
type module struct {
	ptx      string
	target   int // compute capability times ten
	argBytes map[string]int
	loaded   *driver.Module
}

func newKernels(capability int) *kernels {
	k := &kernels{capability: capability, functions: map[string]driver.Function{}}
	for _, text := range []string{ptx.Base, ptx.F32, ptx.F16, ptx.BF16, ptx.TF32} {
		k.sources = append(k.sources, &module{ptx: text, target: target(text), argBytes: entries(text)})
	}
	return k
}

// target reads the compute capability of a PTX text: `.target sm_75` is 75.
func target(text string) int {
	_, rest, _ := strings.Cut(text, ".target sm_")
	number, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil {
		return 0 // the driver will tell
	}
	return n
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

// find gives a kernel whose struct has so many bytes.
func (k *kernels) find(name string, argBytes int) (driver.Function, error) {
	if f, ok := k.functions[name]; ok {
		return f, nil
	}
	for _, m := range k.sources {
		want, ok := m.argBytes[name]
		switch {
		case !ok:
			continue
		case want != argBytes:
			return driver.Function{}, fmt.Errorf("kernel %s takes %d bytes, given %d", name, want, argBytes)
		case m.target > k.capability:
			return driver.Function{}, fmt.Errorf("kernel %s needs compute capability %d.%d, this GPU has %d.%d: %w",
				name, m.target/10, m.target%10, k.capability/10, k.capability%10, errNoKernel)
		}
		f, err := m.function(name)
		if err == nil {
			k.functions[name] = f
		}
		return f, err
	}
	return driver.Function{}, fmt.Errorf("%w %s", errNoKernel, name)
}

func (m *module) function(name string) (driver.Function, error) {
	if m.loaded == nil {
		loaded, err := driver.LoadModule(m.ptx)
		if err != nil {
			return driver.Function{}, err
		}
		m.loaded = &loaded
	}
	return m.loaded.Function(name)
}

func (k *kernels) unload() error {
	for _, m := range k.sources {
		if m.loaded == nil {
			continue
		}
		if err := m.loaded.Unload(); err != nil {
			return err
		}
	}
	return nil
}
