package kernel

import (
	"fmt"

	"halfstep/program"
)

// Block is a range of one parameter with what its update reads and writes, all of equal length.
type Block struct {
	Param     []float32
	Grad      Array   // raw gradient
	GradScale float32 // what the gradient is multiplied with: program.ControlGradScale
	State     [3][]float32
	Half      Array // half copy of the parameter; Float32: none
}

// Array is a slice of float32 elements or of the bits of half ones; DType says which of the two slices counts.
type Array struct {
	DType   program.DType
	Float32 []float32
	Half    []uint16
}

// slice is elements i to j.
func (a Array) slice(i, j int) Array {
	switch {
	case a.DType.Half():
		a.Half = a.Half[i:j]
	case a.Float32 != nil:
		a.Float32 = a.Float32[i:j]
	}
	return a
}

// Slice is elements i to j of the block.
func (b *Block) Slice(i, j int) Block {
	s := Block{Param: b.Param[i:j], Grad: b.Grad.slice(i, j), GradScale: b.GradScale, Half: b.Half.slice(i, j)}
	for k, state := range b.State {
		if state != nil {
			s.State[k] = state[i:j]
		}
	}
	return s
}

// Optimizer is the kernel of one optimizer. It agrees bit for bit with the op's Step at all levels.
type Optimizer struct {
	op      program.OptimizerStep
	level   Level
	routine stepRoutine
	states  int
}

// NewOptimizer gives the kernel of an optimizer.
func (v *Vec) NewOptimizer(op program.OptimizerStep) (*Optimizer, error) {
	r := stepUnknown
	switch o := op.(type) {
	case program.SGDStep:
		switch {
		case o.Momentum == 0:
			r = stepSGD
		case o.Nesterov:
			r = stepSGDNesterov
		default:
			r = stepSGDMomentum
		}
	case program.AdamStep:
		r = stepAdam
		if o.AMSGrad {
			r = stepAdamAMSGrad
		}
	case program.AdadeltaStep:
		r = stepAdadelta
	case program.RMSPropStep:
		r = stepRMSProp
		if o.Momentum != 0 {
			r++
		}
		if o.Centered {
			r += 2
		}
	case program.AdagradStep:
		r = stepAdagrad
	default:
		return nil, fmt.Errorf("kernel: no optimizer %s", op.Name())
	}
	return &Optimizer{op: op, level: v.Level, routine: r, states: len(op.States())}, nil
}

// stepRoutine names an assembly routine.
type stepRoutine uint8

const (
	stepUnknown stepRoutine = iota
	stepSGD
	stepSGDMomentum
	stepSGDNesterov
	stepAdam
	stepAdamAMSGrad
	stepAdadelta
	stepRMSProp
	stepRMSPropMomentum
	stepRMSPropCentered
	stepRMSPropCenteredMomentum
	stepAdagrad
)

// Step updates the block. Several blocks may be updated at once.
func (o *Optimizer) Step(b *Block, s program.StepScalars) {
	done := o.accelerated(b, s)
	if done < len(b.Param) {
		rest := b.Slice(done, len(b.Param))
		o.stepGo(&rest, s)
	}
}

// stepGo is Step at the portable level, by the op's own reference.
func (o *Optimizer) stepGo(b *Block, s program.StepScalars) {
	const chunk = 256
	var buf [chunk]float32
	for i := 0; i < len(b.Param); i += chunk {
		c := b.Slice(i, min(i+chunk, len(b.Param)))
		grad := buf[:len(c.Param)]
		c.Grad.unscale(grad, c.GradScale)
		step(o.op, c.Param, grad, c.State[:o.states], s)
		switch c.Half.DType {
		case program.Float16:
			float16Codec.fromFloat32(c.Half.Half, c.Param)
		case program.BFloat16:
			bfloat16Codec.fromFloat32(c.Half.Half, c.Param)
		}
	}
}

// unscale is dst = float32(a)·scale.
func (a Array) unscale(dst []float32, scale float32) {
	switch a.DType {
	case program.Float16:
		float16Codec.toFloat32(dst, a.Half)
	case program.BFloat16:
		bfloat16Codec.toFloat32(dst, a.Half)
	default:
		copy(dst, a.Float32)
	}
	for i := range dst {
		dst[i] *= scale
	}
}

// step calls op.Step by its concrete type, which lets the gradient stay on the stack.
func step(op program.OptimizerStep, p, g []float32, state [][]float32, s program.StepScalars) {
	switch o := op.(type) {
	case program.SGDStep:
		o.Step(p, g, state, s)
	case program.AdamStep:
		o.Step(p, g, state, s)
	case program.AdadeltaStep:
		o.Step(p, g, state, s)
	case program.RMSPropStep:
		o.Step(p, g, state, s)
	case program.AdagradStep:
		o.Step(p, g, state, s)
	}
}
