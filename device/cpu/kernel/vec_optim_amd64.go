package kernel

import (
	"unsafe"

	"halfstep/program"
)

// stepArgs is what the assembly of the optimizers reads. Each routine has its own use of the coefficients.
type stepArgs struct {
	param, grad, half      unsafe.Pointer
	state0, state1, state2 unsafe.Pointer
	n                      int
	gradType, halfType     int // 0 float32 or none, 1 float16, 2 bfloat16

	gradScale, weightDecay, lr, eps float32
	momentum, take                  float32 // of the first average
	keep2, take2                    float32 // of the average of squares
	nesterov, decay, correction     float32
}

func (a *stepArgs) set(b *Block) {
	a.param, a.n, a.gradScale = pointer(b.Param), len(b.Param), b.GradScale
	a.state0, a.state1, a.state2 = pointer(b.State[0]), pointer(b.State[1]), pointer(b.State[2])
	a.grad, a.gradType = b.Grad.address()
	a.half, a.halfType = b.Half.address()
}

func (a Array) address() (unsafe.Pointer, int) {
	if a.DType.Half() {
		return pointer(a.Half), int(a.DType)
	}
	return pointer(a.Float32), 0
}

// check panics when an array is shorter than the parameter.
func (b *Block) check(states int) {
	n := len(b.Param)
	b.Grad.slice(0, n)
	b.Half.slice(0, n)
	for _, s := range b.State[:states] {
		_ = s[:n]
	}
}

// coefficients sets the numbers of one update.
func (a *stepArgs) coefficients(op program.OptimizerStep, s program.StepScalars) {
	switch o := op.(type) {
	case program.SGDStep:
		c := o.Coefficients(s)
		a.lr, a.weightDecay = c.LR, c.WeightDecay
		a.momentum, a.take, a.nesterov = c.Buffer, c.Grad, c.Momentum
	case program.AdamStep:
		c := o.Coefficients(s)
		a.lr, a.weightDecay, a.eps, a.decay = c.StepSize, c.WeightDecay, c.Eps, c.Decay
		a.momentum, a.take, a.keep2, a.take2, a.correction = c.Beta1, c.Grad1, c.Beta2, c.Grad2, c.Correction
	case program.AdadeltaStep:
		c := o.Coefficients(s)
		a.lr, a.weightDecay, a.eps, a.keep2, a.take2 = c.LR, c.WeightDecay, c.Eps, c.Rho, c.Grad
	case program.RMSPropStep:
		c := o.Coefficients(s)
		a.lr, a.weightDecay, a.eps = c.LR, c.WeightDecay, c.Eps
		a.keep2, a.take2, a.momentum = c.Alpha, c.Grad, c.Momentum
	case program.AdagradStep:
		c := o.Coefficients(s)
		a.lr, a.weightDecay, a.eps = c.Rate, c.WeightDecay, c.Eps
	}
}

// accelerated updates what the assembly can and gives the number of elements done. The routines are called by name, so that
// the arguments stay on the stack.
func (o *Optimizer) accelerated(b *Block, s program.StepScalars) int {
	if o.level == Portable {
		return 0
	}
	b.check(o.states)
	var a stepArgs
	a.set(b)
	a.coefficients(o.op, s)
	p := unsafe.Pointer(&a)
	if o.level == AVX2 {
		a.n &^= 7
		o.stepAVX2(p)
	} else {
		o.stepAVX512(p)
	}
	return a.n
}

func (o *Optimizer) stepAVX512(a unsafe.Pointer) {
	switch o.routine {
	case stepSGD:
		sgdAVX512(a)
	case stepSGDMomentum:
		sgdMomentumAVX512(a)
	case stepSGDNesterov:
		sgdNesterovAVX512(a)
	case stepAdam:
		adamAVX512(a)
	case stepAdamAMSGrad:
		adamAMSGradAVX512(a)
	case stepAdadelta:
		adadeltaAVX512(a)
	case stepRMSProp:
		rmspropAVX512(a)
	case stepRMSPropMomentum:
		rmspropMomentumAVX512(a)
	case stepRMSPropCentered:
		rmspropCenteredAVX512(a)
	case stepRMSPropCenteredMomentum:
		rmspropCenteredMomentumAVX512(a)
	case stepAdagrad:
		adagradAVX512(a)
	}
}

func (o *Optimizer) stepAVX2(a unsafe.Pointer) {
	switch o.routine {
	case stepSGD:
		sgdAVX2(a)
	case stepSGDMomentum:
		sgdMomentumAVX2(a)
	case stepSGDNesterov:
		sgdNesterovAVX2(a)
	case stepAdam:
		adamAVX2(a)
	case stepAdamAMSGrad:
		adamAMSGradAVX2(a)
	case stepAdadelta:
		adadeltaAVX2(a)
	case stepRMSProp:
		rmspropAVX2(a)
	case stepRMSPropMomentum:
		rmspropMomentumAVX2(a)
	case stepRMSPropCentered:
		rmspropCenteredAVX2(a)
	case stepRMSPropCenteredMomentum:
		rmspropCenteredMomentumAVX2(a)
	case stepAdagrad:
		adagradAVX2(a)
	}
}
