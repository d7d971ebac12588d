package conformance

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"halfstep/configs"
	"halfstep/model"
	"halfstep/model/op/ref"
)

// network is a small model with what it trains on.
type network struct {
	name string
	spec model.Spec
	// shift moves images about.
	shift int
}

// image, classes and samples of every network's data.
const (
	classes = 10
	samples = 120
)

// RandomSpec is the model of a random network, for comparisons with other implementations.
func RandomSpec(seed uint64) model.Spec { return randomNetwork(seed).spec }

// randomNetwork draws layers of every kind, in an order that fits. The same seed gives the same network.
func randomNetwork(seed uint64) network {
	for r := rand.New(rand.NewPCG(seed, 7)); ; {
		side := 6 + r.IntN(7)
		d := drawing{Rand: r, h: side, w: side + r.IntN(2), c: []int{1, 3, 16}[r.IntN(3)]}
		n := network{shift: r.IntN(2), spec: model.Spec{
			Input: []int{d.h, d.w, d.c}, Classes: classes, Batch: 1 + r.IntN(5), Train: true, Seed: seed,
		}}
		for range 1 + r.IntN(2) {
			d.block()
		}
		d.head()
		n.spec.Layers, n.spec.Loss = d.layers, d.loss()
		if _, err := model.Build(n.spec); err != nil {
			continue // a batch norm that would see one value, say
		}
		n.name = fmt.Sprintf("%d: batch %d of %v, %s, %s", seed, n.spec.Batch, n.spec.Input, describe(d.layers), n.spec.Loss.Name)
		return n
	}
}

// wideNetwork is large enough to be cut into several tasks at every instruction.
func wideNetwork() network {
	conv := func(filters int) configs.Layer {
		return configs.Layer{Kind: "conv2d", Filters: filters, Kernel: 3, Stride: 1, Bias: true, Trainable: true}
	}
	linear := func(units int) configs.Layer {
		return configs.Layer{Kind: "linear", Units: units, Bias: true, Trainable: true}
	}
	relu := configs.Layer{Kind: "relu"}
	return network{name: "wide", shift: 1, spec: model.Spec{
		Layers: []configs.Layer{
			conv(16), relu, conv(32),
			{Kind: "batch_norm", Eps: 1e-5, Momentum: 0.1, Trainable: true},
			relu,
			{Kind: "max_pool2d", Size: 2, Stride: 2},
			{Kind: "dropout", Rate: 0.4},
			{Kind: "flatten"},
			linear(128),
			{Kind: "gelu"},
			{Kind: "residual", Layers: []configs.Layer{linear(128), relu}},
			{Kind: "dropout", Rate: 0.25},
			linear(classes),
		},
		Loss: configs.Loss{Name: "cross_entropy"}, Input: []int{14, 14, 1}, Classes: classes, Batch: 37, Train: true, Seed: 99,
	}}
}

func describe(layers []configs.Layer) string {
	kinds := make([]string, len(layers))
	for i, l := range layers {
		kinds[i] = l.Kind
		if l.Layers != nil {
			kinds[i] += "(" + describe(l.Layers) + ")"
		}
	}
	return strings.Join(kinds, " ")
}

// drawing is a network being drawn: the layers so far and the size of their output.
type drawing struct {
	*rand.Rand
	layers  []configs.Layer
	h, w, c int
}

func (d *drawing) add(l ...configs.Layer) { d.layers = append(d.layers, l...) }

// chance is true once in n times.
func (d *drawing) chance(n int) bool { return d.IntN(n) == 0 }

func (d *drawing) conv(filters, kernel, stride, pad int) configs.Layer {
	return configs.Layer{
		Kind: "conv2d", Filters: filters, Kernel: kernel, Stride: stride, Padding: pad, Bias: !d.chance(4), Trainable: !d.chance(6),
	}
}

func (d *drawing) norm() configs.Layer {
	return configs.Layer{Kind: "batch_norm", Eps: 1e-5, Momentum: 0.1, Trainable: true}
}

func (d *drawing) activation() {
	switch d.IntN(6) {
	case 0:
		d.add(configs.Layer{Kind: []string{"sigmoid", "tanh"}[d.IntN(2)]})
	case 1:
		d.add(configs.Layer{Kind: "gelu", Approximate: []string{"none", "tanh"}[d.IntN(2)]})
	case 2:
	default:
		d.add(configs.Layer{Kind: "relu"})
	}
}

// block is a convolution with what often follows.
func (d *drawing) block() {
	k := []int{1, 3, 3, 3}[d.IntN(4)]
	l := d.conv([]int{3, 8, 16, 17}[d.IntN(4)], k, 1+d.IntN(5)/4, d.IntN(2))
	h, w := (ref.Conv{KH: k, KW: k, Stride: l.Stride, Pad: l.Padding}).Out(d.h, d.w)
	if h < 1 || w < 1 {
		return
	}
	d.h, d.w, d.c = h, w, l.Filters
	d.add(l)
	if d.chance(4) {
		d.add(d.norm())
	}
	d.activation()
	d.pool()
	if d.chance(4) {
		d.residual()
	}
	if d.chance(3) {
		d.add(configs.Layer{Kind: "dropout", Rate: 0.3})
	}
}

func (d *drawing) pool() {
	p := ref.Pool{Size: 2, Stride: 2}
	if d.chance(4) {
		p = ref.Pool{Size: 3, Stride: 2}
	}
	h, w := p.Out(d.h, d.w)
	if h < 1 || w < 1 || d.chance(3) {
		return
	}
	d.h, d.w = h, w
	d.add(configs.Layer{Kind: []string{"max_pool2d", "max_pool2d", "max_pool2d", "avg_pool2d"}[d.IntN(4)], Size: p.Size, Stride: p.Stride})
}

// residual keeps the shape.
func (d *drawing) residual() {
	inner := drawing{Rand: d.Rand}
	inner.add(d.conv(d.c, 3, 1, 1))
	inner.activation()
	if d.chance(2) {
		inner.add(d.norm())
	}
	inner.add(d.conv(d.c, 1, 1, 0))
	if d.chance(2) {
		inner.add(configs.Layer{Kind: "relu"})
	}
	d.add(configs.Layer{Kind: "residual", Layers: inner.layers})
}

func (d *drawing) head() {
	linear := func(units int) configs.Layer {
		return configs.Layer{Kind: "linear", Units: units, Bias: !d.chance(4), Trainable: true}
	}
	d.add(configs.Layer{Kind: "flatten"})
	for range d.IntN(3) {
		d.add(linear([]int{7, 16, 33}[d.IntN(3)]))
		if d.chance(4) {
			d.add(d.norm())
		}
		d.activation()
		if d.chance(3) {
			d.add(configs.Layer{Kind: "dropout", Rate: 0.25})
		}
	}
	d.add(linear(classes))
}

// loss may put a softmax at the end.
func (d *drawing) loss() configs.Loss {
	reduction := []string{"mean", "sum", "batch_mean"}[d.IntN(3)]
	switch d.IntN(4) {
	case 0:
		d.add(configs.Layer{Kind: "softmax"})
		return configs.Loss{Name: "mse", Reduction: reduction}
	case 1:
		return configs.Loss{Name: "bce_with_logits", Reduction: reduction}
	}
	return configs.Loss{Name: "cross_entropy", LabelSmoothing: []float32{0, 0.1}[d.IntN(2)]}
}
