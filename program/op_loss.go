package program

import "halfstep/model/op/ref"

// CrossEntropy is the mean over the batch of the cross entropy between softmax(logits) and the labels, computed in
// float32 or better whatever the logits' dtype. Smoothing s uses the target (1-s)·onehot + s/classes.
//
// In: logits [B,C], labels Int32 [B]. Out: loss Float32 scalar.
type CrossEntropy struct{ Smoothing float32 }

// Name implements Op.
func (CrossEntropy) Name() string { return "cross_entropy" }

// Check implements Op.
func (o CrossEntropy) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(2), n(1), n(0))
	if c.ok() {
		c.logits(in[0], in[1]).shape(out[0]).dtype(out[0], Float32)
	}
	return c.err
}

// CrossEntropyGrad is the gradient of CrossEntropy by the logits, times dloss.
//
// In: logits [B,C], labels Int32 [B], dloss Float32 scalar. Out: dlogits of the logits' dtype.
type CrossEntropyGrad struct{ Smoothing float32 }

// Name implements Op.
func (CrossEntropyGrad) Name() string { return "cross_entropy_grad" }

// Check implements Op.
func (o CrossEntropyGrad) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(3), n(1), n(0))
	if c.ok() {
		c.logits(in[0], in[1]).shape(in[2]).dtype(in[2], Float32).same(in[0], out[0]).shape(out[0], in[0].Shape...)
	}
	return c.err
}

func (c *checker) logits(x, labels *Value) *checker {
	if c.rank(x, 2).float(x).dtype(labels, Int32).ok() {
		c.shape(labels, x.Shape[0])
	}
	return c
}

// PointwiseLoss sums a ref.PointLoss over all elements and divides as Reduction says. Elements are computed in float32 and
// summed in float64, in chunks of ref.SumChunk elements whose sums are added in order.
//
// In: y [B,...], t of y's shape, Float32 or y's dtype. Out: loss Float32 scalar.
type PointwiseLoss struct {
	Loss      ref.PointLoss
	Reduction ref.Reduction
}

// Name implements Op.
func (o PointwiseLoss) Name() string { return o.Loss.String() }

// Check implements Op.
func (o PointwiseLoss) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(2), n(1), n(0))
	if c.ok() {
		c.float(in[0]).dtype(in[1], Float32, in[0].DType).shape(in[1], in[0].Shape...).shape(out[0]).dtype(out[0], Float32)
	}
	return c.err
}

// PointwiseLossGrad is the gradient of PointwiseLoss by y, times dloss.
//
// In: y, t, dloss Float32 scalar. Out: dy of y's shape and dtype.
type PointwiseLossGrad struct {
	Loss      ref.PointLoss
	Reduction ref.Reduction
}

// Name implements Op.
func (o PointwiseLossGrad) Name() string { return o.Loss.String() + "_grad" }

// Check implements Op.
func (o PointwiseLossGrad) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(3), n(1), n(0))
	if c.ok() {
		c.float(in[0]).dtype(in[1], Float32, in[0].DType).shape(in[1], in[0].Shape...).shape(in[2]).dtype(in[2], Float32).
			same(in[0], out[0]).shape(out[0], in[0].Shape...)
	}
	return c.err
}
