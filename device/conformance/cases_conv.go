package conformance

import (
	"fmt"
	"math"
	"slices"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// convForms are what may be fused into a convolution by the device's rules.
func (m *maker) convForms() []program.Conv2D {
	two, three, gaps := ref.Pool{Size: 2, Stride: 2}, ref.Pool{Size: 3, Stride: 2}, ref.Pool{Size: 2, Stride: 3}
	forms := []program.Conv2D{
		{},
		{Bias: true},
		{Bias: true, ReLU: true},
		{Bias: true, ReLU: true, Pool: two},
		{Bias: true, Pool: two},
		{ReLU: true, Pool: three},
		{Pool: three},
		{Bias: true, ReLU: true, Pool: gaps},
	}
	return slices.DeleteFunc(forms, func(o program.Conv2D) bool {
		return o.ReLU && !m.has[program.FuseConvReLU] || o.Pool.Size > 0 && !m.has[program.FuseConvReLUPool]
	})
}

func convCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.convShapes() {
		for _, op := range m.convForms() {
			if op.Pool.Size > 0 && !s.fits(op.Pool) {
				continue
			}
			op.Conv = s.Conv
			both(func(whole bool) { cs = append(cs, convCase(m, s, op, whole)) })
		}
	}
	return append(cs, notFiniteConv(m)...)
}

func convCase(m *maker, s convShape, op program.Conv2D, whole bool) testCase {
	x, w := m.draw(whole, m.d, 1, s.x()...), m.draw(whole, m.d, 1/math.Sqrt(float64(s.terms())), s.w()...)
	in := []*tensor{x, w}
	var b, size []float64
	if op.Bias {
		in = append(in, m.draw(whole, m.acc(), 1, s.OC))
		b = in[2].v
		size = magnitude(b)
	}
	z, err := s.forward(x.v, w.v, b), sumError(s.terms()+1, s.forward(magnitude(x.v), magnitude(w.v), size))
	c := testCase{name: fmt.Sprintf("%+v bias=%t %s", s, op.Bias, kindOf(whole)), op: op, in: in}
	if op.Pool.Size > 0 {
		convPool(m, &c, s, op, z, err, whole)
		return c
	}
	if op.ReLU {
		z = activate(ref.ReLU, z)
	}
	c.out = []expect{sums(whole, m.d, z, err, s.y()...)}
	return c
}

// convPool fills in the outputs of a convolution with a pool, z being the convolution's sums. Sums are rounded to the dtype
// before they are compared. Where sums are not exact, two that are nearly equal may come in either order: then any position is
// right whose sum reaches the maximum within both tolerances.
func convPool(m *maker, c *testCase, s convShape, op program.Conv2D, z, err []float64, whole bool) {
	p := s.pooled(op.Pool)
	if op.ReLU {
		z = activate(ref.ReLU, z)
	}
	y, idx := maxPool(p, rounded(m.d, z))
	if op.ReLU {
		idx = deadWindows(op.Pool, idx, y)
	}
	if whole {
		c.out = []expect{exactly(m.d, y, p.out()...), exactly(program.Uint8, fromBytes(idx), p.out()...)}
		return
	}
	tol := stores(m.d, z, err)
	most, _ := maxPool(p, tol) // a maximum errs by at most the largest error in its window
	want, _ := maxPool(p, z)
	c.out = []expect{{like: newTensor(m.d, p.out()...), want: want, tol: most}, judged(program.Uint8, p.out()...)}
	c.judge = func(got [][]float64) error {
		for o, k := range got[1] {
			if op.ReLU && int(k) == op.Pool.Size*op.Pool.Size {
				if want[o] > most[o] {
					return fmt.Errorf("window %d is marked as not above zero, its maximum is %v ± %.2g", o, want[o], most[o])
				}
				continue
			}
			if int(k) >= op.Pool.Size*op.Pool.Size {
				return fmt.Errorf("argmax of window %d is %v in a window of %d", o, k, op.Pool.Size*op.Pool.Size)
			}
			at := p.position(o, int(k))
			if z[at] < want[o]-most[o]-tol[at] {
				return fmt.Errorf("argmax of window %d is %v with %v, its maximum is %v ± %.2g", o, k, z[at], want[o], most[o])
			}
		}
		return nil
	}
}

// position is the index in [B,H,W,C] of element k of the window of output element o.
func (s poolShape) position(o, k int) int {
	out := s.out()
	c, pw, ph, n := o%s.C, o/s.C%out[2], o/(s.C*out[2])%out[1], o/(s.C*out[2]*out[1])
	return ((n*s.H+ph*s.Stride+k/s.Size)*s.W+pw*s.Stride+k%s.Size)*s.C + c
}

// notFiniteConv has a NaN and infinities in the image: they must reach the output, through ReLU and the pool too. The NaN is
// positive and negative, and in each position of a window.
func notFiniteConv(m *maker) []testCase {
	if m.d == program.Float64 {
		return nil
	}
	s := convShape{square(3, 1, 1), 1, 8, 8, 16, 35}
	var cs []testCase
	for _, op := range m.convForms() {
		op.Conv = s.Conv
		for k, bad := range []float64{math.NaN(), math.Copysign(math.NaN(), -1), math.Inf(1), math.Inf(-1)} {
			x, w := m.integers(m.d, 2, s.x()...), m.integers(m.d, 2, s.w()...)
			x.v[((3+k/2)*s.W+3+k%2)*s.C+5] = bad
			in := []*tensor{x, w}
			var b []float64
			if op.Bias {
				in = append(in, m.integers(m.acc(), 2, s.OC))
				b = in[2].v
			}
			z := s.forward(x.v, w.v, b)
			c := testCase{name: fmt.Sprintf("an element is %v, bias=%t", bad, op.Bias), op: op, in: in}
			if op.Pool.Size > 0 {
				convPool(m, &c, s, op, z, nil, true)
			} else {
				if op.ReLU {
					z = activate(ref.ReLU, z)
				}
				c.out = []expect{exactly(m.d, rounded(m.d, z), s.y()...)}
			}
			cs = append(cs, c)
		}
	}
	return cs
}

func convGradXCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.convShapes() {
		both(func(whole bool) {
			w, dy := m.draw(whole, m.d, 1/math.Sqrt(float64(s.terms())), s.w()...), m.draw(whole, m.d, 1, s.y()...)
			dx, err := s.gradX(w.v, dy.v), sumError(s.KH*s.KW*s.OC, s.gradX(magnitude(w.v), magnitude(dy.v)))
			c := testCase{
				name: fmt.Sprintf("%+v %s", s, kindOf(whole)), op: program.Conv2DGradX{Conv: s.Conv}, in: []*tensor{w, dy},
				out: []expect{sums(whole, m.d, dx, err, s.x()...)},
			}
			if !whole {
				c.numeric = &derivative{
					f:    func(a [][]float64) []float64 { return s.forward(a[0], w.v, nil) },
					args: [][]float64{m.normal(1, s.x()...).v}, dy: dy.v, wrt: []int{0},
				}
			}
			cs = append(cs, c)
		})
	}
	return cs
}

func convGradWCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.convShapes() {
		both(func(whole bool) {
			x, dy := m.draw(whole, m.d, 1, s.x()...), m.draw(whole, m.d, 1, s.y()...)
			terms := product(s.y()) / s.OC
			dw, err := s.gradW(x.v, dy.v), sumError(terms, s.gradW(magnitude(x.v), magnitude(dy.v)))
			c := testCase{
				name: fmt.Sprintf("%+v %s", s, kindOf(whole)), op: program.Conv2DGradW{Conv: s.Conv}, in: []*tensor{x, dy},
				out: []expect{sums(whole, m.d, dw, err, s.w()...)},
			}
			if !whole {
				c.numeric = &derivative{
					f:    func(a [][]float64) []float64 { return s.forward(x.v, a[0], nil) },
					args: [][]float64{m.normal(1, s.w()...).v}, dy: dy.v, wrt: []int{0},
				}
			}
			cs = append(cs, c)
		})
	}
	return cs
}
