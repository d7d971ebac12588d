package op

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/model/op/ref"
)

// BatchMean is the mean over all but the last dimension: input x [...,C]; output [C]. With BatchVar it is one instruction.
// Neither is differentiated: BatchNormGradX goes through them.
type BatchMean struct {
	Leaf
	Dims int
}

func (BatchMean) Arity() int { return 1 }

func (o BatchMean) Type() hm.Type { return floats(o.Dims, 1) }

func (o BatchMean) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	s := inputs(o, d, o.Dims)
	return s.out(func([]tensor.Shape) tensor.Shape { return tensor.Shape{s.last(0)} })
}

func (o BatchMean) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, batchMean[float32], batchMean[float64])
}

func batchMean[E ref.Float](o BatchMean, c *call[E]) error {
	C := len(c.y)
	ref.BatchStats(c.y, make([]E, C), c.data(0), C, 0, C)
	return nil
}

// BatchVar is the biased variance over all but the last dimension: input x [...,C]; output [C].
type BatchVar struct {
	Leaf
	Dims int
}

func (BatchVar) Arity() int { return 1 }

func (o BatchVar) Type() hm.Type { return floats(o.Dims, 1) }

func (o BatchVar) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	s := inputs(o, d, o.Dims)
	return s.out(func([]tensor.Shape) tensor.Shape { return tensor.Shape{s.last(0)} })
}

func (o BatchVar) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, batchVar[float32], batchVar[float64])
}

func batchVar[E ref.Float](o BatchVar, c *call[E]) error {
	C := len(c.y)
	ref.BatchStats(make([]E, C), c.y, c.data(0), C, 0, C)
	return nil
}

// BatchNorm is y = (x-mean)/sqrt(variance+Eps)·gamma + beta: inputs x [...,C], gamma, beta, mean, variance [C]; output of
// x's shape. Its gradient by x takes mean and variance for the batch's own.
type BatchNorm struct {
	Base
	Eps  float32
	Dims int
}

func (BatchNorm) Arity() int { return 5 }

func (o BatchNorm) Type() hm.Type { return floats(o.Dims, 1, 1, 1, 1, o.Dims) }

func (o BatchNorm) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, o.Dims, 1, 1, 1, 1).channels(0, 1, 2, 3, 4).out(first)
}

func (o BatchNorm) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, batchNorm[float32], batchNorm[float64])
}

func batchNorm[E ref.Float](o BatchNorm, c *call[E]) error {
	ref.BatchNorm(c.y, c.data(0), c.data(1), c.data(2), c.data(3), c.data(4), o.Eps)
	return nil
}

func (BatchNorm) DiffWRT(int) []bool { return []bool{true, true, true, false, false} }

func (o BatchNorm) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	var g gradients
	x, gamma, mean, variance := in[0], in[1], in[3], in[4]
	leaf := Leaf{o.Base}
	dgamma := g.apply(BatchNormGradGamma{Leaf: leaf, Eps: o.Eps, Dims: o.Dims}, x, mean, variance, dy)
	dbeta := g.apply(BiasGrad{Leaf: leaf, Dims: o.Dims}, dy)
	g.add(BatchNormGradX{Leaf: leaf, Eps: o.Eps, Dims: o.Dims}, x, gamma, mean, variance, dy, dgamma, dbeta)
	g.nodes = append(g.nodes, dgamma, dbeta)
	g.none()
	g.none()
	return g.result()
}

// BatchNormGradGamma is the gradient by gamma: inputs x [...,C], mean, variance [C], dy; output [C].
type BatchNormGradGamma struct {
	Leaf
	Eps  float32
	Dims int
}

func (BatchNormGradGamma) Arity() int { return 4 }

func (o BatchNormGradGamma) Type() hm.Type { return floats(o.Dims, 1, 1, o.Dims, 1) }

func (o BatchNormGradGamma) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	s := inputs(o, d, o.Dims, 1, 1, o.Dims).channels(0, 1, 2).same(0, 3)
	return s.out(func(in []tensor.Shape) tensor.Shape { return in[1] })
}

func (o BatchNormGradGamma) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, batchNormGradGamma[float32], batchNormGradGamma[float64])
}

func batchNormGradGamma[E ref.Float](o BatchNormGradGamma, c *call[E]) error {
	ref.BatchNormGradGamma(c.y, c.data(0), c.data(1), c.data(2), c.data(3), o.Eps, 0, len(c.y))
	return nil
}

// BatchNormGradX is the gradient by x: inputs x [...,C], gamma, mean, variance [C], dy, dgamma, dbeta [C]; output dx.
type BatchNormGradX struct {
	Leaf
	Eps  float32
	Dims int
}

func (BatchNormGradX) Arity() int { return 7 }

func (o BatchNormGradX) Type() hm.Type { return floats(o.Dims, 1, 1, 1, o.Dims, 1, 1, o.Dims) }

func (o BatchNormGradX) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, o.Dims, 1, 1, 1, o.Dims, 1, 1).channels(0, 1, 2, 3, 5, 6).same(0, 4).out(first)
}

func (o BatchNormGradX) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, batchNormGradX[float32], batchNormGradX[float64])
}

func batchNormGradX[E ref.Float](o BatchNormGradX, c *call[E]) error {
	rows := len(c.y) / c.size(1)
	ref.BatchNormGradX(c.y, c.data(0), c.data(1), c.data(2), c.data(3), c.data(4), c.data(5), c.data(6), o.Eps, rows)
	return nil
}
