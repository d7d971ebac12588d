package devices

import (
	"halfstep/device"
	"halfstep/device/cpu"
	"halfstep/device/cpu/kernel"
	"halfstep/program"
)

// Gorgonia is the kind of the device on which forward and backward run by Gorgonia's TapeMachine and the readable loops of
// package ref, in float32. It shows what the compiled programs are measured against; it is slow.
const Gorgonia = "gorgonia"

// gorgonia runs what is left of a step, its input and update, on the CPU by the portable kernels and without fusions. The
// trainer takes forward and backward out of the programs it compiles here.
type gorgonia struct{ device.Device }

func openGorgonia(threads int) (device.Device, error) {
	level := kernel.Portable
	d, err := cpu.Open(cpu.Options{Level: &level, Threads: threads})
	if err != nil {
		return nil, err
	}
	return gorgonia{d}, nil
}

// Properties implements device.Device.
func (g gorgonia) Properties() device.Properties {
	p := g.Device.Properties()
	p.Kind, p.Name, p.ISA = Gorgonia, "Gorgonia's TapeMachine on "+p.Name, "reference"
	return p
}

// Fusions implements device.Device: none.
func (gorgonia) Fusions() []program.Rule { return nil }
