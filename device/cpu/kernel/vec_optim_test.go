package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"halfstep/program"
)

var testOptimizers = map[string]program.OptimizerStep{
	"sgd":                       program.SGDStep{},
	"sgd weight decay":          program.SGDStep{WeightDecay: 0.01},
	"sgd momentum":              program.SGDStep{Momentum: 0.9, Dampening: 0.1, WeightDecay: 0.01},
	"sgd nesterov":              program.SGDStep{Momentum: 0.9, Nesterov: true},
	"adam":                      program.AdamStep{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1},
	"adam amsgrad":              program.AdamStep{Beta1: 0.8, Beta2: 0.9, Eps: 1e-6, AMSGrad: true},
	"adamw":                     program.AdamStep{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1, Decoupled: true},
	"adadelta":                  program.AdadeltaStep{Rho: 0.9, Eps: 1e-6, WeightDecay: 0.01},
	"rmsprop":                   program.RMSPropStep{Alpha: 0.99, Eps: 1e-8},
	"rmsprop momentum":          program.RMSPropStep{Alpha: 0.9, Eps: 1e-8, Momentum: 0.9, WeightDecay: 0.1},
	"rmsprop centered":          program.RMSPropStep{Alpha: 0.9, Eps: 1e-8, Centered: true},
	"rmsprop centered momentum": program.RMSPropStep{Alpha: 0.9, Eps: 1e-8, Centered: true, Momentum: 0.5},
	"adagrad":                   program.AdagradStep{LRDecay: 0.1, Eps: 1e-10, WeightDecay: 0.1},
}

// guardedArray is an Array with guard bytes.
type guardedArray struct {
	Array
	wide guarded[float32]
	half guarded[uint16]
}

func newGuardedArray(d program.DType, n, offset int) guardedArray {
	a := guardedArray{Array: Array{DType: d}}
	if d.Half() {
		a.half = newGuarded[uint16](n, offset&^1)
		a.Half = a.half.data
	} else {
		a.wide = newGuarded[float32](n, offset&^3)
		a.Float32 = a.wide.data
	}
	return a
}

func (a guardedArray) check(t *testing.T, what string) {
	t.Helper()
	a.wide.check(t, what)
	a.half.check(t, what)
}

// Three steps of each optimizer, for each dtype of gradient and half copy, against the op's own Step, bit for bit.
func TestOptimizersAgainstStep(t *testing.T) {
	floats := []program.DType{program.Float32, program.Float16, program.BFloat16}
	forLevels(t, func(t *testing.T, v *Vec) {
		for name, op := range testOptimizers {
			o, err := v.NewOptimizer(op)
			if err != nil {
				t.Fatal(err)
			}
			for n := range 70 {
				for i, gd := range floats {
					testSteps(t, name, o, op, n, gd, floats[(n+i)%3])
				}
			}
			testSteps(t, name, o, op, 1000, program.BFloat16, program.BFloat16)
		}
	})
}

func testSteps(t *testing.T, name string, o *Optimizer, op program.OptimizerStep, n int, gd, hd program.DType) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 9))
	offset := n * 4 % 64
	p, grad, half := newGuarded[float32](n, offset), newGuardedArray(gd, n, offset), newGuardedArray(hd, n, 60-offset)
	b := Block{Param: p.data, Grad: grad.Array, GradScale: 1.0 / 3}
	if hd.Half() {
		b.Half = half.Array
	}
	wantP, wantState, unscaled := make([]float32, n), make([][]float32, len(op.States())), make([]float32, n)
	var states []guarded[float32]
	for k := range op.States() {
		states = append(states, newGuarded[float32](n, 4*k))
		b.State[k] = states[k].data
		clear(b.State[k])
		wantState[k] = make([]float32, n)
	}
	for i := range p.data {
		p.data[i] = float32(r.NormFloat64())
		wantP[i] = p.data[i]
	}
	for s := (program.StepScalars{LR: 0.1, Momentum: float32(math.NaN()), T: 1}); s.T <= 3; s.T++ {
		for i := range n {
			x := float32(r.NormFloat64()) * float32(math.Exp2(float64(r.IntN(20)-10)))
			switch gd {
			case program.Float16:
				grad.Half[i] = float16Codec.put(x)
			case program.BFloat16:
				grad.Half[i] = bfloat16Codec.put(x)
			default:
				grad.Float32[i] = x
			}
		}
		grad.unscale(unscaled, b.GradScale)
		op.Step(wantP, unscaled, wantState, s)
		o.Step(&b, s)
	}
	what := fmt.Sprintf("%s, %s gradient", name, gd)
	equalBits(t, what+": parameter", p.data, wantP)
	for k := range wantState {
		equalBits(t, what+": "+op.States()[k], b.State[k], wantState[k])
		states[k].check(t, name)
	}
	if hd.Half() {
		want := make([]uint16, n)
		if hd == program.Float16 {
			float16Codec.fromFloat32(want, wantP)
		} else {
			bfloat16Codec.fromFloat32(want, wantP)
		}
		for i := range want {
			if half.Half[i] != want[i] {
				t.Fatalf("%s: %s copy of %v is %#04x, want %#04x", name, hd, wantP[i], half.Half[i], want[i])
			}
		}
	}
	p.check(t, name)
	grad.check(t, name)
	half.check(t, name)
}

// The kernels run inside a step, where nothing may allocate.
func TestNoAllocation(t *testing.T) {
	forLevels(t, func(t *testing.T, v *Vec) {
		const n = 1003
		x, y, h, mask := make([]float32, n), make([]float32, n), make([]uint16, n), make([]uint8, n)
		d, squares, bad := NewDropoutStream(1, 2, 0.5), 0.0, int32(0)
		o, err := v.NewOptimizer(program.AdamStep{Beta1: 0.9, Beta2: 0.999})
		if err != nil {
			t.Fatal(err)
		}
		b := Block{
			Param: x, Grad: Array{DType: program.BFloat16, Half: h}, State: [3][]float32{y, make([]float32, n)},
			Half: Array{DType: program.Float16, Half: h},
		}
		if got := testing.AllocsPerRun(10, func() {
			v.DropoutMask(mask, d, 1, 2)
			v.Float16.ToFloat32(x, h)
			v.Float32.ApplyMask(y, x, mask, 2)
			v.Float32.SumColumns(y[:17], x[:17*59])
			v.BFloat16.GradStats(h, 1, &squares, &bad)
			o.Step(&b, program.StepScalars{LR: 1, T: 1})
		}); got != 0 {
			t.Errorf("%v allocations", got)
		}
	})
}
