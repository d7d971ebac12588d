package program

import (
	"fmt"

	G "gorgonia.org/gorgonia"

	"halfstep/model/op"
)

// emit makes the instruction of one node.
func (l *lowering) emit(n *G.Node, kids []*G.Node, in []*Value) (*Value, error) {
	phase := Forward
	if l.m.Grads != nil && n.ID() >= l.m.FirstBackward {
		phase = Backward
	}
	layer := l.layerOf(n)
	one := func(o Op) (*Value, error) {
		suffix := "/y"
		if phase == Backward {
			suffix = "/dx"
		}
		v := l.value(n, layer+suffix, Float32)
		l.p.Emit(phase, layer, o, in, []*Value{v}, nil)
		return v, nil
	}
	switch o := n.Op().(type) {
	case op.Conv2D:
		return one(Conv2D{Conv: o.Conv, Bias: o.Bias})
	case op.Conv2DGradX:
		return one(Conv2DGradX{o.Conv})
	case op.Conv2DGradW:
		return one(Conv2DGradW{o.Conv})
	case op.BiasGrad:
		return one(BiasGrad{})
	case op.Linear:
		return one(Linear{Bias: o.Bias})
	case op.LinearGradX:
		return one(LinearGradX{})
	case op.LinearGradW:
		return one(LinearGradW{})
	case op.Activation:
		return one(Activation{o.Kind})
	case op.ActivationGrad:
		return one(ActivationGrad{o.Kind})
	case op.Softmax:
		return one(Softmax{})
	case op.SoftmaxGrad:
		return one(SoftmaxGrad{})
	case op.Add:
		return one(Add{})
	case op.ApplyMask:
		return one(ApplyMask{Rate: o.Rate})
	case op.Reshape:
		v, err := one(Reshape{})
		v.Alias = in[0]
		return v, err
	case op.MaxPool2D:
		return l.maxPool(n, kids[0], o, in, layer)
	case op.MaxPool2DGrad:
		return one(MaxPool2DGrad{o.Pool})
	case op.AvgPool2D:
		return one(AvgPool2D{o.Pool})
	case op.AvgPool2DGrad:
		return one(AvgPool2DGrad{o.Pool})
	case op.BatchMean, op.BatchVar:
		return l.batchStats(n, kids[0], in[0], layer)
	case op.BatchNorm:
		return one(BatchNorm{o.Eps})
	case op.BatchNormGradGamma:
		return one(BatchNormGradGamma{o.Eps})
	case op.BatchNormGradX:
		return one(BatchNormGradX{o.Eps})
	case op.CrossEntropy:
		return one(CrossEntropy{o.Smoothing})
	case op.CrossEntropyGrad:
		return one(CrossEntropyGrad{o.Smoothing})
	case op.PointwiseLoss:
		return one(PointwiseLoss{o.Loss, o.Reduction})
	case op.PointwiseLossGrad:
		return one(PointwiseLossGrad{o.Loss, o.Reduction})
	}
	return l.emitBuiltin(n, in, one)
}

// emitBuiltin handles what Gorgonia's differentiation inserts: the gradient's seed, and the sum of the gradients of a
// value that several nodes read.
func (l *lowering) emitBuiltin(n *G.Node, in []*Value, one func(Op) (*Value, error)) (*Value, error) {
	switch {
	case l.builtin.isConstant(n):
		v, ok := n.Value().Data().(float32)
		if !ok || v != 1 {
			return nil, fmt.Errorf("node %d: constant %v, want the gradient's seed 1", n.ID(), n.Value())
		}
		if l.in.Seed != nil {
			l.of[n] = l.in.Seed
			return l.in.Seed, nil
		}
		s := l.value(n, "loss/seed", Float32)
		l.p.Emit(Backward, "loss", Constant{v}, nil, []*Value{s}, nil)
		return s, nil
	case l.builtin.isAdd(n) && len(in) == 2:
		return one(Add{})
	}
	return nil, fmt.Errorf("node %d: no instruction for operation %T (%v)", n.ID(), n.Op(), n.Op())
}

// layerOf names the layer a node belongs to: our operations carry it, the sum of two gradients has its operand's.
func (l *lowering) layerOf(n *G.Node) string {
	if o, ok := n.Op().(interface{ LayerName() string }); ok {
		return o.LayerName()
	}
	if kids := op.Inputs(n); len(kids) > 0 {
		return l.layerOf(kids[0])
	}
	return "loss"
}

func (l *lowering) maxPool(n, x *G.Node, o op.MaxPool2D, in []*Value, layer string) (*Value, error) {
	y := l.value(n, layer+"/y", Float32)
	out := []*Value{y}
	idx := l.companion(x, func(c G.Op) bool { i, ok := c.(op.MaxPool2DIndex); return ok && i.Pool == o.Pool })
	if idx != nil && l.m.Grads != nil {
		out = append(out, l.value(idx, layer+"/argmax", Uint8))
	}
	l.p.Emit(Forward, layer, MaxPool2D{o.Pool}, in, out, nil)
	return y, nil
}

func (l *lowering) batchStats(n, x *G.Node, in *Value, layer string) (*Value, error) {
	mean := l.companion(x, func(c G.Op) bool { _, ok := c.(op.BatchMean); return ok })
	variance := l.companion(x, func(c G.Op) bool { _, ok := c.(op.BatchVar); return ok })
	if mean == nil || variance == nil {
		return nil, fmt.Errorf("node %d: batch statistics without their counterpart", n.ID())
	}
	out := []*Value{l.value(mean, layer+"/mean", Float32), l.value(variance, layer+"/var", Float32)}
	l.p.Emit(Forward, layer, BatchStats{}, []*Value{in}, out, nil)
	return l.of[n], nil
}
