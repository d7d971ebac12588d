package conformance

import (
	"fmt"
	"math"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// linearShape is a linear layer's B, K, N.
type linearShape struct{ B, K, N int }

func (m *maker) linearShapes() []linearShape {
	few := []linearShape{{1, 1, 1}, {1, 7, 13}, {3, 33, 10}, {17, 40, 65}}
	if m.few {
		return few
	}
	return append(few, linearShape{5, 784, 16}, linearShape{64, 128, 129}, linearShape{33, 9, 300}, linearShape{2, 1500, 33}, linearShape{130, 65, 7})
}

// linear is y = x·w + b in float64; b may be nil.
func linear(x, w, b []float64, s linearShape) []float64 {
	y := make([]float64, s.B*s.N)
	ref.Linear(y, x, w, b, s.K, s.N)
	return y
}

func linearGradX(dy, w []float64, s linearShape) []float64 {
	dx := make([]float64, s.B*s.K)
	ref.LinearGradX(dx, dy, w, s.K, s.N)
	return dx
}

func linearGradW(x, dy []float64, s linearShape) []float64 {
	dw := make([]float64, s.K*s.N)
	ref.LinearGradW(dw, x, dy, s.K, s.N, 0, s.K)
	return dw
}

func biasGrad(dy []float64, c int) []float64 {
	db := make([]float64, c)
	ref.BiasGrad(db, dy, c, 0, c)
	return db
}

// both calls f for whole numbers and for normal ones.
func both(f func(whole bool)) {
	f(true)
	f(false)
}

func kindOf(whole bool) string {
	if whole {
		return "whole numbers"
	}
	return "normal numbers"
}

func linearCases(m *maker) []testCase {
	var cs []testCase
	for n, s := range m.linearShapes() {
		both(func(whole bool) {
			for _, bias := range []bool{false, true} {
				op := program.Linear{Bias: bias, ReLU: bias != (n%2 == 0) && m.has[program.FuseLinearReLU]}
				x, w := m.draw(whole, m.d, 1, s.B, s.K), m.draw(whole, m.d, 1/math.Sqrt(float64(s.K)), s.K, s.N)
				in := []*tensor{x, w}
				var b, size []float64
				if bias {
					in = append(in, m.draw(whole, m.acc(), 1, s.N))
					b = in[2].v
					size = magnitude(b)
				}
				y, err := linear(x.v, w.v, b, s), sumError(s.K+1, linear(magnitude(x.v), magnitude(w.v), size, s))
				if op.ReLU {
					y = activate(ref.ReLU, y)
				}
				cs = append(cs, testCase{
					name: fmt.Sprintf("%+v bias=%t %s", s, bias, kindOf(whole)), op: op, in: in, out: []expect{sums(whole, m.d, y, err, s.B, s.N)},
				})
			}
		})
	}
	return append(cs, notFiniteLinear(m)...)
}

// notFiniteLinear has an infinity and a NaN among the operands: their rows and columns are not finite, the rest is, and ReLU
// lets a NaN through. Without that a scaled loss that overflows would pass unseen.
func notFiniteLinear(m *maker) []testCase {
	s := linearShape{5, 19, 21}
	var cs []testCase
	for _, relu := range []bool{false, true} {
		if relu && !m.has[program.FuseLinearReLU] || m.d == program.Float64 {
			continue
		}
		x, w := m.integers(m.d, 2, s.B, s.K), m.integers(m.d, 2, s.K, s.N)
		x.v[0], x.v[s.K], w.v[3*s.N+7] = math.NaN(), math.Inf(1), math.Inf(-1)
		y := linear(x.v, w.v, nil, s)
		if relu {
			y = activate(ref.ReLU, y)
		}
		cs = append(cs, testCase{
			name: fmt.Sprintf("not finite, relu=%t", relu), op: program.Linear{ReLU: relu}, in: []*tensor{x, w},
			out: []expect{exactly(m.d, rounded(m.d, y), s.B, s.N)},
		})
	}
	return cs
}

func linearGradXCases(m *maker) []testCase {
	var cs []testCase
	for n, s := range m.linearShapes() {
		both(func(whole bool) {
			op := program.LinearGradX{MaskX: n%2 == 1 && m.has[program.FuseLinearGrads]}
			dy, w := m.draw(whole, m.d, 1, s.B, s.N), m.draw(whole, m.d, 1/math.Sqrt(float64(s.N)), s.K, s.N)
			x := m.draw(whole, m.d, 1, s.B, s.K)
			dx, err := linearGradX(dy.v, w.v, s), sumError(s.N, linearGradX(magnitude(dy.v), magnitude(w.v), s))
			in := []*tensor{dy, w}
			f := func(a [][]float64) []float64 { return linear(a[0], w.v, nil, s) }
			if op.MaskX {
				in = append(in, x)
				maskReLU(dx, err, x.v)
				f = func(a [][]float64) []float64 { return linear(activate(ref.ReLU, a[0]), w.v, nil, s) }
			}
			c := testCase{name: fmt.Sprintf("%+v %s", s, kindOf(whole)), op: op, in: in, out: []expect{sums(whole, m.d, dx, err, s.B, s.K)}}
			if !whole {
				c.numeric = &derivative{f: f, args: [][]float64{x.v}, dy: dy.v, wrt: []int{0}}
			}
			cs = append(cs, c)
			if whole && m.d != program.Float64 {
				c.name = fmt.Sprintf("%+v gradients are not finite", s)
				c.in = append([]*tensor{m.integers(m.d, 2, s.B, s.N).put(m.r, math.NaN(), math.Inf(1))}, in[1:]...)
				dx := linearGradX(c.in[0].v, w.v, s)
				if op.MaskX {
					maskReLU(dx, err, x.v)
				}
				c.out = []expect{exactly(m.d, rounded(m.d, dx), s.B, s.K)}
				cs = append(cs, c)
			}
		})
	}
	return cs
}

// maskReLU zeroes gradients, and their errors, where x is not above zero.
func maskReLU(dx, err, x []float64) {
	for i, v := range x {
		if !(v > 0) {
			dx[i], err[i] = 0, 0
		}
	}
}

func linearGradWCases(m *maker) []testCase {
	var cs []testCase
	for n, s := range m.linearShapes() {
		both(func(whole bool) {
			op := program.LinearGradW{Bias: n%2 == 1 && m.has[program.FuseLinearGrads]}
			x, dy := m.draw(whole, m.d, 1, s.B, s.K), m.draw(whole, m.d, 1, s.B, s.N)
			w := m.normal(1, s.K, s.N)
			dw, err := linearGradW(x.v, dy.v, s), sumError(s.B, linearGradW(magnitude(x.v), magnitude(dy.v), s))
			out := []expect{sums(whole, m.d, dw, err, s.K, s.N)}
			wrt := []int{0}
			if op.Bias {
				out = append(out, sums(whole, m.acc(), biasGrad(dy.v, s.N), sumError(s.B, biasGrad(magnitude(dy.v), s.N)), s.N))
				wrt = append(wrt, 1)
			}
			c := testCase{name: fmt.Sprintf("%+v %s", s, kindOf(whole)), op: op, in: []*tensor{x, dy}, out: out}
			if !whole {
				c.numeric = &derivative{
					f:    func(a [][]float64) []float64 { return linear(x.v, a[0], a[1], s) },
					args: [][]float64{w.v, make([]float64, s.N)}, dy: dy.v, wrt: wrt,
				}
			}
			cs = append(cs, c)
			if whole && m.d != program.Float64 {
				c.name = fmt.Sprintf("%+v gradients are not finite", s)
				c.in = []*tensor{x, m.integers(m.d, 2, s.B, s.N).put(m.r, math.NaN(), math.Inf(1))}
				c.out = []expect{exactly(m.d, rounded(m.d, linearGradW(x.v, c.in[1].v, s)), s.K, s.N)}
				if op.Bias {
					c.out = append(c.out, exactly(m.acc(), biasGrad(c.in[1].v, s.N), s.N))
				}
				cs = append(cs, c)
			}
		})
	}
	return cs
}

func biasGradCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.channelShapes() {
		both(func(whole bool) {
			dy := m.draw(whole, m.d, 1, s...)
			if whole && m.d != program.Float64 {
				dy.put(m.r, math.NaN(), math.Inf(1))
			}
			c := s[len(s)-1]
			err := sumError(len(dy.v)/c, biasGrad(magnitude(dy.v), c))
			cs = append(cs, testCase{
				name: fmt.Sprintf("%v %s", s, kindOf(whole)), op: program.BiasGrad{}, in: []*tensor{dy},
				out: []expect{sums(whole, m.acc(), biasGrad(dy.v, c), err, c)},
			})
		})
	}
	return cs
}

// channelShapes are [...,C] of operations that sum over all but the last dimension.
func (m *maker) channelShapes() [][]int {
	few := [][]int{{2, 1}, {5, 7}, {2, 3, 3, 13}, {3, 33}}
	if m.few {
		return few
	}
	return append(few, []int{2, 28, 28, 5}, []int{33, 7, 7, 64}, []int{130, 257}, []int{3, 2, 2, 2049})
}
