package program

import "halfstep/model/op/ref"

// Conv2D is a cross-correlation. y = x*w + b, then what has been fused into it: ReLU, then a max pool with its argmax.
//
// In: x [B,H,W,C], w [KH,KW,C,OC] of x's dtype, b Float32 [OC] when Bias. Out: y [B,OH,OW,OC] of x's dtype; with Pool.Size > 0 y is
// the pooled [B,PH,PW,OC] and a second output is the argmax Uint8 of y's shape (row-major position in the window; with
// ReLU the value Pool.Size*Pool.Size marks a window whose maximum is not above zero). Accumulates in float32. The pool
// compares values rounded to y's dtype and the first maximum wins, as unfused.
type Conv2D struct {
	ref.Conv
	Bias bool
	ReLU bool
	Pool ref.Pool // Size 0: none
}

// Name implements Op.
func (o Conv2D) Name() string {
	s := "conv2d"
	if o.ReLU {
		s += "_relu"
	}
	if o.Pool.Size > 0 {
		s += "_max_pool"
	}
	return s
}

// Check implements Op.
func (o Conv2D) Check(in, out, inout []*Value) error {
	ins, outs := 2, 1
	if o.Bias {
		ins = 3
	}
	if o.Pool.Size > 0 {
		outs = 2
	}
	c := check(o, in, out, inout).count(n(ins), n(outs), n(0))
	if !c.ok() || !c.rank(in[0], 4).rank(in[1], 4).float(in[0]).same(in[0], in[1], out[0]).ok() {
		return c.err
	}
	x, w := in[0].Shape, in[1].Shape
	c.shape(in[1], o.KH, o.KW, x[3], w[3])
	if o.Bias {
		c.shape(in[2], w[3]).dtype(in[2], Float32)
	}
	oh, ow := o.Out(x[1], x[2])
	if o.Pool.Size > 0 {
		oh, ow = o.Pool.Out(oh, ow)
		c.shape(out[1], x[0], oh, ow, w[3]).dtype(out[1], Uint8)
	}
	return c.shape(out[0], x[0], oh, ow, w[3]).err
}

// Conv2DGradX is the gradient of Conv2D by its input.
//
// In: w, dy. Out: dx [B,H,W,C] of their dtype.
type Conv2DGradX struct{ ref.Conv }

// Name implements Op.
func (Conv2DGradX) Name() string { return "conv2d_grad_x" }

// Check implements Op.
func (o Conv2DGradX) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(2), n(1), n(0))
	if c.ok() && c.rank(in[0], 4).rank(in[1], 4).rank(out[0], 4).float(in[0]).same(in[0], in[1], out[0]).ok() {
		oh, ow := o.Out(out[0].Shape[1], out[0].Shape[2])
		c.shape(in[0], o.KH, o.KW, out[0].Shape[3], in[1].Shape[3]).shape(in[1], out[0].Shape[0], oh, ow, in[1].Shape[3])
	}
	return c.err
}

// Conv2DGradW is the gradient of Conv2D by its weight.
//
// In: x, dy. Out: dw [KH,KW,C,OC] of their dtype.
type Conv2DGradW struct{ ref.Conv }

// Name implements Op.
func (Conv2DGradW) Name() string { return "conv2d_grad_w" }

// Check implements Op.
func (o Conv2DGradW) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(2), n(1), n(0))
	if c.ok() && c.rank(in[0], 4).rank(in[1], 4).float(in[0]).same(in[0], in[1], out[0]).ok() {
		oh, ow := o.Out(in[0].Shape[1], in[0].Shape[2])
		c.shape(in[1], in[0].Shape[0], oh, ow, in[1].Shape[3]).shape(out[0], o.KH, o.KW, in[0].Shape[3], in[1].Shape[3])
	}
	return c.err
}

// Conv2DBackward is what Fuse makes of a convolution's whole backward pass: the max pool's scatter, ReLU's mask, and the
// gradients by weight, bias and input, image by image, so that the gradient at the convolution's own output is never
// stored. The unfused chain (MaxPool2DGrad, ActivationGrad, BiasGrad, Conv2DGradW, Conv2DGradX, ActivationGrad of the
// layer before) is its definition.
//
// In: x, w, dy, then idx Uint8 when Pool.Size > 0 (dy and idx have the pooled shape), then y of dy's shape when ReLU and
// no pool (the mask is y > 0). Out: dw, then db Float32 [OC] when Bias, then dx when NeedX. With MaskX dx is zero where x
// is not above zero: the layer before ended in ReLU and x is its output.
type Conv2DBackward struct {
	ref.Conv
	Pool  ref.Pool
	ReLU  bool
	Bias  bool
	NeedX bool
	MaskX bool
}

// Name implements Op.
func (o Conv2DBackward) Name() string { return "conv2d_backward" }

// Check implements Op.
func (o Conv2DBackward) Check(in, out, inout []*Value) error {
	ins, outs := 3, 1
	if o.Pool.Size > 0 || o.ReLU {
		ins++
	}
	if o.Bias {
		outs++
	}
	if o.NeedX {
		outs++
	}
	c := check(o, in, out, inout).count(n(ins), n(outs), n(0))
	if !c.ok() || !c.rank(in[0], 4).rank(in[1], 4).float(in[0]).same(in[0], in[1], in[2], out[0]).ok() {
		return c.err
	}
	x, w := in[0].Shape, in[1].Shape
	oh, ow := o.Out(x[1], x[2])
	if o.Pool.Size > 0 {
		oh, ow = o.Pool.Out(oh, ow)
		c.dtype(in[3], Uint8)
	} else if o.ReLU {
		c.same(in[2], in[3])
	}
	c.shape(in[1], o.KH, o.KW, x[3], w[3]).shape(in[2], x[0], oh, ow, w[3]).shape(out[0], w...)
	if ins > 3 {
		c.shape(in[3], x[0], oh, ow, w[3])
	}
	next := 1
	if o.Bias {
		c.shape(out[next], w[3]).dtype(out[next], Float32)
		next++
	}
	if o.NeedX {
		c.shape(out[next], x...).same(in[0], out[next])
	}
	return c.err
}

// BiasGrad sums dy over all but the last dimension, accumulating in float32.
//
// In: dy [...,C]. Out: db Float32 [C].
type BiasGrad struct{}

// Name implements Op.
func (BiasGrad) Name() string { return "bias_grad" }

// Check implements Op.
func (o BiasGrad) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(1), n(1), n(0))
	if c.ok() {
		c.float(in[0]).shape(out[0], lastDim(in[0])).dtype(out[0], Float32)
	}
	return c.err
}

// Linear is y = x·w + b, followed by ReLU when fused.
//
// In: x [B,K], w [K,N] of x's dtype, b Float32 [N] when Bias. Out: y [B,N]. Accumulates in float32.
type Linear struct {
	Bias bool
	ReLU bool
}

// Name implements Op.
func (o Linear) Name() string {
	if o.ReLU {
		return "linear_relu"
	}
	return "linear"
}

// Check implements Op.
func (o Linear) Check(in, out, inout []*Value) error {
	ins := 2
	if o.Bias {
		ins = 3
	}
	c := check(o, in, out, inout).count(n(ins), n(1), n(0))
	if c.ok() && c.rank(in[0], 2).rank(in[1], 2).float(in[0], out[0]).same(in[0], in[1]).ok() {
		c.shape(in[1], in[0].Shape[1], in[1].Shape[1]).shape(out[0], in[0].Shape[0], in[1].Shape[1])
		if o.Bias {
			c.shape(in[2], in[1].Shape[1]).dtype(in[2], Float32)
		}
	}
	return c.err
}

// LinearGradX is dx = dy·wᵀ; with MaskX (fused) dx is zero where x, ReLU's output, is not above zero.
//
// In: dy [B,N], w [K,N], x [B,K] when MaskX. Out: dx [B,K].
type LinearGradX struct{ MaskX bool }

// Name implements Op.
func (o LinearGradX) Name() string {
	if o.MaskX {
		return "linear_grad_x_relu"
	}
	return "linear_grad_x"
}

// Check implements Op.
func (o LinearGradX) Check(in, out, inout []*Value) error {
	ins := 2
	if o.MaskX {
		ins = 3
	}
	c := check(o, in, out, inout).count(n(ins), n(1), n(0))
	if c.ok() && c.rank(in[0], 2).rank(in[1], 2).float(in[0], out[0]).same(in[0], in[1]).ok() {
		c.shape(in[1], in[1].Shape[0], in[0].Shape[1]).shape(out[0], in[0].Shape[0], in[1].Shape[0])
		if o.MaskX {
			c.shape(in[2], out[0].Shape...).same(in[0], in[2])
		}
	}
	return c.err
}

// LinearGradW is dw = xᵀ·dy; with Bias (fused) also db, the sum of dy over the batch.
//
// In: x [B,K], dy [B,N]. Out: dw [K,N], db Float32 [N] when Bias.
type LinearGradW struct{ Bias bool }

// Name implements Op.
func (LinearGradW) Name() string { return "linear_grad_w" }

// Check implements Op.
func (o LinearGradW) Check(in, out, inout []*Value) error {
	outs := 1
	if o.Bias {
		outs = 2
	}
	c := check(o, in, out, inout).count(n(2), n(outs), n(0))
	if c.ok() && c.rank(in[0], 2).rank(in[1], 2).float(in[0], out[0]).same(in[0], in[1]).ok() {
		c.shape(in[1], in[0].Shape[0], in[1].Shape[1]).shape(out[0], in[0].Shape[1], in[1].Shape[1])
		if o.Bias {
			c.shape(out[1], in[1].Shape[1]).dtype(out[1], Float32)
		}
	}
	return c.err
}
