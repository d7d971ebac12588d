package op

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/model/op/ref"
)

// Conv2D is y = x*w + b: inputs x [B,H,W,C], w [KH,KW,C,OC], b [OC] when Bias; output [B,OH,OW,OC].
type Conv2D struct {
	Base
	ref.Conv
	Bias bool
}

func (o Conv2D) Arity() int {
	if o.Bias {
		return 3
	}
	return 2
}

func (o Conv2D) Type() hm.Type {
	if o.Bias {
		return floats(4, 4, 1, 4)
	}
	return floats(4, 4, 4)
}

func (o Conv2D) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	s := inputs(o, d, []int{4, 4, 1}[:o.Arity()]...)
	if s.ok() {
		s.want(1, o.KH, o.KW, s.in[0][3], s.in[1][3])
		if o.Bias {
			s.want(2, s.in[1][3])
		}
	}
	return s.out(func(in []tensor.Shape) tensor.Shape {
		oh, ow := o.Out(in[0][1], in[0][2])
		return tensor.Shape{in[0][0], oh, ow, in[1][3]}
	})
}

func (o Conv2D) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, conv2D[float32], conv2D[float64])
}

func conv2D[E ref.Float](o Conv2D, c *call[E]) error {
	var b []E
	if o.Bias {
		b = c.data(2)
	}
	rows := c.out[0] * c.out[1]
	ref.Conv2D(o.Conv, c.y, c.data(0), c.data(1), b, c.dim(0, 1), c.dim(0, 2), c.dim(0, 3), c.out[3], 0, rows)
	return nil
}

func (o Conv2D) DiffWRT(int) []bool { return []bool{true, true, true}[:o.Arity()] }

func (o Conv2D) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	var g gradients
	x := in[0].Shape()
	g.add(Conv2DGradX{Leaf: Leaf{o.Base}, Conv: o.Conv, H: x[1], W: x[2]}, in[1], dy)
	g.add(Conv2DGradW{Leaf: Leaf{o.Base}, Conv: o.Conv}, in[0], dy)
	if o.Bias {
		g.add(BiasGrad{Leaf: Leaf{o.Base}, Dims: 4}, dy)
	}
	return g.result()
}

// Conv2DGradX is Conv2D's gradient by its input: inputs w, dy; output [B,H,W,C].
type Conv2DGradX struct {
	Leaf
	ref.Conv
	H, W int
}

func (Conv2DGradX) Arity() int { return 2 }

func (Conv2DGradX) Type() hm.Type { return floats(4, 4, 4) }

func (o Conv2DGradX) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	s := inputs(o, d, 4, 4)
	if s.ok() {
		oh, ow := o.Out(o.H, o.W)
		s.want(0, o.KH, o.KW, s.in[0][2], s.in[1][3]).want(1, s.in[1][0], oh, ow, s.in[0][3])
	}
	return s.out(func(in []tensor.Shape) tensor.Shape { return tensor.Shape{in[1][0], o.H, o.W, in[0][2]} })
}

func (o Conv2DGradX) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, conv2DGradX[float32], conv2DGradX[float64])
}

func conv2DGradX[E ref.Float](o Conv2DGradX, c *call[E]) error {
	ref.Conv2DGradX(o.Conv, c.y, c.data(0), c.data(1), o.H, o.W, c.dim(0, 2), c.dim(0, 3), 0, c.out[0]*o.H)
	return nil
}

// Conv2DGradW is Conv2D's gradient by its weight: inputs x, dy; output [KH,KW,C,OC].
type Conv2DGradW struct {
	Leaf
	ref.Conv
}

func (Conv2DGradW) Arity() int { return 2 }

func (Conv2DGradW) Type() hm.Type { return floats(4, 4, 4) }

func (o Conv2DGradW) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	s := inputs(o, d, 4, 4)
	if s.ok() {
		oh, ow := o.Out(s.in[0][1], s.in[0][2])
		s.want(1, s.in[0][0], oh, ow, s.in[1][3])
	}
	return s.out(func(in []tensor.Shape) tensor.Shape { return tensor.Shape{o.KH, o.KW, in[0][3], in[1][3]} })
}

func (o Conv2DGradW) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, conv2DGradW[float32], conv2DGradW[float64])
}

func conv2DGradW[E ref.Float](o Conv2DGradW, c *call[E]) error {
	C := c.dim(0, 3)
	ref.Conv2DGradW(o.Conv, c.y, c.data(0), c.data(1), c.dim(0, 0), c.dim(0, 1), c.dim(0, 2), C, c.out[3], 0, o.KH*o.KW*C)
	return nil
}
