package op

import (
	"fmt"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/model/op/ref"
)

// CrossEntropy is the mean over the batch of the cross entropy of softmax(logits): inputs logits [B,C], labels Int32 [B];
// output scalar. Smoothing s uses the target (1-s)·onehot + s/C.
type CrossEntropy struct {
	Base
	Smoothing float32
}

func (CrossEntropy) Arity() int { return 2 }

func (CrossEntropy) Type() hm.Type {
	return signature(tensorOf(2, float), tensorOf(1, tensor.Int32), float)
}

func (o CrossEntropy) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, 2, 1).labels().scalar()
}

// labels wants input 1 to have a label for each row of input 0.
func (s *shapes) labels() *shapes {
	if s.ok() {
		s.want(1, s.in[0][0])
	}
	return s
}

func (s *shapes) scalar() (tensor.Shape, error) {
	return s.out(func([]tensor.Shape) tensor.Shape { return tensor.ScalarShape() })
}

func (o CrossEntropy) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, crossEntropy[float32], crossEntropy[float64])
}

func crossEntropy[E ref.Float](o CrossEntropy, c *call[E]) error {
	labels, C := data[int32](c.in[1]), c.dim(0, 1)
	if err := checkLabels(labels, C); err != nil {
		return err
	}
	loss := make([]float64, len(labels))
	ref.CrossEntropy(loss, c.data(0), labels, C, o.Smoothing)
	c.y[0] = E(ref.Sum64(loss) / float64(len(labels)))
	return nil
}

func checkLabels(labels []int32, classes int) error {
	for i, l := range labels {
		if l < 0 || int(l) >= classes {
			return fmt.Errorf("label %d of sample %d is not in 0..%d", l, i, classes-1)
		}
	}
	return nil
}

func (CrossEntropy) DiffWRT(int) []bool { return []bool{true, false} }

func (o CrossEntropy) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	var g gradients
	g.add(CrossEntropyGrad{Leaf: Leaf{o.Base}, Smoothing: o.Smoothing}, in[0], in[1], dy)
	g.none()
	return g.result()
}

// CrossEntropyGrad is CrossEntropy's gradient by the logits: inputs logits [B,C], labels Int32 [B], dloss scalar; output
// [B,C].
type CrossEntropyGrad struct {
	Leaf
	Smoothing float32
}

func (CrossEntropyGrad) Arity() int { return 3 }

func (CrossEntropyGrad) Type() hm.Type {
	return signature(tensorOf(2, float), tensorOf(1, tensor.Int32), float, tensorOf(2, float))
}

func (o CrossEntropyGrad) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, 2, 1, 0).labels().out(first)
}

func (o CrossEntropyGrad) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, crossEntropyGrad[float32], crossEntropyGrad[float64])
}

func crossEntropyGrad[E ref.Float](o CrossEntropyGrad, c *call[E]) error {
	ref.CrossEntropyGrad(c.y, c.data(0), data[int32](c.in[1]), c.data(2)[0], c.dim(0, 0), c.dim(0, 1), o.Smoothing)
	return nil
}

// PointwiseLoss sums a loss over all elements and divides as Reduction says: inputs y [B,N], t [B,N]; output scalar.
type PointwiseLoss struct {
	Base
	Loss      ref.PointLoss
	Reduction ref.Reduction
	Dims      int
}

func (PointwiseLoss) Arity() int { return 2 }

func (o PointwiseLoss) Type() hm.Type { return floats(o.Dims, o.Dims, 0) }

func (o PointwiseLoss) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, o.Dims, o.Dims).same(0, 1).scalar()
}

func (o PointwiseLoss) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, pointwiseLoss[float32], pointwiseLoss[float64])
}

func pointwiseLoss[E ref.Float](o PointwiseLoss, c *call[E]) error {
	sum := ref.PointwiseLossSum(o.Loss, c.data(0), c.data(1))
	c.y[0] = E(sum / float64(o.Reduction.Divisor(c.size(0), c.dim(0, 0))))
	return nil
}

func (PointwiseLoss) DiffWRT(int) []bool { return []bool{true, false} }

func (o PointwiseLoss) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	var g gradients
	g.add(PointwiseLossGrad{Leaf: Leaf{o.Base}, Loss: o.Loss, Reduction: o.Reduction, Dims: o.Dims}, in[0], in[1], dy)
	g.none()
	return g.result()
}

// PointwiseLossGrad is PointwiseLoss's gradient by y: inputs y, t [B,N], dloss scalar; output of y's shape.
type PointwiseLossGrad struct {
	Leaf
	Loss      ref.PointLoss
	Reduction ref.Reduction
	Dims      int
}

func (PointwiseLossGrad) Arity() int { return 3 }

func (o PointwiseLossGrad) Type() hm.Type { return floats(o.Dims, o.Dims, 0, o.Dims) }

func (o PointwiseLossGrad) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, o.Dims, o.Dims, 0).same(0, 1).out(first)
}

func (o PointwiseLossGrad) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, pointwiseLossGrad[float32], pointwiseLossGrad[float64])
}

func pointwiseLossGrad[E ref.Float](o PointwiseLossGrad, c *call[E]) error {
	divisor := o.Reduction.Divisor(c.size(0), c.dim(0, 0))
	ref.PointwiseLossGrad(o.Loss, c.y, c.data(0), c.data(1), float64(c.data(2)[0])/float64(divisor))
	return nil
}
