package conformance

import (
	"fmt"
	"math"
	"slices"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// activations are all kinds.
func activations() []ref.Activation {
	return []ref.Activation{ref.ReLU, ref.Sigmoid, ref.Tanh, ref.GELU, ref.GELUTanh}
}

// activate is the definition in float64.
func activate(kind ref.Activation, x []float64) []float64 {
	y := make([]float64, len(x))
	ref.Activate(kind, y, x)
	return y
}

// functionError allows a float32 implementation of a function so many units in the last place.
const functionError = 8 * eps32

func activationCases(m *maker) []testCase {
	var cs []testCase
	for _, kind := range activations() {
		for _, n := range m.sizes() {
			x := m.normal(3, 1, n)
			if n > 30 {
				x.put(m.r, math.NaN(), 0, math.Copysign(0, -1), 80, -80, 1e-5)
				if kind != ref.GELU && kind != ref.GELUTanh { // -inf times 0
					x.put(m.r, math.Inf(1), math.Inf(-1))
				}
			}
			y := activate(kind, x.v)
			out := exactly(m.d, rounded(m.d, y), 1, n)
			switch kind {
			case ref.Sigmoid, ref.Tanh:
				out = within(m.d, y, scaled(functionError, magnitude(y)), 1, n)
			case ref.GELU, ref.GELUTanh: // 1 + erf cancels: the error is that of 1, times x
				out = within(m.d, y, scaled(functionError, finite(x.v)), 1, n)
			}
			cs = append(cs, testCase{name: fmt.Sprintf("%s %d", kind, n), op: program.Activation{Kind: kind}, in: []*tensor{x}, out: []expect{out}})
		}
	}
	return cs
}

// finite is magnitude with zero for what is not finite.
func finite(v []float64) []float64 {
	r := magnitude(v)
	for i, x := range r {
		if x-x != 0 {
			r[i] = 0
		}
	}
	return r
}

func activationGradCases(m *maker) []testCase {
	var cs []testCase
	for _, kind := range activations() {
		for _, n := range m.sizes() {
			x, dy := m.normal(1.5, 1, n), m.normal(1, 1, n)
			saved := x
			if kind.SavesOutput() {
				saved = tensorOf(m.d, activate(kind, x.v), 1, n)
			}
			if kind == ref.ReLU && n > 30 && m.d != program.Float64 {
				saved.put(m.r, math.NaN(), 0, math.Copysign(0, -1), math.Inf(1))
				dy.put(m.r, math.Inf(1), math.NaN())
			}
			dx := make([]float64, n)
			ref.ActivateGrad(kind, dx, saved.v, dy.v)
			err := make([]float64, n)
			for i, s := range saved.v {
				switch kind {
				case ref.Sigmoid:
					err[i] = functionError * math.Abs(dx[i])
				case ref.Tanh: // 1 - y² cancels
					err[i] = functionError * math.Abs(dy.v[i])
				case ref.GELU, ref.GELUTanh:
					err[i] = functionError * math.Abs(dy.v[i]) * (1 + math.Abs(s))
				}
			}
			out := within(m.d, dx, err, 1, n)
			if kind == ref.ReLU {
				out = exactly(m.d, dx, 1, n)
			}
			cs = append(cs, testCase{
				name: fmt.Sprintf("%s %d", kind, n), op: program.ActivationGrad{Kind: kind}, in: []*tensor{saved, dy}, out: []expect{out},
				numeric: &derivative{
					f: func(a [][]float64) []float64 { return activate(kind, a[0]) }, args: [][]float64{x.v}, dy: dy.v, wrt: []int{0},
				},
			})
		}
	}
	return cs
}

// rowShapes are [M,C] of row-wise operations.
func (m *maker) rowShapes() [][2]int {
	if m.few {
		return [][2]int{{1, 1}, {3, 10}, {7, 33}}
	}
	return [][2]int{{1, 1}, {1, 10}, {3, 10}, {7, 33}, {13, 257}, {513, 10}, {2, 2049}}
}

func softmax(x []float64, c int) []float64 {
	y := make([]float64, len(x))
	ref.Softmax(y, x, c)
	return y
}

// softmaxCases are float32 whatever the dtype asked for: autocast casts softmax's operand.
func softmaxCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.rowShapes() {
		x := m.normal32(4, s[0], s[1])
		if s[0]*s[1] > 20 {
			x.put(m.r, 1e4, -1e4) // the maximum is subtracted first: no overflow
		}
		if s[0] > 3 {
			x.badRows(s[1])
		}
		y := softmax(x.v, s[1])
		err, top := make([]float64, len(y)), rowMaxima(x.v, s[1])
		for i := range y { // exp turns the rounding of x-max into a relative error; the sum has C terms
			err[i] = eps32 * (math.Abs(x.v[i]-top[i/s[1]]) + float64(s[1]) + 8) * y[i]
		}
		cs = append(cs, testCase{
			name: fmt.Sprint(s), op: program.Softmax{}, in: []*tensor{x}, out: []expect{within(m.acc(), y, err, s[0], s[1])},
		})
	}
	return cs
}

// badRows puts a NaN in the second row and an infinity in the fourth: nothing of them is finite after softmax.
func (t *tensor) badRows(c int) { t.v[c], t.v[4*c-1] = math.NaN(), math.Inf(1) }

// rowMaxima are the maxima of rows of c elements.
func rowMaxima(x []float64, c int) []float64 {
	r := make([]float64, len(x)/c)
	for i := range r {
		r[i] = slices.Max(x[i*c:][:c])
	}
	return r
}

func softmaxGradCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.rowShapes() {
		c := s[1]
		x, dy := m.normal32(2, s[0], c), m.normal32(1, s[0], c)
		y := tensorOf(m.acc(), softmax(x.v, c), s[0], c)
		dx, err := make([]float64, len(y.v)), make([]float64, len(y.v))
		ref.SoftmaxGrad(dx, y.v, dy.v, c)
		dots := make([]float64, s[0])
		for i := range dx {
			dots[i/c] += y.v[i] * math.Abs(dy.v[i])
		}
		for i := range dx {
			err[i] = eps32 * float64(c+4) * y.v[i] * (math.Abs(dy.v[i]) + dots[i/c])
		}
		cs = append(cs, testCase{
			name: fmt.Sprint(s), op: program.SoftmaxGrad{}, in: []*tensor{y, dy}, out: []expect{within(m.acc(), dx, err, s[0], c)},
			numeric: &derivative{f: func(a [][]float64) []float64 { return softmax(a[0], c) }, args: [][]float64{x.v}, dy: dy.v, wrt: []int{0}},
		})
	}
	return cs
}

func addCases(m *maker) []testCase {
	var cs []testCase
	for _, n := range m.sizes() {
		a, b := m.normal(1, 1, n), m.normal(1, 1, n)
		if n > 30 {
			a.put(m.r, math.NaN(), 65504, math.Inf(1), math.Inf(-1))
			b.put(m.r, 1, 65504, math.Inf(-1), math.Inf(-1)) // 65504 twice overflows in float16
		}
		want := make([]float64, n)
		for i := range want { // one addition in float32, then the dtype's rounding
			want[i] = round(m.d, float64(float32(a.v[i])+float32(b.v[i])))
		}
		cs = append(cs, testCase{name: fmt.Sprint(n), op: program.Add{}, in: []*tensor{a, b}, out: []expect{exactly(m.d, want, 1, n)}})
	}
	return cs
}

func reshapeCases(m *maker) []testCase {
	x := m.normal(1, 3, 5, 7, 2)
	return []testCase{{op: program.Reshape{}, in: []*tensor{x}, out: []expect{exactly(m.d, x.v, 3, 70)}}}
}

func constantCases(m *maker) []testCase {
	var cs []testCase
	for _, v := range []float32{1, 65536, -0.1} {
		cs = append(cs, testCase{
			name: fmt.Sprint(v), op: program.Constant{Value: v}, out: []expect{exactly(program.Float32, []float64{float64(v)})},
		})
	}
	return cs
}

// castCases converts from the case's dtype to all three.
func castCases(m *maker) []testCase {
	var cs []testCase
	for _, to := range []program.DType{program.Float32, program.Float16, program.BFloat16} {
		for _, n := range m.sizes() {
			x := newTensor(m.d, 1, n).fill(func() float64 { return math.Ldexp(m.r.NormFloat64(), m.r.IntN(60)-35) })
			if n > 30 {
				x.put(m.r, edges()...)
			}
			cs = append(cs, testCase{
				name: fmt.Sprintf("to %s %d", to, n), op: program.Cast{}, in: []*tensor{x}, out: []expect{exactly(to, rounded(to, x.v), 1, n)},
			})
		}
	}
	return cs
}

// edges are numbers where rounding to a half type is easily wrong: not finite, the borders of overflow, ties to even both
// ways, borders of the subnormals of float16.
func edges() []float64 {
	return []float64{
		math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1),
		65504, 65519.996, 65520, -65520, 3.3895e38, math.MaxFloat32,
		1 + 0x1p-11, 1 + 0x1.8p-10, 1 + 0x1p-8, 1 + 0x1.8p-7,
		0x1p-14, 0x1.ffcp-15, 0x1p-24, 0x1p-25, 0x1.8p-24, 0x1.000002p-25, 0x1p-26,
	}
}

// dropoutRates include the smallest and nearly everything.
func dropoutRates() []float32 { return []float32{0.4, 0.25, 0.5, 1e-6, 0.999} }

func dropoutCases(m *maker) []testCase {
	var cs []testCase
	for k, s := range [][]int{{1, 1}, {2, 13}, {3, 7, 7, 5}, {5, 128}, {4, 12, 12, 64}} {
		if m.few && k > 3 {
			break
		}
		op := program.Dropout{Rate: dropoutRates()[k], Layer: k, Seed: 0x123456789abcdef}
		x := m.normal(1, s...)
		if len(x.v) > 30 {
			x.put(m.r, math.NaN(), math.Inf(1), math.NaN(), math.Inf(-1)) // dropped elements are 0 all the same
		}
		counters := newTensor(program.Int32, program.NumCounters)
		counters.v[program.CounterEpoch], counters.v[program.CounterPosition] = float64(k), float64(512*k+3)
		mask := make([]uint8, len(x.v))
		ref.DropoutMask(mask, op.Rate, op.Seed, op.Layer, uint32(k), uint32(512*k+3), len(mask)/s[0], 0, s[0])
		cs = append(cs, testCase{
			name: fmt.Sprintf("%v rate %v", s, op.Rate), op: op, in: []*tensor{x, counters},
			out: []expect{exactly(m.d, applyMask(m.d, x.v, mask, op.Rate), s...), exactly(program.Uint8, fromBytes(mask), s...)},
		})
	}
	return cs
}

// applyMask is one multiplication in float32, then the dtype's rounding.
func applyMask(d program.DType, x []float64, mask []uint8, rate float32) []float64 {
	y := make([]float32, len(x))
	ref.ApplyMask(y, tensorOf(program.Float32, x, len(x)).float32s(), mask, rate)
	return rounded(d, fromFloat32s(y))
}

func applyMaskCases(m *maker) []testCase {
	var cs []testCase
	for k, n := range m.sizes() {
		rate := dropoutRates()[k%len(dropoutRates())]
		dy, mask := m.normal(1, 1, n), newTensor(program.Uint8, 1, n).fill(func() float64 { return float64(m.r.IntN(2)) })
		if n > 30 {
			dy.put(m.r, math.NaN(), math.Inf(1), math.NaN(), math.Inf(-1))
		}
		cs = append(cs, testCase{
			name: fmt.Sprintf("%d rate %v", n, rate), op: program.ApplyMask{Rate: rate}, in: []*tensor{dy, mask},
			out: []expect{exactly(m.d, applyMask(m.d, dy.v, mask.uint8s(), rate), 1, n)},
		})
	}
	return cs
}
