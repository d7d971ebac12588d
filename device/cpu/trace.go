package cpu

import (
	"context"
	"slices"

	"halfstep/device"
	"halfstep/program"
)

// Trace implements device.Executable.
func (e *executable) Trace(ctx context.Context, visit func(i *program.Instr, read func(*program.Value) []float32) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for n, run := range e.kernels {
		run()
		if !visit(e.program.Instrs[n], e.read) {
			break
		}
	}
	return nil
}

// read is a copy of a value's elements as float32; nil when its type is not a float.
func (e *executable) read(v *program.Value) []float32 {
	switch v.DType {
	case program.Float32:
		return slices.Clone(e.builder.f32(v))
	case program.Float16, program.BFloat16:
		x := make([]float32, v.Elems())
		return e.builder.view(v).load(0, len(x), x)
	case program.Float64:
		x := make([]float32, v.Elems())
		for k, f := range device.View[float64](e.builder.bytes(v)) {
			x[k] = float32(f)
		}
		return x
	}
	return nil
}
