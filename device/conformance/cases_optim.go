package conformance

import (
	"fmt"
	"math"

	"halfstep/program"
)

func sgdCases(m *maker) []testCase {
	return optimizerCases(m, program.SGDStep{}, program.SGDStep{WeightDecay: 0.01}, program.SGDStep{Momentum: 0.9, Dampening: 0.1},
		program.SGDStep{Momentum: 0.9, Nesterov: true, WeightDecay: 0.01})
}

func adamCases(m *maker) []testCase {
	adam := program.AdamStep{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01}
	adamW, amsgrad := adam, adam
	adamW.Decoupled = true
	amsgrad.AMSGrad = true
	return optimizerCases(m, adam, adamW, amsgrad)
}

func adadeltaCases(m *maker) []testCase {
	return optimizerCases(m, program.AdadeltaStep{Rho: 0.9, Eps: 1e-6}, program.AdadeltaStep{Rho: 0.95, Eps: 1e-6, WeightDecay: 0.01})
}

func rmspropCases(m *maker) []testCase {
	r := program.RMSPropStep{Alpha: 0.99, Eps: 1e-8, WeightDecay: 0.01}
	momentum, centered, all := r, r, r
	momentum.Momentum = 0.9
	centered.Centered = true
	all.Momentum, all.Centered = 0.9, true
	return optimizerCases(m, r, momentum, centered, all)
}

func adagradCases(m *maker) []testCase {
	return optimizerCases(m, program.AdagradStep{Eps: 1e-10, LRDecay: 0.01}, program.AdagradStep{Eps: 1e-10, WeightDecay: 0.01})
}

// optimizerCases run the first update, a later one with scheduled momentum, and a skipped one whose gradient has a NaN, with
// gradients of the case's dtype and every kind of half copy. Parameters, state and half copies must agree bit for bit with
// Step: its documentation defines every rounding.
func optimizerCases(m *maker, ops ...program.OptimizerStep) []testCase {
	var cs []testCase
	for _, op := range ops {
		for k, n := range m.sizes() {
			half := []program.DType{program.Float32, program.Float16, program.BFloat16}[k%3]
			for _, u := range []update{{t: 1, momentum: float32(math.NaN()), apply: 1}, {t: 7, momentum: 0.8, apply: 1}, {t: 8, apply: 0}} {
				cs = append(cs, u.make(m, op, n, half))
			}
		}
	}
	return cs
}

// update is one optimizer step.
type update struct {
	t        int32
	momentum float32
	apply    float32
}

func (u update) make(m *maker, op program.OptimizerStep, n int, half program.DType) testCase {
	const gradScale, lr = 0.0078125, 0.01
	g, p := m.normal(100, 1, n), m.normalOf(program.Float32, 1, 1, n)
	counters := newTensor(program.Int32, program.NumCounters)
	counters.v[program.CounterUpdates] = float64(u.t)
	newP, grad := p.float32s(), g.float32s()
	for i := range grad {
		grad[i] *= gradScale
	}
	var before []*tensor
	var state [][]float32
	for range op.States() {
		s := newTensor(program.Float32, 1, n)
		if u.t > 1 { // as squares are: not negative
			s.fill(func() float64 { return math.Abs(m.r.NormFloat64()) })
		}
		before, state = append(before, s), append(state, s.float32s())
	}
	if u.apply != 0 {
		op.Step(newP, grad, state, program.StepScalars{LR: lr, Momentum: u.momentum, T: u.t})
	} else {
		g.put(m.r, math.NaN(), math.Inf(1))
	}
	c := testCase{
		name: fmt.Sprintf("%d update %d apply %v half copy %s", n, u.t, u.apply, half), op: op,
		in:    []*tensor{g, control(u.apply, gradScale, lr, u.momentum), counters},
		inout: []change{{before: p, want: fromFloat32s(newP)}},
	}
	for k := range state {
		c.inout = append(c.inout, change{before: before[k], want: fromFloat32s(state[k])})
	}
	if half.Half() {
		old := m.normalOf(half, 1, 1, n)
		want := old.v
		if u.apply != 0 {
			want = rounded(half, fromFloat32s(newP))
		}
		c.inout = append(c.inout, change{before: old, want: want})
	}
	return c
}
