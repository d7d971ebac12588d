package model

import (
	"fmt"
	"slices"
	"sync"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/configs"
	"halfstep/model/op"
)

// gradLock guards gorgonia.Grad, which initialises shared state without a lock.
var gradLock sync.Mutex

// Build makes the graph. An error names the layer (its number in the list, from 1; inside a residual block 4.1, 4.2, ...), its
// kind and the shapes that do not fit.
func Build(s Spec) (*Model, error) {
	b, err := newBuilder(s)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := b.layers(s.Layers, "", ""); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := b.loss(); err != nil {
		return nil, fmt.Errorf("model: loss (%s): %w", s.Loss.Name, err)
	}
	b.resolveAxes()
	if s.Train {
		if err := b.gradients(); err != nil {
			return nil, fmt.Errorf("model: gradients: %w", err)
		}
	}
	return b.m, nil
}

// builder walks the layers. x is the output of the layers so far, features the order of its last dimension.
type builder struct {
	spec     Spec
	m        *Model
	x        *G.Node
	features *axis
	axes     []paramAxes // of the parameters, by index
	stats    []*axis     // of the batch norms, by index
	numbers  map[string]int
	dropouts int
}

func newBuilder(s Spec) (*builder, error) {
	if s.DType == (tensor.Dtype{}) {
		s.DType = tensor.Float32
	}
	switch {
	case len(s.Layers) == 0:
		return nil, fmt.Errorf("no layers")
	case s.Batch < 1:
		return nil, fmt.Errorf("batch size %d, want at least 1", s.Batch)
	case len(s.Input) != 1 && len(s.Input) != 3 || slices.Min(s.Input) < 1:
		return nil, fmt.Errorf("input shape %v, want [H W C] or [D]", s.Input)
	case (s.Classes > 0) == (s.Targets > 0):
		return nil, fmt.Errorf("%d classes and %d targets, want one of them", s.Classes, s.Targets)
	}
	b := &builder{spec: s, m: &Model{Graph: G.NewGraph(), Train: s.Train}, features: &axis{}, numbers: map[string]int{}}
	b.m.Input = b.input("input", s.DType, append([]int{s.Batch}, s.Input...)...)
	b.x = b.m.Input
	return b, nil
}

// input makes a graph input. Names are unique because Gorgonia merges inputs of equal name, type and shape.
func (b *builder) input(name string, dt tensor.Dtype, shape ...int) *G.Node {
	return G.NewTensor(b.m.Graph, dt, len(shape), G.WithShape(shape...), G.WithName(name))
}

// counters is the input that dropout masks depend on.
func (b *builder) counters() *G.Node {
	if b.m.Counters == nil {
		b.m.Counters = b.input("counters", tensor.Int32, op.NumCounters)
	}
	return b.m.Counters
}

// apply adds a node that becomes the layer's output.
func (b *builder) apply(o G.Op, inputs ...*G.Node) error {
	n, err := op.Apply(o, inputs...)
	if err != nil {
		return err
	}
	b.x = n
	return nil
}

// gradients differentiates the loss by the trainable parameters.
func (b *builder) gradients() error {
	var wrt G.Nodes
	for _, p := range b.m.Params {
		if p.Trainable {
			wrt = append(wrt, p.Node)
		}
	}
	if len(wrt) == 0 {
		return fmt.Errorf("no trainable parameter")
	}
	for _, n := range b.m.Graph.AllNodes() {
		b.m.FirstBackward = max(b.m.FirstBackward, n.ID()+1)
	}
	gradLock.Lock()
	defer gradLock.Unlock()
	grads, err := G.Grad(b.m.Loss, wrt...)
	if err != nil {
		return err
	}
	for i, g := range grads { // Gorgonia does not check them
		if !slices.Equal(g.Shape(), wrt[i].Shape()) {
			return fmt.Errorf("%s has shape %v, its gradient %v", wrt[i].Name(), wrt[i].Shape(), g.Shape())
		}
	}
	b.m.Grads = grads
	return nil
}

// shape is a node's shape as plain ints.
func shape(n *G.Node) []int { return slices.Clone([]int(n.Shape())) }

// layers builds a list of layers; number and scope are the prefixes of the residual block that it is in.
func (b *builder) layers(list []configs.Layer, number, scope string) error {
	for i, l := range list {
		n := fmt.Sprintf("%s%d", number, i+1)
		if err := b.layer(l, n, scope); err != nil {
			return err
		}
	}
	return nil
}

// name numbers a layer among those of its stem in its scope: conv1, conv2, residual1/conv1.
func (b *builder) name(kind, scope string) string {
	stem := kind
	switch kind {
	case "conv2d":
		stem = "conv"
	case "max_pool2d", "avg_pool2d":
		stem = "pool"
	case "batch_norm":
		stem = "bn"
	}
	key := scope + stem
	b.numbers[key]++
	return fmt.Sprintf("%s%d", key, b.numbers[key])
}

// layer adds one layer and its description.
func (b *builder) layer(l configs.Layer, number, scope string) error {
	d := Layer{Name: b.name(l.Kind, scope), Kind: l.Kind, InShape: shape(b.x)}
	params := len(b.m.Params)
	var err error
	switch l.Kind {
	case "conv2d":
		d.FLOPs, err = b.conv2D(l, d.Name)
	case "linear":
		d.FLOPs, err = b.linear(l, d.Name)
	case "relu", "sigmoid", "tanh", "gelu":
		err = b.activation(l, d.Name)
	case "softmax":
		err = b.softmax(d.Name)
	case "max_pool2d", "avg_pool2d":
		err = b.pool(l, d.Name)
	case "batch_norm":
		err = b.batchNorm(l, d.Name)
	case "dropout":
		err = b.dropout(l, d.Name)
	case "flatten":
		err = b.flatten(d.Name)
	case "residual":
		err = b.residual(l, d.Name, number)
		params = len(b.m.Params) // those of the layers inside are theirs
	default:
		err = fmt.Errorf("unknown kind of layer")
	}
	if nested, ok := err.(layerError); ok {
		return nested
	}
	if err != nil {
		return layerError{fmt.Errorf("layer %s (%s): %w", number, l.Kind, err)}
	}
	for _, p := range b.m.Params[params:] {
		d.Params += p.Elems()
	}
	d.Out, d.OutShape = b.x, shape(b.x)
	b.m.Layers = append(b.m.Layers, d)
	return nil
}

// layerError already names its layer; a residual block around it adds nothing.
type layerError struct{ error }

func (e layerError) Unwrap() error { return e.error }
