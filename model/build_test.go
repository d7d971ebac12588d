package model_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorgonia.org/tensor"

	"halfstep/configs"
	"halfstep/model"
	"halfstep/model/op"
	"halfstep/model/op/ref"
)

// Layers with the defaults that the config loader fills in.
func conv2D(filters, kernel, stride, padding int) configs.Layer {
	return configs.Layer{Kind: "conv2d", Filters: filters, Kernel: kernel, Stride: stride, Padding: padding, Bias: true, Trainable: true}
}

func linear(units int) configs.Layer {
	return configs.Layer{Kind: "linear", Units: units, Bias: true, Trainable: true}
}

func batchNorm() configs.Layer {
	return configs.Layer{Kind: "batch_norm", Eps: 1e-5, Momentum: 0.1, Trainable: true}
}

func maxPool(size int) configs.Layer { return configs.Layer{Kind: "max_pool2d", Size: size} }

func dropout(rate float32) configs.Layer { return configs.Layer{Kind: "dropout", Rate: rate} }

func residual(inside ...configs.Layer) configs.Layer {
	return configs.Layer{Kind: "residual", Layers: inside}
}

func plain(kind string) configs.Layer { return configs.Layer{Kind: kind} }

var crossEntropy = configs.Loss{Name: "cross_entropy"}

// cnn is the network of the shipped MNIST configs.
func cnn() model.Spec {
	return model.Spec{
		Layers: []configs.Layer{
			conv2D(32, 3, 1, 0), plain("relu"), conv2D(64, 3, 1, 0), plain("relu"), maxPool(2), dropout(0.4),
			plain("flatten"), linear(128), plain("relu"), dropout(0.25), linear(10),
		},
		Loss: crossEntropy, Input: []int{28, 28, 1}, Classes: 10, Batch: 4, Train: true, Seed: 1,
	}
}

func build(t *testing.T, s model.Spec) *model.Model {
	t.Helper()
	m, err := model.Build(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestBuildCNN checks names, shapes, counts and FLOPs of the MNIST network, worked out by hand.
func TestBuildCNN(t *testing.T) {
	m := build(t, cnn())
	want := []struct {
		name   string
		out    []int
		params int
		flops  int64
	}{
		{"conv1", []int{4, 26, 26, 32}, 320, 2 * 4 * 26 * 26 * 32 * 9},
		{"relu1", []int{4, 26, 26, 32}, 0, 0},
		{"conv2", []int{4, 24, 24, 64}, 18496, 2 * 4 * 24 * 24 * 64 * 9 * 32},
		{"relu2", []int{4, 24, 24, 64}, 0, 0},
		{"pool1", []int{4, 12, 12, 64}, 0, 0},
		{"dropout1", []int{4, 12, 12, 64}, 0, 0},
		{"flatten1", []int{4, 9216}, 0, 0},
		{"linear1", []int{4, 128}, 1179776, 2 * 4 * 9216 * 128},
		{"relu3", []int{4, 128}, 0, 0},
		{"dropout2", []int{4, 128}, 0, 0},
		{"linear2", []int{4, 10}, 1290, 2 * 4 * 128 * 10},
	}
	if len(m.Layers) != len(want) {
		t.Fatalf("%d layers, want %d", len(m.Layers), len(want))
	}
	for i, w := range want {
		l := m.Layers[i]
		if l.Name != w.name || !slices.Equal(l.OutShape, w.out) || l.Params != w.params || l.FLOPs != w.flops {
			t.Errorf("layer %d is %s %v, %d parameters, %d FLOPs; want %v", i, l.Name, l.OutShape, l.Params, l.FLOPs, w)
		}
	}
	names := []string{"conv1/weight", "conv1/bias", "conv2/weight", "conv2/bias", "linear1/weight", "linear1/bias", "linear2/weight", "linear2/bias"}
	for i, p := range m.Params {
		if p.Name != names[i] || p.Index != i {
			t.Errorf("parameter %d is %s with index %d, want %s", i, p.Name, p.Index, names[i])
		}
	}
	if p := m.Params[4]; !slices.Equal(p.FlattenShape, []int{12, 12, 64}) || p.FanIn != 9216 || p.FanOut != 128 {
		t.Errorf("linear1/weight: flatten %v, fans %d and %d", p.FlattenShape, p.FanIn, p.FanOut)
	}
	if p := m.Params[2]; p.FanIn != 288 || p.FanOut != 576 {
		t.Errorf("conv2/weight: fans %d and %d, want 288 and 576", p.FanIn, p.FanOut)
	}
	if len(m.Grads) != len(names) || m.Loss.ID() >= m.FirstBackward || m.Grads[0].ID() < m.FirstBackward {
		t.Errorf("%d gradients, loss is node %d, backward starts at %d", len(m.Grads), m.Loss.ID(), m.FirstBackward)
	}
}

// TestBuildErrors: each names the layer, its kind and what does not fit.
func TestBuildErrors(t *testing.T) {
	images, rows := []int{28, 28, 1}, []int{8}
	head := []configs.Layer{plain("flatten"), linear(10)}
	for _, c := range []struct {
		name string
		spec model.Spec
		says []string
	}{
		{"linear on images", model.Spec{Layers: []configs.Layer{linear(10)}, Input: images}, []string{"layer 1 (linear)", "(4, 28, 28, 1)", "- flatten"}},
		{"convolution on rows", model.Spec{Layers: []configs.Layer{conv2D(4, 3, 1, 0)}, Input: rows}, []string{"layer 1 (conv2d)", "(4, 8)"}},
		{"kernel too large", model.Spec{Layers: []configs.Layer{maxPool(10), conv2D(4, 3, 1, 0)}, Input: images}, []string{"layer 2 (conv2d)", "kernel 3", "(4, 2, 2, 1)"}},
		{"pool too large", model.Spec{Layers: []configs.Layer{plain("relu"), maxPool(29)}, Input: images}, []string{"layer 2 (max_pool2d)", "window 29", "(4, 28, 28, 1)"}},
		{"pool beyond a byte", model.Spec{Layers: []configs.Layer{maxPool(16)}, Input: images}, []string{"layer 1 (max_pool2d)", "at most 15"}},
		{"dropout of all", model.Spec{Layers: []configs.Layer{dropout(1)}, Input: rows}, []string{"layer 1 (dropout)", "rate 1"}},
		{"residual changes shape", model.Spec{Layers: []configs.Layer{plain("flatten"), residual(linear(3))}, Input: rows}, []string{"layer 2 (residual)", "(4, 8)", "(4, 3)"}},
		{"empty residual", model.Spec{Layers: []configs.Layer{residual()}, Input: rows}, []string{"layer 1 (residual)"}},
		{"inside a residual", model.Spec{Layers: []configs.Layer{plain("relu"), residual(plain("relu"), conv2D(1, 3, 1, 1))}, Input: rows}, []string{"layer 2.2 (conv2d)"}},
		{"units and classes", model.Spec{Layers: []configs.Layer{plain("flatten"), linear(9)}, Input: images}, []string{"layer 2 (linear)", "(4, 9)", "10 classes"}},
		{"no flatten at the end", model.Spec{Layers: []configs.Layer{conv2D(10, 3, 1, 0)}, Input: images}, []string{"loss (cross_entropy)", "- flatten"}},
		{"unknown kind", model.Spec{Layers: []configs.Layer{plain("conv3d")}, Input: images}, []string{"layer 1 (conv3d)", "unknown"}},
		{"bias init", model.Spec{Layers: []configs.Layer{{Kind: "linear", Units: 3, Bias: true, BiasInit: configs.Init{Name: "kaiming_normal"}}}, Input: rows}, []string{"layer 1 (linear)", "bias_init"}},
		{"unknown init", model.Spec{Layers: []configs.Layer{{Kind: "linear", Units: 3, Init: configs.Init{Name: "magic"}}}, Input: rows}, []string{"layer 1 (linear)", `"magic"`}},
		{"no layers", model.Spec{Input: rows}, []string{"no layers"}},
		{"input shape", model.Spec{Layers: head, Input: []int{28, 28}}, []string{"[28 28]"}},
		{"nothing to train", model.Spec{Layers: []configs.Layer{{Kind: "linear", Units: 10}}, Input: rows, Train: true}, []string{"no trainable parameter"}},
		{"batch norm on one sample", model.Spec{Layers: []configs.Layer{batchNorm(), linear(10)}, Input: rows, Batch: 1, Train: true}, []string{"layer 1 (batch_norm)", "(1, 8)"}},
		{"unknown loss", model.Spec{Layers: head, Input: images, Loss: configs.Loss{Name: "hinge"}}, []string{"loss (hinge)"}},
		{"unknown reduction", model.Spec{Layers: head, Input: images, Loss: configs.Loss{Name: "mse", Reduction: "max"}}, []string{"loss (mse)", `"max"`}},
		{"cross entropy of floats", model.Spec{Layers: head, Input: images, Targets: 10}, []string{"loss (cross_entropy)", "labels"}},
	} {
		if c.spec.Loss.Name == "" {
			c.spec.Loss = crossEntropy
		}
		if c.spec.Targets == 0 {
			c.spec.Classes = 10
		}
		if c.spec.Batch == 0 {
			c.spec.Batch = 4
		}
		_, err := model.Build(c.spec)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, s := range append(c.says, "model: ") {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", c.name, err, s)
			}
		}
	}
}

// TestEvaluation: no dropout, no gradients, running statistics as inputs; the numbers follow from them.
func TestEvaluation(t *testing.T) {
	s := model.Spec{
		Layers: []configs.Layer{batchNorm(), dropout(0.5), plain("softmax")}, Loss: configs.Loss{Name: "mse", Reduction: "sum"},
		Input: []int{2}, Classes: 2, Batch: 1, DType: tensor.Float64,
	}
	m := build(t, s)
	if m.Counters != nil || m.Grads != nil || !m.OneHot {
		t.Errorf("counters %v, gradients %v, one-hot %v", m.Counters, m.Grads, m.OneHot)
	}
	bn := m.BatchNorms[0]
	if bn.Mean.Name() != "bn1/running_mean" || bn.Var.Name() != "bn1/running_var" {
		t.Errorf("statistics are %v and %v", bn.Mean, bn.Var)
	}
	o := oracle[float64](t, m)
	bind(t, o, m.Input, []float64{1, 2})
	bind(t, o, m.Target, []float64{1, 0})
	bind(t, o, m.Params[0].Node, []float64{1, 1})
	bind(t, o, m.Params[1].Node, []float64{0, 0})
	bind(t, o, bn.Mean, []float64{1, 2})
	bind(t, o, bn.Var, []float64{1, 4})
	r, err := o.Run()
	if err != nil {
		t.Fatal(err)
	}
	// both channels normalise to 0, softmax gives one half each, so the loss is (1/2-1)² + (1/2)²
	if r.Loss != 0.5 || !slices.Equal(r.Logits, []float64{0.5, 0.5}) {
		t.Errorf("loss %v, output %v, want 0.5, [0.5 0.5]", r.Loss, r.Logits)
	}
}

// TestDropoutNumbers: each dropout layer has a stream of its own, in evaluation none.
func TestDropoutNumbers(t *testing.T) {
	m, numbers := build(t, cnn()), map[string]int{}
	for _, n := range m.Graph.AllNodes() {
		if mask, ok := n.Op().(op.DropoutMask); ok {
			numbers[mask.Layer] = mask.Number
		}
	}
	if want := map[string]int{"dropout1": 0, "dropout2": 1}; !maps.Equal(numbers, want) {
		t.Errorf("numbers %v, want %v", numbers, want)
	}
}

// TestBatchNormStartsAsIdentity: gamma is 1 and beta 0.
func TestBatchNormStartsAsIdentity(t *testing.T) {
	s := model.Spec{Layers: []configs.Layer{batchNorm(), linear(3)}, Loss: crossEntropy, Input: []int{2}, Classes: 3, Batch: 2, Train: true}
	m := build(t, s)
	if gamma, beta := model.Init(m.Params[0], 1), model.Init(m.Params[1], 1); gamma[0] != 1 || beta[0] != 0 {
		t.Errorf("gamma %v, beta %v", gamma, beta)
	}
	if bn := m.BatchNorms[0]; bn.Count != 2 || bn.Momentum != 0.1 || bn.RunningMean != "bn1/running_mean" || bn.RunningVar != "bn1/running_var" {
		t.Errorf("%+v", bn)
	}
}

// TestWarnings: a softmax that the loss applies again is built, with a word about it.
func TestWarnings(t *testing.T) {
	s := model.Spec{Layers: []configs.Layer{linear(3), plain("softmax")}, Loss: crossEntropy, Input: []int{2}, Classes: 3, Batch: 2, Train: true}
	if w := build(t, s).Warnings; len(w) != 1 || !strings.Contains(w[0], "softmax") {
		t.Errorf("warnings %q", w)
	}
	s.Layers = s.Layers[:1]
	if w := build(t, s).Warnings; len(w) != 0 {
		t.Errorf("warnings %q without reason", w)
	}
}

// TestFrozen: parameters with trainable false have no gradient and stay inputs.
func TestFrozen(t *testing.T) {
	frozen := linear(4)
	frozen.Trainable = false
	s := model.Spec{Layers: []configs.Layer{frozen, plain("relu"), linear(3)}, Loss: crossEntropy, Input: []int{2}, Classes: 3, Batch: 2, Train: true}
	m := build(t, s)
	if len(m.Params) != 4 || len(m.Grads) != 2 || m.Params[0].Trainable || !m.Params[2].Trainable {
		t.Errorf("%d parameters, %d gradients", len(m.Params), len(m.Grads))
	}
}

// TestConcurrentBuilds: Gorgonia's differentiation shares state, which Build must guard (run with -race).
func TestConcurrentBuilds(t *testing.T) {
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if _, err := model.Build(cnn()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// TestOracleRefuses: wrong lengths and dtypes, which Gorgonia would take.
func TestOracleRefuses(t *testing.T) {
	m := build(t, cnn())
	if _, err := model.NewOracle[float64](m); err == nil {
		t.Error("a float32 graph is taken for float64")
	}
	if err := oracle[float32](t, m).Bind(m.Input, make([]float32, 3)); err == nil || !strings.Contains(err.Error(), "(4, 28, 28, 1)") {
		t.Errorf("3 elements for the input: error %v", err)
	}
}

func oracle[E ref.Float](t *testing.T, m *model.Model) *model.Oracle[E] {
	t.Helper()
	o, err := model.NewOracle[E](m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o
}
