package conformance

import (
	"fmt"
	"math"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// convBackwardForms are the combinations of what is merged into a backward pass.
func convBackwardForms() []program.Conv2DBackward {
	two, three, gaps := ref.Pool{Size: 2, Stride: 2}, ref.Pool{Size: 3, Stride: 2}, ref.Pool{Size: 2, Stride: 3}
	return []program.Conv2DBackward{
		{},
		{Bias: true, NeedX: true},
		{Bias: true, ReLU: true},
		{ReLU: true, NeedX: true, MaskX: true},
		{Bias: true, ReLU: true, NeedX: true, MaskX: true, Pool: two},
		{Bias: true, ReLU: true, NeedX: true, Pool: two},
		{Bias: true, Pool: two},
		{NeedX: true, Pool: three},
		{Bias: true, ReLU: true, NeedX: true, MaskX: true, Pool: three},
		{Bias: true, ReLU: true, NeedX: true, Pool: gaps},
	}
}

func convBackwardCases(m *maker) []testCase {
	if !m.has[program.FuseConvBackward] {
		return nil // Fuse never makes the instruction for this device
	}
	var cs []testCase
	for _, s := range m.convShapes() {
		for _, op := range convBackwardForms() {
			pooled := op.Pool.Size > 0
			if pooled && (!s.fits(op.Pool) || !m.has[program.FuseConvReLUPool] || op.ReLU && !m.has[program.FuseConvReLU]) {
				continue
			}
			op.Conv = s.Conv
			both(func(whole bool) { cs = append(cs, convBackwardCase(m, s, op, whole)) })
			if op.Pad == 0 && s.terms() > 1 && m.d != program.Float64 {
				cs = append(cs, notFiniteBackward(m, s, op))
			}
		}
	}
	return cs
}

// notFiniteBackward has a NaN and an infinity among the gradients that come in: they must reach the weight's gradient, else
// an overflow of the scaled loss would pass unseen. Without padding, where zeros times infinity may or may not count, all
// results are defined.
func notFiniteBackward(m *maker, s convShape, op program.Conv2DBackward) testCase {
	c := convBackwardCase(m, s, op, true)
	dy := c.in[2].put(m.r, math.NaN(), math.Inf(1))
	p := convPass{s: s, op: op, x: c.in[0], w: c.in[1]}
	if op.Pool.Size > 0 {
		p.idx = c.in[3].uint8s()
	}
	c.name = fmt.Sprintf("%+v gradients are not finite", s)
	c.out = p.gradients(m, c.in, dy, true)
	return c
}

// convPass is a forward pass in float64 and what its backward pass starts from.
type convPass struct {
	s       convShape
	op      program.Conv2DBackward
	x, w, b *tensor
	y       []float64 // of the layer: after ReLU and pool
	idx     []uint8
}

// layer is the layer's output as a function of x, w, b. With MaskX x is the output of a ReLU, whose input is given.
func (p convPass) layer(x, w, b []float64) (y []float64, idx []uint8) {
	if p.op.MaskX {
		x = activate(ref.ReLU, x)
	}
	y = p.s.forward(x, w, b)
	if p.op.ReLU {
		y = activate(ref.ReLU, y)
	}
	if p.op.Pool.Size == 0 {
		return y, nil
	}
	y, idx = maxPool(p.s.pooled(p.op.Pool), y)
	if p.op.ReLU {
		idx = deadWindows(p.op.Pool, idx, y)
	}
	return y, idx
}

func convBackwardCase(m *maker, s convShape, op program.Conv2DBackward, whole bool) testCase {
	p := convPass{s: s, op: op, b: m.normal32(1, s.OC)}
	before := m.draw(whole, m.d, 1, s.x()...)
	p.w = m.draw(whole, m.d, 1/math.Sqrt(float64(s.terms())), s.w()...)
	p.x = before
	if op.MaskX {
		p.x = tensorOf(m.d, activate(ref.ReLU, before.v), s.x()...)
	}
	p.y, p.idx = p.layer(before.v, p.w.v, p.b.v)
	shape := s.y()
	if op.Pool.Size > 0 {
		shape = s.pooled(op.Pool).out()
	}
	dy := m.draw(whole, m.d, 1, shape...)
	c := testCase{name: fmt.Sprintf("%+v %s", s, kindOf(whole)), op: op, in: []*tensor{p.x, p.w, dy}}
	if op.Pool.Size > 0 {
		c.in = append(c.in, tensorOf(program.Uint8, fromBytes(p.idx), shape...))
	} else if op.ReLU {
		c.in = append(c.in, tensorOf(m.d, p.y, shape...))
	}
	c.out = p.gradients(m, c.in, dy, whole)
	if !whole {
		wrt := []int{1}
		if op.Bias {
			wrt = append(wrt, 2)
		}
		if op.NeedX {
			wrt = append(wrt, 0)
		}
		c.numeric = &derivative{
			f:    func(a [][]float64) []float64 { y, _ := p.layer(a[0], a[1], a[2]); return y },
			args: [][]float64{before.v, p.w.v, p.b.v}, dy: dy.v, wrt: wrt,
		}
	}
	return c
}

// gradients are the expected outputs: dw, db, dx.
func (p convPass) gradients(m *maker, in []*tensor, dy *tensor, whole bool) []expect {
	s := p.s
	dz, dzErr := p.preactivation(m, in, dy)
	size, x, w := magnitude(dz), magnitude(p.x.v), magnitude(p.w.v)
	rows := product(s.y()) / s.OC
	dwErr := plus(sumError(rows, s.gradW(x, size)), s.gradW(x, dzErr))
	out := []expect{sums(whole, m.d, s.gradW(p.x.v, dz), dwErr, s.w()...)}
	if p.op.Bias {
		err := plus(sumError(rows, biasGrad(size, s.OC)), biasGrad(dzErr, s.OC))
		out = append(out, sums(whole, m.acc(), biasGrad(dz, s.OC), err, s.OC))
	}
	if p.op.NeedX {
		dx := s.gradX(p.w.v, dz)
		err := plus(sumError(s.KH*s.KW*s.OC, s.gradX(w, size)), s.gradX(w, dzErr))
		if p.op.MaskX {
			maskReLU(dx, err, p.x.v)
		}
		out = append(out, sums(whole, m.d, dx, err, s.x()...))
	}
	return out
}

// preactivation is the gradient at the convolution's own output and its error: where windows overlap the unfused chain rounds
// sums to the dtype, and a device may or may not.
func (p convPass) preactivation(m *maker, in []*tensor, dy *tensor) (dz, err []float64) {
	err = make([]float64, product(p.s.y()))
	switch {
	case p.op.Pool.Size > 0:
		dz = p.scatter(dy.v)
		if p.op.Pool.Stride < p.op.Pool.Size {
			for i, v := range p.scatter(magnitude(dy.v)) {
				err[i] = epsilon(m.d) * v
			}
		}
	case p.op.ReLU:
		dz = append([]float64(nil), dy.v...)
		maskReLU(dz, err, in[3].v)
	default:
		dz = dy.v
	}
	return dz, err
}

// scatter is the max pool's gradient, leaving out windows marked as dead.
func (p convPass) scatter(dy []float64) []float64 {
	pool := p.s.pooled(p.op.Pool)
	idx := append([]uint8(nil), p.idx...)
	g := append([]float64(nil), dy...)
	for i, k := range idx {
		if int(k) == pool.Size*pool.Size {
			idx[i], g[i] = 0, 0
		}
	}
	return maxPoolGrad(pool, idx, g)
}
