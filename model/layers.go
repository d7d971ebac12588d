package model

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/configs"
	"halfstep/model/op"
	"halfstep/model/op/ref"
)

// maxPoolSize is the largest window whose positions fit a byte with one value to spare.
const maxPoolSize = 15

// image gives the dimensions of the current [B,H,W,C].
func (b *builder) image(what string) (H, W, C int, err error) {
	s := b.x.Shape()
	if len(s) != 4 {
		return 0, 0, 0, fmt.Errorf("%s wants images [B H W C], its input is %v", what, s)
	}
	return s[1], s[2], s[3], nil
}

func (b *builder) conv2D(l configs.Layer, name string) (flops int64, err error) {
	H, W, C, err := b.image("a convolution")
	if err != nil {
		return 0, err
	}
	if l.Filters < 1 || l.Kernel < 1 || l.Stride < 1 || l.Padding < 0 {
		return 0, fmt.Errorf("filters %d, kernel %d, stride %d, padding %d: want at least 1, 1, 1, 0", l.Filters, l.Kernel, l.Stride, l.Padding)
	}
	conv := ref.Conv{KH: l.Kernel, KW: l.Kernel, Stride: l.Stride, Pad: l.Padding}
	if l.Kernel > H+2*l.Padding || l.Kernel > W+2*l.Padding {
		return 0, fmt.Errorf("kernel %d is larger than its input %v with padding %d", l.Kernel, b.x.Shape(), l.Padding)
	}
	area := l.Kernel * l.Kernel
	in := []*G.Node{b.x}
	for _, p := range affine(l, name, []int{l.Kernel, l.Kernel, C, l.Filters}, area*C, area*l.Filters) {
		n, err := b.param(p, paramAxes{})
		if err != nil {
			return 0, err
		}
		in = append(in, n)
	}
	if err := b.apply(op.Conv2D{Base: op.Base{Layer: name}, Conv: conv, Bias: l.Bias}, in...); err != nil {
		return 0, err
	}
	b.features = &axis{}
	return 2 * int64(b.x.Shape().TotalSize()) * int64(area*C), nil
}

func (b *builder) linear(l configs.Layer, name string) (flops int64, err error) {
	s := b.x.Shape()
	if len(s) != 2 {
		return 0, fmt.Errorf("a linear layer wants rows [B K], its input is %v: put `- flatten` before it", s)
	}
	if l.Units < 1 {
		return 0, fmt.Errorf("units %d, want at least 1", l.Units)
	}
	K, out := s[1], &axis{}
	in := []*G.Node{b.x}
	for _, p := range affine(l, name, []int{K, l.Units}, K, l.Units) {
		axes := paramAxes{out: out}
		if len(p.Shape) == 2 {
			axes.in = b.features
		}
		n, err := b.param(p, axes)
		if err != nil {
			return 0, err
		}
		in = append(in, n)
	}
	b.features = out
	err = b.apply(op.Linear{Base: op.Base{Layer: name}, Bias: l.Bias}, in...)
	return 2 * int64(s[0]) * int64(K) * int64(l.Units), err
}

// affine are the parameters of a convolution or a linear layer: weight, and bias when it has one. The default bias is
// bounded by the weight's fan-in, as in PyTorch.
func affine(l configs.Layer, name string, weight []int, fanIn, fanOut int) []Param {
	w := Param{Name: name + "/weight", Layer: name, Shape: weight, Trainable: l.Trainable, FanIn: fanIn, FanOut: fanOut, Init: l.Init}
	if !l.Bias {
		return []Param{w}
	}
	bias := w
	bias.Name, bias.Shape, bias.Init = name+"/bias", weight[len(weight)-1:], l.BiasInit
	return []Param{w, bias}
}

// param adds a parameter.
func (b *builder) param(p Param, axes paramAxes) (*G.Node, error) {
	if err := checkInit(p); err != nil {
		return nil, err
	}
	p.Index = len(b.m.Params)
	p.Node = b.input(p.Name, b.spec.DType, p.Shape...)
	b.m.Params = append(b.m.Params, p)
	b.axes = append(b.axes, axes)
	return p.Node, nil
}

func (b *builder) activation(l configs.Layer, name string) error {
	kind := map[string]ref.Activation{"relu": ref.ReLU, "sigmoid": ref.Sigmoid, "tanh": ref.Tanh, "gelu": ref.GELU}[l.Kind]
	if l.Kind == "gelu" {
		switch l.Approximate {
		case "", "none":
		case "tanh":
			kind = ref.GELUTanh
		default:
			return fmt.Errorf("approximate %q, want none or tanh", l.Approximate)
		}
	}
	return b.apply(op.Activation{Base: op.Base{Layer: name}, Kind: kind, Dims: b.x.Dims()}, b.x)
}

func (b *builder) softmax(name string) error {
	if s := b.x.Shape(); len(s) != 2 {
		return fmt.Errorf("softmax wants rows [B K], its input is %v: put `- flatten` before it", s)
	}
	return b.apply(op.Softmax{Base: op.Base{Layer: name}}, b.x)
}

func (b *builder) pool(l configs.Layer, name string) error {
	H, W, _, err := b.image("a pool")
	if err != nil {
		return err
	}
	p := ref.Pool{Size: l.Size, Stride: l.Stride}
	if p.Stride == 0 {
		p.Stride = p.Size
	}
	if p.Size < 1 || p.Stride < 1 {
		return fmt.Errorf("size %d, stride %d: want at least 1", p.Size, p.Stride)
	}
	if p.Size > H || p.Size > W {
		return fmt.Errorf("window %d is larger than its input %v", p.Size, b.x.Shape())
	}
	base := op.Base{Layer: name}
	if l.Kind == "avg_pool2d" {
		return b.apply(op.AvgPool2D{Base: base, Pool: p}, b.x)
	}
	if p.Size > maxPoolSize {
		return fmt.Errorf("window %d, want at most %d", p.Size, maxPoolSize)
	}
	return b.apply(op.MaxPool2D{Base: base, Pool: p}, b.x)
}

func (b *builder) dropout(l configs.Layer, name string) error {
	if !(l.Rate >= 0 && l.Rate < 1) {
		return fmt.Errorf("rate %v, want at least 0 and below 1", l.Rate)
	}
	number := b.dropouts
	b.dropouts++
	if !b.spec.Train || l.Rate == 0 {
		return nil
	}
	base, dims := op.Base{Layer: name}, b.x.Dims()
	mask, err := op.Apply(op.DropoutMask{Leaf: op.Leaf{Base: base}, Rate: l.Rate, Number: number, Seed: b.spec.Seed, Dims: dims}, b.x, b.counters())
	if err != nil {
		return err
	}
	return b.apply(op.ApplyMask{Base: base, Rate: l.Rate, Dims: dims}, b.x, mask)
}

// flatten makes rows [B,H*W*C] of images, in that order; rows stay as they are.
func (b *builder) flatten(name string) error {
	s := shape(b.x)
	if len(s) == 2 {
		return nil
	}
	b.features = &axis{image: s[1:]}
	return b.apply(op.Reshape{Base: op.Base{Layer: name}, From: s, To: []int{s[0], elems(s[1:])}}, b.x)
}

func (b *builder) residual(l configs.Layer, name, number string) error {
	if len(l.Layers) == 0 {
		return fmt.Errorf("no layers inside")
	}
	x, features := b.x, b.features
	if err := b.layers(l.Layers, number+".", name+"/"); err != nil {
		return err
	}
	if !slices.Equal(x.Shape(), b.x.Shape()) {
		return fmt.Errorf("its layers turn %v into %v, which cannot be added", x.Shape(), b.x.Shape())
	}
	b.features.follow(features)
	b.features = features
	return b.apply(op.Add{Base: op.Base{Layer: name}, Dims: x.Dims()}, x, b.x)
}

func (b *builder) batchNorm(l configs.Layer, name string) error {
	s := b.x.Shape()
	C := s[len(s)-1]
	count := s.TotalSize() / C
	if b.spec.Train && count < 2 {
		return fmt.Errorf("one value per channel in a batch of shape %v has no variance", s)
	}
	axes := paramAxes{}
	if len(s) == 2 {
		axes.out = b.features
	}
	p := Param{Name: name + "/weight", Layer: name, Shape: []int{C}, Trainable: l.Trainable, FanIn: C, FanOut: C, Init: configs.Init{Name: "ones"}}
	gamma, err := b.param(p, axes)
	if err != nil {
		return err
	}
	p.Name, p.Init.Name = name+"/bias", "zeros"
	beta, err := b.param(p, axes)
	if err != nil {
		return err
	}
	bn := BatchNorm{Layer: name, RunningMean: name + "/running_mean", RunningVar: name + "/running_var", Momentum: l.Momentum, Count: count}
	if err := b.statistics(&bn, C); err != nil {
		return err
	}
	b.m.BatchNorms = append(b.m.BatchNorms, bn)
	b.stats = append(b.stats, axes.out)
	return b.apply(op.BatchNorm{Base: op.Base{Layer: name}, Eps: l.Eps, Dims: len(s)}, b.x, gamma, beta, bn.Mean, bn.Var)
}

// statistics sets the mean and variance that a batch norm uses: the batch's in training, else the running ones.
func (b *builder) statistics(bn *BatchNorm, C int) (err error) {
	if !b.spec.Train {
		bn.Mean = b.input(bn.RunningMean, b.spec.DType, C)
		bn.Var = b.input(bn.RunningVar, b.spec.DType, C)
		return nil
	}
	leaf, dims := op.Leaf{Base: op.Base{Layer: bn.Layer}}, b.x.Dims()
	if bn.Mean, err = op.Apply(op.BatchMean{Leaf: leaf, Dims: dims}, b.x); err != nil {
		return err
	}
	bn.Var, err = op.Apply(op.BatchVar{Leaf: leaf, Dims: dims}, b.x)
	return err
}

// loss adds target and loss.
func (b *builder) loss() error {
	s := b.x.Shape()
	if len(s) != 2 {
		return fmt.Errorf("the last layer gives %v, want rows [B K]: put `- flatten` before it", s)
	}
	width, what := b.spec.Classes, "classes"
	if width == 0 {
		width, what = b.spec.Targets, "targets"
	}
	last := b.spec.Layers[len(b.spec.Layers)-1]
	if s[1] != width {
		return fmt.Errorf("layer %d (%s) gives %v, the data has %d %s", len(b.spec.Layers), last.Kind, s, width, what)
	}
	b.m.Logits = b.x
	base := op.Base{Layer: "loss"}
	if l := b.spec.Loss; l.Name == "cross_entropy" {
		if b.spec.Classes == 0 {
			return fmt.Errorf("wants labels, the data has %d float targets", width)
		}
		if !(l.LabelSmoothing >= 0 && l.LabelSmoothing <= 1) {
			return fmt.Errorf("label_smoothing %v, want 0 to 1", l.LabelSmoothing)
		}
		b.m.Target = b.input("target", tensor.Int32, s[0])
		if err := b.apply(op.CrossEntropy{Base: base, Smoothing: l.LabelSmoothing}, b.x, b.m.Target); err != nil {
			return err
		}
	} else {
		kind, reduction, err := pointLoss(l)
		if err != nil {
			return err
		}
		b.m.OneHot = b.spec.Classes > 0
		b.m.Target = b.input("target", b.spec.DType, s[0], width)
		if err := b.apply(op.PointwiseLoss{Base: base, Loss: kind, Reduction: reduction, Dims: 2}, b.x, b.m.Target); err != nil {
			return err
		}
	}
	b.m.Loss = b.x
	b.warn(last.Kind)
	return nil
}

// pointLoss reads the loss's name and reduction.
func pointLoss(l configs.Loss) (ref.PointLoss, ref.Reduction, error) {
	kind, ok := map[string]ref.PointLoss{"mse": ref.MSE, "bce_with_logits": ref.BCEWithLogits}[l.Name]
	if !ok {
		return 0, 0, fmt.Errorf("want cross_entropy, mse or bce_with_logits")
	}
	reduction, ok := map[string]ref.Reduction{"": ref.Mean, "mean": ref.Mean, "sum": ref.Sum, "batch_mean": ref.BatchMean}[l.Reduction]
	if !ok {
		return 0, 0, fmt.Errorf("reduction %q, want mean, sum or batch_mean", l.Reduction)
	}
	return kind, reduction, nil
}

// warn notes what is legal and nearly always a mistake.
func (b *builder) warn(last string) {
	switch {
	case last == "softmax" && b.spec.Loss.Name == "cross_entropy":
		b.m.Warnings = append(b.m.Warnings, "the model ends in softmax and cross_entropy applies it again: leave out the layer")
	case (last == "softmax" || last == "sigmoid") && b.spec.Loss.Name == "bce_with_logits":
		b.m.Warnings = append(b.m.Warnings, "the model ends in "+last+" and bce_with_logits applies sigmoid again: leave out the layer")
	}
}
