package program

import (
	"slices"

	"halfstep/model/op/ref"
)

// Activation applies a nonlinearity to each element.
//
// In: x. Out: y of x's shape and dtype.
type Activation struct{ Kind ref.Activation }

// Name implements Op.
func (o Activation) Name() string { return o.Kind.String() }

// Check implements Op.
func (o Activation) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(1), n(1), n(0))
	return c.elementwise().err
}

// ActivationGrad is dx = dy · f'. The saved operand is the output for relu, sigmoid and tanh, the input for gelu.
//
// In: saved, dy. Out: dx.
type ActivationGrad struct{ Kind ref.Activation }

// Name implements Op.
func (o ActivationGrad) Name() string { return o.Kind.String() + "_grad" }

// Check implements Op.
func (o ActivationGrad) Check(in, out, inout []*Value) error {
	return check(o, in, out, inout).count(n(2), n(1), n(0)).elementwise().err
}

// elementwise wants all operands to be floats of one shape and dtype.
func (c *checker) elementwise() *checker {
	if !c.ok() {
		return c
	}
	all := slices.Concat(c.in, c.out)
	c.float(all...).same(all...)
	for _, v := range all[1:] {
		c.shape(v, all[0].Shape...)
	}
	return c
}

// Softmax normalises each row: exp(x-max)/sum.
//
// In: x Float32 [B,C]. Out: y Float32 [B,C].
type Softmax struct{}

// Name implements Op.
func (Softmax) Name() string { return "softmax" }

// Check implements Op.
func (o Softmax) Check(in, out, inout []*Value) error {
	return check(o, in, out, inout).count(n(1), n(1), n(0)).elementwise().rows().err
}

// rows wants float32 matrices.
func (c *checker) rows() *checker {
	if c.ok() {
		c.rank(c.in[0], 2).dtype(c.in[0], Float32)
	}
	return c
}

// SoftmaxGrad is dx = y·(dy - sum(y·dy)), row by row.
//
// In: y, dy Float32 [B,C]. Out: dx Float32 [B,C].
type SoftmaxGrad struct{}

// Name implements Op.
func (SoftmaxGrad) Name() string { return "softmax_grad" }

// Check implements Op.
func (o SoftmaxGrad) Check(in, out, inout []*Value) error {
	return check(o, in, out, inout).count(n(2), n(1), n(0)).elementwise().rows().err
}

// Add is the sum of two tensors: a residual connection, or two gradients of one value.
//
// In: a, b. Out: a+b.
type Add struct{}

// Name implements Op.
func (Add) Name() string { return "add" }

// Check implements Op.
func (o Add) Check(in, out, inout []*Value) error {
	return check(o, in, out, inout).count(n(2), n(1), n(0)).elementwise().err
}

// Reshape is another view of the same bytes; it costs nothing.
//
// In: x. Out: y with as many elements; its Alias is x.
type Reshape struct{}

// Name implements Op.
func (Reshape) Name() string { return "reshape" }

// Check implements Op.
func (o Reshape) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(1), n(1), n(0))
	if c.ok() && (in[0].Elems() != out[0].Elems() || in[0].DType != out[0].DType || out[0].Alias != in[0]) {
		c.failf("%s is no view of %s", out[0], in[0])
	}
	return c.err
}

// MaxPool2D is the maximum of each window and its position; the first of equal maxima wins.
//
// In: x [B,H,W,C]. Out: y [B,PH,PW,C], idx Uint8 of y's shape (row-major position in the window) unless nobody reads it.
type MaxPool2D struct{ ref.Pool }

// Name implements Op.
func (MaxPool2D) Name() string { return "max_pool2d" }

// Check implements Op.
func (o MaxPool2D) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(1), [2]int{1, 2}, n(0)).pooled(o.Pool)
	if c.ok() && len(out) == 2 {
		c.shape(out[1], out[0].Shape...).dtype(out[1], Uint8)
	}
	return c.err
}

// MaxPool2DGrad scatters dy to where the maxima were; all else is zero.
//
// In: idx Uint8, dy [B,PH,PW,C]. Out: dx [B,H,W,C].
type MaxPool2DGrad struct{ ref.Pool }

// Name implements Op.
func (MaxPool2DGrad) Name() string { return "max_pool2d_grad" }

// Check implements Op.
func (o MaxPool2DGrad) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(2), n(1), n(0))
	if c.ok() && c.rank(out[0], 4).float(out[0]).same(in[1], out[0]).dtype(in[0], Uint8).ok() {
		s := out[0].Shape
		ph, pw := o.Out(s[1], s[2])
		c.shape(in[1], s[0], ph, pw, s[3]).shape(in[0], s[0], ph, pw, s[3])
	}
	return c.err
}

// AvgPool2D is the mean of each window.
//
// In: x [B,H,W,C]. Out: y [B,PH,PW,C].
type AvgPool2D struct{ ref.Pool }

// Name implements Op.
func (AvgPool2D) Name() string { return "avg_pool2d" }

// Check implements Op.
func (o AvgPool2D) Check(in, out, inout []*Value) error {
	return check(o, in, out, inout).count(n(1), n(1), n(0)).pooled(o.Pool).err
}

// AvgPool2DGrad spreads dy evenly over each window; windows may overlap.
//
// In: dy [B,PH,PW,C]. Out: dx [B,H,W,C].
type AvgPool2DGrad struct{ ref.Pool }

// Name implements Op.
func (AvgPool2DGrad) Name() string { return "avg_pool2d_grad" }

// Check implements Op.
func (o AvgPool2DGrad) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(1), n(1), n(0))
	if c.ok() && c.rank(out[0], 4).float(out[0]).same(in[0], out[0]).ok() {
		s := out[0].Shape
		ph, pw := o.Out(s[1], s[2])
		c.shape(in[0], s[0], ph, pw, s[3])
	}
	return c.err
}

func (c *checker) pooled(p ref.Pool) *checker {
	if c.ok() && c.rank(c.in[0], 4).float(c.in[0]).same(c.in[0], c.out[0]).ok() {
		s := c.in[0].Shape
		ph, pw := p.Out(s[1], s[2])
		c.shape(c.out[0], s[0], ph, pw, s[3])
	}
	return c
}

// Dropout draws the mask and applies it: y = x/(1-Rate) where the mask is 1, else 0. A mask element is 1 when the
// Philox word of (Seed, philox.Dropout+Layer; epoch, position in the epoch of the sample, element of the sample) is at
// least Rate·2³².
//
// In: x [B,...], counters. Out: y, mask Uint8 of x's shape.
type Dropout struct {
	Rate  float32
	Layer int // number of the dropout layer in the model, from 0
	Seed  uint64
}

// Name implements Op.
func (Dropout) Name() string { return "dropout" }

// Check implements Op.
func (o Dropout) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(2), n(2), n(0))
	if c.ok() {
		c.counters(in[1]).float(in[0]).same(in[0], out[0]).shape(out[0], in[0].Shape...).shape(out[1], in[0].Shape...).dtype(out[1], Uint8)
	}
	return c.err
}

// ApplyMask is dropout's gradient: dx = dy/(1-Rate) where the mask is 1, else 0.
//
// In: dy, mask Uint8. Out: dx.
type ApplyMask struct{ Rate float32 }

// Name implements Op.
func (ApplyMask) Name() string { return "apply_mask" }

// Check implements Op.
func (o ApplyMask) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(2), n(1), n(0))
	if c.ok() {
		c.float(in[0]).same(in[0], out[0]).shape(out[0], in[0].Shape...).shape(in[1], in[0].Shape...).dtype(in[1], Uint8)
	}
	return c.err
}
