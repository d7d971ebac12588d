package program

import "math"

// OptimizerStep is the Op that updates one parameter. Step is the readable reference, in float32, that every device's
// kernel is tested against.
//
// In: gradient (raw, of any float dtype), control, counters (after StepControl, so that t is CounterUpdates). InOut:
// parameter Float32, one Float32 state of its shape for each of States, and last the parameter's half copy when it has
// one. When control says that the step is skipped, nothing changes. The gradient is float32(g)·control[ControlGradScale].
//
// The implementations follow torch.optim's single-tensor functions, operation by operation. Every operation of the
// formulas in their comments is rounded to float32, in the order written, and no multiply-add is contracted: a kernel that
// does the same agrees bit for bit. What depends on the step alone is computed once, in float64, by the op's Coefficients.
// Two simplifications keep the loops free of branches: a weight decay of 0 is added as 0·p, and a factor of 1 is applied.
// For finite numbers both are exact.
type OptimizerStep interface {
	Op
	// States names the optimizer's state tensors as PyTorch does: "exp_avg", "exp_avg_sq".
	States() []string
	// Step updates p and state in place from the unscaled gradient g; slices have equal lengths.
	Step(p, g []float32, state [][]float32, s StepScalars)
}

// StepScalars are the numbers of one update that come from the device's memory.
type StepScalars struct {
	LR       float32
	Momentum float32 // of a schedule that cycles momentum or beta1; NaN keeps the op's own
	T        int32   // number of this applied update, from 1
}

// momentumOr is the scheduled momentum, or the op's own where none is scheduled.
func (s StepScalars) momentumOr(own float64) float64 {
	if math.IsNaN(float64(s.Momentum)) {
		return own
	}
	return float64(s.Momentum)
}

// checkStep is Check of every OptimizerStep.
func checkStep(o OptimizerStep, in, out, inout []*Value) error {
	states := len(o.States())
	c := check(o, in, out, inout).count(n(3), n(0), [2]int{1 + states, 2 + states})
	if !c.ok() {
		return c.err
	}
	param := inout[0]
	c.float(in[0]).shape(in[0], param.Shape...).control(in[1]).counters(in[2])
	for _, v := range inout[:1+states] {
		c.dtype(v, Float32).shape(v, param.Shape...)
	}
	for _, v := range inout[1+states:] {
		c.dtype(v, Float16, BFloat16).shape(v, param.Shape...)
	}
	return c.err
}

// sqrt32 is the correctly rounded float32 square root.
func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }
