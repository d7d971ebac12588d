package op

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/model/op/ref"
)

// Linear is y = x·w + b: inputs x [B,K], w [K,N], b [N] when Bias; output [B,N].
type Linear struct {
	Base
	Bias bool
}

func (o Linear) Arity() int {
	if o.Bias {
		return 3
	}
	return 2
}

func (o Linear) Type() hm.Type {
	if o.Bias {
		return floats(2, 2, 1, 2)
	}
	return floats(2, 2, 2)
}

func (o Linear) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	s := inputs(o, d, []int{2, 2, 1}[:o.Arity()]...)
	if s.ok() {
		s.want(1, s.in[0][1], s.in[1][1])
		if o.Bias {
			s.want(2, s.in[1][1])
		}
	}
	return s.out(func(in []tensor.Shape) tensor.Shape { return tensor.Shape{in[0][0], in[1][1]} })
}

func (o Linear) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, linear[float32], linear[float64])
}

func linear[E ref.Float](o Linear, c *call[E]) error {
	var b []E
	if o.Bias {
		b = c.data(2)
	}
	ref.Linear(c.y, c.data(0), c.data(1), b, c.dim(1, 0), c.dim(1, 1))
	return nil
}

func (o Linear) DiffWRT(int) []bool { return []bool{true, true, true}[:o.Arity()] }

func (o Linear) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	var g gradients
	g.add(LinearGradX{Leaf: Leaf{o.Base}}, dy, in[1])
	g.add(LinearGradW{Leaf: Leaf{o.Base}}, in[0], dy)
	if o.Bias {
		g.add(BiasGrad{Leaf: Leaf{o.Base}, Dims: 2}, dy)
	}
	return g.result()
}

// LinearGradX is dx = dy·wᵀ: inputs dy [B,N], w [K,N]; output [B,K].
type LinearGradX struct{ Leaf }

func (LinearGradX) Arity() int { return 2 }

func (LinearGradX) Type() hm.Type { return floats(2, 2, 2) }

func (o LinearGradX) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	s := inputs(o, d, 2, 2)
	if s.ok() {
		s.want(1, s.in[1][0], s.in[0][1])
	}
	return s.out(func(in []tensor.Shape) tensor.Shape { return tensor.Shape{in[0][0], in[1][0]} })
}

func (o LinearGradX) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, linearGradX[float32], linearGradX[float64])
}

func linearGradX[E ref.Float](o LinearGradX, c *call[E]) error {
	ref.LinearGradX(c.y, c.data(0), c.data(1), c.dim(1, 0), c.dim(1, 1))
	return nil
}

// LinearGradW is dw = xᵀ·dy: inputs x [B,K], dy [B,N]; output [K,N].
type LinearGradW struct{ Leaf }

func (LinearGradW) Arity() int { return 2 }

func (LinearGradW) Type() hm.Type { return floats(2, 2, 2) }

func (o LinearGradW) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	s := inputs(o, d, 2, 2)
	if s.ok() {
		s.want(1, s.in[0][0], s.in[1][1])
	}
	return s.out(func(in []tensor.Shape) tensor.Shape { return tensor.Shape{in[0][1], in[1][1]} })
}

func (o LinearGradW) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, linearGradW[float32], linearGradW[float64])
}

func linearGradW[E ref.Float](o LinearGradW, c *call[E]) error {
	K := c.dim(0, 1)
	ref.LinearGradW(c.y, c.data(0), c.data(1), K, c.dim(1, 1), 0, K)
	return nil
}

// BiasGrad sums over all but the last dimension: input dy [...,C]; output [C].
type BiasGrad struct {
	Leaf
	Dims int // of dy
}

func (BiasGrad) Arity() int { return 1 }

func (o BiasGrad) Type() hm.Type { return floats(o.Dims, 1) }

func (o BiasGrad) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	s := inputs(o, d, o.Dims)
	return s.out(func([]tensor.Shape) tensor.Shape { return tensor.Shape{s.last(0)} })
}

func (o BiasGrad) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, biasGrad[float32], biasGrad[float64])
}

func biasGrad[E ref.Float](o BiasGrad, c *call[E]) error {
	C := len(c.y)
	ref.BiasGrad(c.y, c.data(0), C, 0, C)
	return nil
}
