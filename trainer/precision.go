package trainer

import (
	"fmt"

	"halfstep/configs"
	"halfstep/device"
	"halfstep/device/devices"
	"halfstep/program"
)

// TF32 is the precision, as the command line has it, of float32 whose products a GPU computes on tensor cores: their operands
// have 10 bits of fraction there, all that is stored stays float32.
const TF32 = "tf32"

// Precision changes a configuration to compute in fp32, tf32, fp16 or bf16. It refuses tf32 where the configuration names a
// device that never has it; on the device, UsesTF32 tells.
func Precision(c configs.Config, name string) (configs.Config, error) {
	if name == TF32 {
		if c.Device == "cpu" || c.Device == devices.Gorgonia {
			return c, &ConfigError{Key: "--precision", Message: fmt.Sprintf(
				"tf32 needs an NVIDIA GPU, the device is %s; take fp32 there, or device=cuda", c.Device)}
		}
		c.AMP.Enabled, c.CUDA.AllowTF32 = false, true
		return c, nil
	}
	d, err := program.ParseDType(name)
	if err != nil || !d.Float() {
		return c, &ConfigError{Key: "--precision", Message: fmt.Sprintf("%q, want fp32, tf32, fp16 or bf16", name)}
	}
	c.AMP.Enabled, c.CUDA.AllowTF32 = d.Half(), false
	if d.Half() {
		c.AMP.DType = d.String()
	}
	return c, nil
}

// shortNames are the precisions by the type that is stored.
var shortNames = map[program.DType]string{program.Float32: "fp32", program.Float16: "fp16", program.BFloat16: "bf16"}

// PrecisionName is what a configuration computes in on a device: fp32, tf32, fp16 or bf16.
func PrecisionName(c configs.Config, p device.Properties) (string, error) {
	if UsesTF32(c, p) {
		return TF32, nil
	}
	d, err := DTypeOf(c)
	return shortNames[d], err
}

// UsesTF32 reports whether a configuration's float32 products are computed in tf32 on a device: it allows that, nothing is
// half, and the device can.
func UsesTF32(c configs.Config, p device.Properties) bool {
	return c.CUDA.AllowTF32 && !c.AMP.Enabled && devices.HasTF32(p)
}

// UsesTF32 reports whether the trainer's float32 products are computed in tf32.
func (t *Trainer) UsesTF32() bool { return UsesTF32(t.cfg, t.dev.Properties()) }
