package conformance

import (
	"fmt"
	"math"
	"slices"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// poolShape is a pool over images [B,H,W,C].
type poolShape struct {
	ref.Pool
	B, H, W, C int
}

func (s poolShape) in() []int { return []int{s.B, s.H, s.W, s.C} }

func (s poolShape) out() []int {
	ph, pw := s.Out(s.H, s.W)
	return []int{s.B, ph, pw, s.C}
}

func (s poolShape) outElems() int {
	o := s.out()
	return o[0] * o[1] * o[2] * o[3]
}

// poolShapes: odd images whose last row and column are dropped, overlapping windows, gaps between windows, one window.
func (m *maker) poolShapes() []poolShape {
	few := []poolShape{
		{ref.Pool{Size: 2, Stride: 2}, 1, 2, 2, 1},
		{ref.Pool{Size: 2, Stride: 2}, 2, 7, 5, 3},
		{ref.Pool{Size: 3, Stride: 2}, 1, 7, 9, 13},
		{ref.Pool{Size: 3, Stride: 3}, 2, 8, 8, 16},
		{ref.Pool{Size: 2, Stride: 3}, 1, 9, 6, 5},
		{ref.Pool{Size: 1, Stride: 1}, 1, 3, 3, 2},
	}
	if m.few {
		return few
	}
	return append(few,
		poolShape{ref.Pool{Size: 3, Stride: 1}, 1, 6, 5, 33}, poolShape{ref.Pool{Size: 2, Stride: 2}, 3, 24, 24, 64},
		poolShape{ref.Pool{Size: 15, Stride: 15}, 1, 31, 15, 4}, poolShape{ref.Pool{Size: 2, Stride: 1}, 2, 5, 5, 17})
}

func maxPool(s poolShape, x []float64) (y []float64, idx []uint8) {
	y, idx = make([]float64, s.outElems()), make([]uint8, s.outElems())
	ref.MaxPool2D(s.Pool, y, idx, x, s.H, s.W, s.C, 0, s.B)
	return y, idx
}

func maxPoolGrad(s poolShape, idx []uint8, dy []float64) []float64 {
	dx := make([]float64, s.B*s.H*s.W*s.C)
	ref.MaxPool2DGrad(s.Pool, dx, idx, dy, s.H, s.W, s.C, 0, s.B)
	return dx
}

func avgPool(s poolShape, x []float64) []float64 {
	y := make([]float64, s.outElems())
	ref.AvgPool2D(s.Pool, y, x, s.H, s.W, s.C, 0, s.B)
	return y
}

func avgPoolGrad(s poolShape, dy []float64) []float64 {
	dx := make([]float64, s.B*s.H*s.W*s.C)
	ref.AvgPool2DGrad(s.Pool, dx, dy, s.H, s.W, s.C, 0, s.B)
	return dx
}

// maxPoolCases use few different numbers, so that most windows have ties, and some NaNs and infinities.
func maxPoolCases(m *maker) []testCase {
	var cs []testCase
	for n, s := range m.poolShapes() {
		x := m.integers(m.d, 2, s.in()...)
		if n%2 == 1 {
			x.put(m.r, math.NaN(), math.NaN(), math.Inf(1), math.Inf(-1), math.NaN())
		}
		y, idx := maxPool(s, x.v)
		c := testCase{
			name: fmt.Sprintf("%+v", s), op: program.MaxPool2D{Pool: s.Pool}, in: []*tensor{x},
			out: []expect{exactly(m.d, y, s.out()...), exactly(program.Uint8, fromBytes(idx), s.out()...)},
		}
		cs = append(cs, c)
		c.name, c.out = c.name+" without argmax", c.out[:1] // evaluation
		cs = append(cs, c)
	}
	return cs
}

func maxPoolGradCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.poolShapes() {
		both(func(whole bool) {
			x, dy := m.normal(1, s.in()...), m.draw(whole, m.d, 1, s.out()...)
			_, idx := maxPool(s, x.v)
			dx, err := maxPoolGrad(s, idx, dy.v), sumError(s.Size*s.Size, maxPoolGrad(s, idx, magnitude(dy.v)))
			exact := whole || s.Stride >= s.Size // no two windows share a pixel
			c := testCase{
				name: fmt.Sprintf("%+v %s", s, kindOf(whole)), op: program.MaxPool2DGrad{Pool: s.Pool},
				in:  []*tensor{tensorOf(program.Uint8, fromBytes(idx), s.out()...), dy},
				out: []expect{sums(exact, m.d, dx, err, s.in()...)},
			}
			if !whole {
				c.numeric = &derivative{
					f:    func(a [][]float64) []float64 { y, _ := maxPool(s, a[0]); return y },
					args: [][]float64{x.v}, dy: dy.v, wrt: []int{0},
				}
			}
			cs = append(cs, c)
		})
	}
	return cs
}

func avgPoolCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.poolShapes() {
		x := m.normal(1, s.in()...)
		err := sumError(s.Size*s.Size, avgPool(s, magnitude(x.v)))
		cs = append(cs, testCase{
			name: fmt.Sprintf("%+v", s), op: program.AvgPool2D{Pool: s.Pool}, in: []*tensor{x},
			out: []expect{within(m.d, avgPool(s, x.v), err, s.out()...)},
		})
	}
	return cs
}

func avgPoolGradCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.poolShapes() {
		x, dy := m.normal(1, s.in()...), m.normal(1, s.out()...)
		err := sumError(s.Size*s.Size, avgPoolGrad(s, magnitude(dy.v)))
		cs = append(cs, testCase{
			name: fmt.Sprintf("%+v", s), op: program.AvgPool2DGrad{Pool: s.Pool}, in: []*tensor{dy},
			out: []expect{within(m.d, avgPoolGrad(s, dy.v), err, s.in()...)},
			numeric: &derivative{
				f: func(a [][]float64) []float64 { return avgPool(s, a[0]) }, args: [][]float64{x.v}, dy: dy.v, wrt: []int{0},
			},
		})
	}
	return cs
}

// deadWindows is idx with the value that marks windows whose maximum y is not above zero.
func deadWindows(p ref.Pool, idx []uint8, y []float64) []uint8 {
	r := slices.Clone(idx)
	for i, v := range y {
		if !(v > 0) {
			r[i] = uint8(p.Size * p.Size)
		}
	}
	return r
}
