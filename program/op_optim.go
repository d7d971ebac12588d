package program

// OptimizerStep is the Op that updates one parameter. Step is the readable reference, in float32, that every device's
// kernel is tested against.
//
// In: gradient (raw, of any float dtype), control, counters (after StepControl, so that t is CounterUpdates). InOut:
// parameter Float32, one Float32 state of its shape for each of States, and last the parameter's half copy when it has
// one. When control says that the step is skipped, nothing changes. The gradient is float32(g)·control[ControlGradScale].
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
