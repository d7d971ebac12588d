//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"fmt"
	"slices"

	"halfstep/device/cuda/driver"
	"halfstep/device/cuda/ptx"
)

// kernels finds kernels by name and has the driver compile those that are asked for: a step of the reference network needs a
// quarter of what the modules hold, and compiling takes seconds when a machine does it for the first time. The driver keeps the
// result on disk for the next process. All methods run on the device's thread.
type kernels struct {
	capability int
	sources    []*module
	functions  map[string]driver.Function
	loaded     []driver.Module
}

func newKernels(capability int) *kernels {
	k := &kernels{capability: capability, functions: map[string]driver.Function{}}
	for _, text := range []string{ptx.Base, ptx.F32, ptx.F16, ptx.BF16, ptx.TF32} {
		k.sources = append(k.sources, parseModule(text))
	}
	return k
}

// check tells whether there is a kernel whose struct has so many bytes.
func (k *kernels) check(name string, argBytes int) error {
	for _, m := range k.sources {
		e, ok := m.kernels[name]
		switch {
		case !ok:
			continue
		case e.argBytes != argBytes:
			return fmt.Errorf("kernel %s takes %d bytes, given %d", name, e.argBytes, argBytes)
		case m.target > k.capability:
			return fmt.Errorf("kernel %s needs compute capability %d.%d, this GPU has %d.%d: %w",
				name, m.target/10, m.target%10, k.capability/10, k.capability%10, errNoKernel)
		}
		return nil
	}
	return fmt.Errorf("%w %s", errNoKernel, name)
}

// load compiles what is not compiled yet of kernels that check found.
func (k *kernels) load(names []string) error {
	for _, m := range k.sources {
		var missing []string
		for _, name := range names {
			if _, ok := k.functions[name]; !ok && m.kernels[name].text != "" && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
		if len(missing) == 0 {
			continue
		}
		slices.Sort(missing) // one text for one set of kernels: the driver looks its result up by the text
		loaded, err := driver.LoadModule(m.slice(missing))
		if err != nil {
			return err
		}
		k.loaded = append(k.loaded, loaded)
		for _, name := range missing {
			if k.functions[name], err = loaded.Function(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// resolve gives launches their functions.
func (k *kernels) resolve(instrs ...[]launch) error {
	var names []string
	for _, ls := range instrs {
		for _, l := range ls {
			names = append(names, l.name)
		}
	}
	if err := k.load(names); err != nil {
		return err
	}
	for _, ls := range instrs {
		for n := range ls {
			ls[n].f = k.functions[ls[n].name]
		}
	}
	return nil
}

func (k *kernels) unload() error {
	for _, m := range k.loaded {
		if err := m.Unload(); err != nil {
			return err
		}
	}
	return nil
}
