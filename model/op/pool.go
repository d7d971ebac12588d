package op

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/model/op/ref"
)

// MaxPool2D is the maximum of each window: input x [B,H,W,C]; output [B,PH,PW,C].
type MaxPool2D struct {
	Base
	ref.Pool
}

func (MaxPool2D) Arity() int { return 1 }

func (MaxPool2D) Type() hm.Type { return floats(4, 4) }

func (o MaxPool2D) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, 4).pooled(o.Pool)
}

// pooled is the output shape of a pool over input 0.
func (s *shapes) pooled(p ref.Pool) (tensor.Shape, error) {
	return s.out(func(in []tensor.Shape) tensor.Shape {
		ph, pw := p.Out(in[0][1], in[0][2])
		return tensor.Shape{in[0][0], ph, pw, in[0][3]}
	})
}

func (o MaxPool2D) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, maxPool2D[float32], maxPool2D[float64])
}

func maxPool2D[E ref.Float](o MaxPool2D, c *call[E]) error {
	ref.MaxPool2D(o.Pool, c.y, nil, c.data(0), c.dim(0, 1), c.dim(0, 2), c.dim(0, 3), 0, c.dim(0, 0))
	return nil
}

func (MaxPool2D) DiffWRT(int) []bool { return []bool{true} }

// SymDiff takes the positions of the maxima from a companion node: an op has one output. Lowering makes one instruction of
// the two.
func (o MaxPool2D) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	var g gradients
	x := in[0].Shape()
	idx := g.apply(MaxPool2DIndex{Leaf: Leaf{o.Base}, Pool: o.Pool}, in[0])
	g.add(MaxPool2DGrad{Leaf: Leaf{o.Base}, Pool: o.Pool, H: x[1], W: x[2]}, idx, dy)
	return g.result()
}

// MaxPool2DIndex is the row-major position of the maximum in each window: input x [B,H,W,C]; output Uint8 [B,PH,PW,C].
type MaxPool2DIndex struct {
	Leaf
	ref.Pool
}

func (MaxPool2DIndex) Arity() int { return 1 }

func (MaxPool2DIndex) Type() hm.Type { return signature(tensorOf(4, float), tensorOf(4, tensor.Uint8)) }

func (o MaxPool2DIndex) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, 4).pooled(o.Pool)
}

func (o MaxPool2DIndex) Do(in ...G.Value) (G.Value, error) {
	out, err := outShape(o, in)
	if err != nil {
		return nil, err
	}
	idx := make([]uint8, out.TotalSize())
	if in[0].Dtype() == tensor.Float64 {
		maxPool2DIndex[float64](o.Pool, idx, in[0])
	} else {
		maxPool2DIndex[float32](o.Pool, idx, in[0])
	}
	return bytes(out, idx), nil
}

func maxPool2DIndex[E ref.Float](p ref.Pool, idx []uint8, x G.Value) {
	s := x.Shape()
	ref.MaxPool2D(p, make([]E, len(idx)), idx, data[E](x), s[1], s[2], s[3], 0, s[0])
}

// MaxPool2DGrad is MaxPool2D's gradient: inputs idx Uint8, dy [B,PH,PW,C]; output dx [B,H,W,C].
type MaxPool2DGrad struct {
	Leaf
	ref.Pool
	H, W int
}

func (MaxPool2DGrad) Arity() int { return 2 }

func (MaxPool2DGrad) Type() hm.Type {
	return signature(tensorOf(4, tensor.Uint8), tensorOf(4, float), tensorOf(4, float))
}

func (o MaxPool2DGrad) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, 4, 4).same(1, 0).unpooled(1, o.Pool, o.H, o.W)
}

// unpooled is the shape that pools to input i.
func (s *shapes) unpooled(i int, p ref.Pool, H, W int) (tensor.Shape, error) {
	if s.ok() {
		ph, pw := p.Out(H, W)
		s.want(i, s.in[i][0], ph, pw, s.in[i][3])
	}
	return s.out(func(in []tensor.Shape) tensor.Shape { return tensor.Shape{in[i][0], H, W, in[i][3]} })
}

func (o MaxPool2DGrad) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, maxPool2DGrad[float32], maxPool2DGrad[float64])
}

func maxPool2DGrad[E ref.Float](o MaxPool2DGrad, c *call[E]) error {
	ref.MaxPool2DGrad(o.Pool, c.y, data[uint8](c.in[0]), c.data(1), o.H, o.W, c.out[3], 0, c.out[0])
	return nil
}

// AvgPool2D is the mean of each window: input x [B,H,W,C]; output [B,PH,PW,C].
type AvgPool2D struct {
	Base
	ref.Pool
}

func (AvgPool2D) Arity() int { return 1 }

func (AvgPool2D) Type() hm.Type { return floats(4, 4) }

func (o AvgPool2D) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, 4).pooled(o.Pool)
}

func (o AvgPool2D) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, avgPool2D[float32], avgPool2D[float64])
}

func avgPool2D[E ref.Float](o AvgPool2D, c *call[E]) error {
	ref.AvgPool2D(o.Pool, c.y, c.data(0), c.dim(0, 1), c.dim(0, 2), c.dim(0, 3), 0, c.dim(0, 0))
	return nil
}

func (AvgPool2D) DiffWRT(int) []bool { return []bool{true} }

func (o AvgPool2D) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	var g gradients
	x := in[0].Shape()
	g.add(AvgPool2DGrad{Leaf: Leaf{o.Base}, Pool: o.Pool, H: x[1], W: x[2]}, dy)
	return g.result()
}

// AvgPool2DGrad is AvgPool2D's gradient: input dy [B,PH,PW,C]; output dx [B,H,W,C].
type AvgPool2DGrad struct {
	Leaf
	ref.Pool
	H, W int
}

func (AvgPool2DGrad) Arity() int { return 1 }

func (AvgPool2DGrad) Type() hm.Type { return floats(4, 4) }

func (o AvgPool2DGrad) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, 4).unpooled(0, o.Pool, o.H, o.W)
}

func (o AvgPool2DGrad) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, avgPool2DGrad[float32], avgPool2DGrad[float64])
}

func avgPool2DGrad[E ref.Float](o AvgPool2DGrad, c *call[E]) error {
	ref.AvgPool2DGrad(o.Pool, c.y, c.data(0), o.H, o.W, c.out[3], 0, c.out[0])
	return nil
}
