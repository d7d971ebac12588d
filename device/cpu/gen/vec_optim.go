package main

import "fmt"

// optimizers writes one pass over a parameter: gradient of any type, scaled; states; float32 master; half copy. The order of
// operations is that of the Step methods in package program, without fused multiply-adds, so that results are the
// same bit for bit. All take the parameter's block as kernel.stepArgs.
func (e *vecEmitter) optimizers() {
	e.optimizer("sgd", e.sgd(false, false))
	e.optimizer("sgdMomentum", e.sgd(true, false))
	e.optimizer("sgdNesterov", e.sgd(true, true))
	e.optimizer("adam", e.adam(false))
	e.optimizer("adamAMSGrad", e.adam(true))
	e.optimizer("adadelta", e.adadelta)
	e.optimizer("rmsprop", e.rmsprop(false, false))
	e.optimizer("rmspropMomentum", e.rmsprop(true, false))
	e.optimizer("rmspropCentered", e.rmsprop(false, true))
	e.optimizer("rmspropCenteredMomentum", e.rmsprop(true, true))
	e.optimizer("adagrad", e.adagrad)
}

// Registers of an optimizer's vectors; the rest up to zero() and put's are free.
const (
	optP = iota
	optG
	optS0
	optS1
	optS2
	optA
	optB
	optT // scratch of coefficient operands where there is no broadcast
)

// Pointers of an optimizer, in the order of stepArgs.
var optPointers = []struct{ field, reg string }{
	{"param", "DI"},
	{"grad", "SI"},
	{"half", "DX"},
	{"state0", "BX"},
	{"state1", "R9"},
	{"state2", "R10"},
	{"gradType", "R11"},
	{"halfType", "R12"},
	{"n", "CX"},
}

func (e *vecEmitter) optimizer(name string, body func()) {
	e.fn(name+e.name, name+e.name+" is one step over a block; its twin is the Step method in package program.", "a unsafe.Pointer")
	e.load("a", "R13")
	for _, p := range optPointers {
		e.op("MOVQ", "stepArgs_"+p.field+"(R13)", p.reg)
	}
	e.putConstants(bfloat16s)
	e.setZero()
	e.loop(e.lanes, func() {
		e.optLoadGrad()
		e.coef("VMULPS", "gradScale", optG, optG)
		e.get(float32s, "DI", optP)
		body()
		e.op("VMOVUPS", e.r(optP), e.r(optA))
		e.put(float32s, optP, "DI")
		e.optStoreHalf()
	})
}

// optLoadGrad loads the gradient; the branches go the same way each time.
func (e *vecEmitter) optLoadGrad() {
	wide, bf, done := e.newLabel("wide"), e.newLabel("bfloat"), e.newLabel("loaded")
	e.op("CMPQ", "R11", "$1")
	e.op("JLT", wide)
	e.op("JGT", bf)
	e.get(float16s, "SI", optG)
	e.op("JMP", done)
	e.label(bf)
	e.get(bfloat16s, "SI", optG)
	e.op("JMP", done)
	e.label(wide)
	e.get(float32s, "SI", optG)
	e.label(done)
}

func (e *vecEmitter) optStoreHalf() {
	bf, done := e.newLabel("bfloat"), e.newLabel("stored")
	e.op("CMPQ", "R12", "$1")
	e.op("JLT", done)
	e.op("JGT", bf)
	e.put(float16s, optA, "DX")
	e.op("JMP", done)
	e.label(bf)
	e.put(bfloat16s, optA, "DX")
	e.label(done)
}

// coef appends dst = src op coefficient.
func (e *vecEmitter) coef(mnemonic, field string, src, dst int) {
	from := fmt.Sprintf("stepArgs_%s(R13)", field)
	if e.wide() {
		e.op(mnemonic+".BCST", from, e.r(src), e.r(dst))
		return
	}
	e.op("VBROADCASTSS", from, e.r(optT))
	e.op(mnemonic, e.r(optT), e.r(src), e.r(dst))
}

// mul, add, sub, div append dst = a op b.
func (e *vecEmitter) mulv(dst, a, b int) { e.op("VMULPS", e.r(b), e.r(a), e.r(dst)) }
func (e *vecEmitter) addv(dst, a, b int) { e.op("VADDPS", e.r(b), e.r(a), e.r(dst)) }
func (e *vecEmitter) subv(dst, a, b int) { e.op("VSUBPS", e.r(b), e.r(a), e.r(dst)) }
func (e *vecEmitter) divv(dst, a, b int) { e.op("VDIVPS", e.r(b), e.r(a), e.r(dst)) }

// decay appends g = g + weightDecay·p.
func (e *vecEmitter) decay() {
	e.coef("VMULPS", "weightDecay", optP, optA)
	e.addv(optG, optG, optA)
}

// average appends s = keep·s + (take·x)·y, or keep·s + take·x where y is negative.
func (e *vecEmitter) average(s, x, y int, keep, take string) {
	e.coef("VMULPS", keep, s, s)
	e.coef("VMULPS", take, x, optA)
	if y >= 0 {
		e.mulv(optA, optA, y)
	}
	e.addv(s, s, optA)
}

// state loads state i, and keep stores it.
func (e *vecEmitter) state(i int) {
	e.get(float32s, []string{"BX", "R9", "R10"}[i], optS0+i)
}

func (e *vecEmitter) keepState(i int) {
	e.put(float32s, optS0+i, []string{"BX", "R9", "R10"}[i])
}

func (e *vecEmitter) sgd(momentum, nesterov bool) func() {
	return func() {
		e.decay()
		if momentum {
			e.state(0)
			e.average(optS0, optG, -1, "momentum", "take") // k: Buffer, Grad
			e.keepState(0)
			if nesterov {
				e.coef("VMULPS", "nesterov", optS0, optA)
				e.addv(optG, optG, optA)
			} else {
				e.op("VMOVAPS", e.r(optS0), e.r(optG))
			}
		}
		e.coef("VMULPS", "lr", optG, optA)
		e.subv(optP, optP, optA)
	}
}

func (e *vecEmitter) adam(amsgrad bool) func() {
	return func() {
		e.coef("VMULPS", "decay", optP, optP)
		e.decay()
		e.state(0)
		e.average(optS0, optG, -1, "momentum", "take")
		e.keepState(0)
		e.state(1)
		e.average(optS1, optG, optG, "keep2", "take2")
		e.keepState(1)
		second := optS1
		if amsgrad {
			e.state(2)
			e.op("VMAXPS", e.r(optS1), e.r(optS2), e.r(optS2)) // the latter where one is a NaN
			e.keepState(2)
			second = optS2
		}
		e.op("VSQRTPS", e.r(second), e.r(optB))
		e.coef("VDIVPS", "correction", optB, optB)
		e.coef("VADDPS", "eps", optB, optB)
		e.coef("VMULPS", "lr", optS0, optA)
		e.divv(optA, optA, optB)
		e.subv(optP, optP, optA)
	}
}

func (e *vecEmitter) adadelta() {
	e.decay()
	e.state(0)
	e.average(optS0, optG, optG, "keep2", "take2")
	e.keepState(0)
	e.state(1)
	e.coef("VADDPS", "eps", optS1, optA)
	e.op("VSQRTPS", e.r(optA), e.r(optA))
	e.coef("VADDPS", "eps", optS0, optB)
	e.op("VSQRTPS", e.r(optB), e.r(optB))
	e.divv(optA, optA, optB)
	e.mulv(optG, optA, optG) // delta
	e.average(optS1, optG, optG, "keep2", "take2")
	e.keepState(1)
	e.coef("VMULPS", "lr", optG, optA)
	e.subv(optP, optP, optA)
}

// rmsprop's states are square_avg, then momentum_buffer, then grad_avg; those there are stand in the first places.
func (e *vecEmitter) rmsprop(momentum, centered bool) func() {
	return func() {
		e.decay()
		e.state(0)
		e.average(optS0, optG, optG, "keep2", "take2")
		e.keepState(0)
		avg := optS0
		if centered {
			i := 1
			if momentum {
				i = 2
			}
			e.state(i)
			e.average(optS0+i, optG, -1, "keep2", "take2")
			e.keepState(i)
			e.mulv(optA, optS0+i, optS0+i)
			e.subv(optA, optS0, optA)
			e.op("VMAXPS", e.r(optA), e.r(e.zero()), e.r(optB)) // a NaN stays
			avg = optB
		}
		e.op("VSQRTPS", e.r(avg), e.r(optB))
		e.coef("VADDPS", "eps", optB, optB)
		if !momentum {
			e.coef("VMULPS", "lr", optG, optA)
			e.divv(optA, optA, optB)
			e.subv(optP, optP, optA)
			return
		}
		e.divv(optG, optG, optB)
		e.state(1)
		e.coef("VMULPS", "momentum", optS1, optS1)
		e.addv(optS1, optS1, optG)
		e.keepState(1)
		e.coef("VMULPS", "lr", optS1, optA)
		e.subv(optP, optP, optA)
	}
}

func (e *vecEmitter) adagrad() {
	e.decay()
	e.state(0)
	e.mulv(optA, optG, optG)
	e.addv(optS0, optS0, optA)
	e.keepState(0)
	e.op("VSQRTPS", e.r(optS0), e.r(optB))
	e.coef("VADDPS", "eps", optB, optB)
	e.coef("VMULPS", "lr", optG, optA)
	e.divv(optA, optA, optB)
	e.subv(optP, optP, optA)
}
