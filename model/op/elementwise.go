package op

import (
	"fmt"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/model/op/ref"
)

// Activation applies a nonlinearity to each element: input x; output of x's shape.
type Activation struct {
	Base
	Kind ref.Activation
	Dims int
}

func (Activation) Arity() int { return 1 }

func (o Activation) Type() hm.Type { return floats(o.Dims, o.Dims) }

func (o Activation) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, o.Dims).out(first)
}

func (o Activation) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, activation[float32], activation[float64])
}

func activation[E ref.Float](o Activation, c *call[E]) error {
	ref.Activate(o.Kind, c.y, c.data(0))
	return nil
}

func (Activation) DiffWRT(int) []bool { return []bool{true} }

func (o Activation) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	var g gradients
	saved := in[0]
	if o.Kind.SavesOutput() {
		saved = y
	}
	g.add(ActivationGrad{Leaf: Leaf{o.Base}, Kind: o.Kind, Dims: o.Dims}, saved, dy)
	return g.result()
}

// ActivationGrad is dx = dy·f': inputs saved (see ref.Activation.SavesOutput), dy; output dx.
type ActivationGrad struct {
	Leaf
	Kind ref.Activation
	Dims int
}

func (ActivationGrad) Arity() int { return 2 }

func (o ActivationGrad) Type() hm.Type { return floats(o.Dims, o.Dims, o.Dims) }

func (o ActivationGrad) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, o.Dims, o.Dims).same(0, 1).out(first)
}

func (o ActivationGrad) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, activationGrad[float32], activationGrad[float64])
}

func activationGrad[E ref.Float](o ActivationGrad, c *call[E]) error {
	ref.ActivateGrad(o.Kind, c.y, c.data(0), c.data(1))
	return nil
}

// Softmax normalises each row: input x [B,C]; output [B,C].
type Softmax struct{ Base }

func (Softmax) Arity() int { return 1 }

func (Softmax) Type() hm.Type { return floats(2, 2) }

func (o Softmax) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, 2).out(first)
}

func (o Softmax) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, softmax[float32], softmax[float64])
}

func softmax[E ref.Float](o Softmax, c *call[E]) error {
	ref.Softmax(c.y, c.data(0), c.dim(0, 1))
	return nil
}

func (Softmax) DiffWRT(int) []bool { return []bool{true} }

func (o Softmax) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	var g gradients
	g.add(SoftmaxGrad{Leaf(o)}, y, dy)
	return g.result()
}

// SoftmaxGrad is dx = y·(dy - sum(y·dy)) row by row: inputs y, dy [B,C]; output dx.
type SoftmaxGrad struct{ Leaf }

func (SoftmaxGrad) Arity() int { return 2 }

func (SoftmaxGrad) Type() hm.Type { return floats(2, 2, 2) }

func (o SoftmaxGrad) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, 2, 2).same(0, 1).out(first)
}

func (o SoftmaxGrad) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, softmaxGrad[float32], softmaxGrad[float64])
}

func softmaxGrad[E ref.Float](o SoftmaxGrad, c *call[E]) error {
	ref.SoftmaxGrad(c.y, c.data(0), c.data(1), c.dim(0, 1))
	return nil
}

// Add is the sum of two tensors of one shape: inputs a, b; output a+b.
type Add struct {
	Base
	Dims int
}

func (Add) Arity() int { return 2 }

func (o Add) Type() hm.Type { return floats(o.Dims, o.Dims, o.Dims) }

func (o Add) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, o.Dims, o.Dims).same(0, 1).out(first)
}

func (o Add) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, add[float32], add[float64])
}

func add[E ref.Float](o Add, c *call[E]) error {
	ref.Add(c.y, c.data(0), c.data(1))
	return nil
}

func (Add) DiffWRT(int) []bool { return []bool{true, true} }

func (Add) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) { return G.Nodes{dy, dy}, nil }

// Reshape gives the elements another shape: input x of shape From; output of shape To.
type Reshape struct {
	Base
	From, To []int
}

func (Reshape) Arity() int { return 1 }

func (o Reshape) Type() hm.Type { return floats(len(o.From), len(o.To)) }

func (o Reshape) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	s := inputs(o, d, len(o.From)).want(0, o.From...)
	if s.ok() && tensor.Shape(o.To).TotalSize() != tensor.Shape(o.From).TotalSize() {
		s.err = fmt.Errorf("%v: sizes differ", o)
	}
	return s.out(func([]tensor.Shape) tensor.Shape { return o.To })
}

func (o Reshape) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, reshape[float32], reshape[float64])
}

func reshape[E ref.Float](o Reshape, c *call[E]) error {
	copy(c.y, c.data(0)) // Gorgonia's machine needs results that share no memory with the inputs
	return nil
}

func (Reshape) DiffWRT(int) []bool { return []bool{true} }

func (o Reshape) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	var g gradients
	g.add(Reshape{Base: o.Base, From: o.To, To: o.From}, dy)
	return g.result()
}
