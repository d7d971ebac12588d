package model_test

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"halfstep/configs"
	"halfstep/golden"
	"halfstep/model"
	"halfstep/philox"
)

// TestInitDistributions compares mean, variance and range of each init with its closed form. Sample moments of n values lie
// within five standard errors: mean σ/√n, variance σ²·√(κ/n) with κ = 2 for a normal and 0.8 for a uniform distribution.
func TestInitDistributions(t *testing.T) {
	const K, N = 300, 200
	for _, c := range []struct {
		init      configs.Init
		mean, std float64
		bound     float64 // of a uniform distribution
	}{
		{configs.Init{}, 0, 0, 1 / math.Sqrt(K)},
		{configs.Init{Name: "default"}, 0, 0, 1 / math.Sqrt(K)},
		{configs.Init{Name: "normal", Mean: 0.5, Std: 2}, 0.5, 2, 0},
		{configs.Init{Name: "uniform", Low: 1, High: 3}, 2, 0, 1},
		{configs.Init{Name: "kaiming_normal"}, 0, math.Sqrt(2.0 / K), 0},
		{configs.Init{Name: "kaiming_uniform"}, 0, 0, math.Sqrt(6.0 / K)},
		{configs.Init{Name: "xavier_normal"}, 0, math.Sqrt(2.0 / (K + N)), 0},
		{configs.Init{Name: "xavier_uniform"}, 0, 0, math.Sqrt(6.0 / (K + N))},
	} {
		p := model.Param{Shape: []int{K, N}, FanIn: K, FanOut: N, Init: c.init}
		v := model.Init(p, 3)
		kurtosis, std := 2.0, c.std
		if c.bound > 0 {
			kurtosis, std = 0.8, c.bound/math.Sqrt(3)
		}
		var sum, squares float64
		for _, x := range v {
			d := float64(x) - c.mean
			sum += d
			squares += d * d
			if c.bound > 0 && math.Abs(d) > c.bound*(1+1e-6) {
				t.Fatalf("%+v: %v is out of bounds", c.init, x)
			}
		}
		n := float64(len(v))
		if e := std / math.Sqrt(n); math.Abs(sum/n) > 5*e {
			t.Errorf("%+v: mean off by %v, standard error %v", c.init, sum/n, e)
		}
		if e := std * std * math.Sqrt(kurtosis/n); math.Abs(squares/n-std*std) > 5*e {
			t.Errorf("%+v: variance %v, want %v ± %v", c.init, squares/n, std*std, e)
		}
	}
	if v := model.Init(model.Param{Shape: []int{2}, Init: configs.Init{Name: "ones"}}, 3); !slices.Equal(v, []float32{1, 1}) {
		t.Errorf("ones: %v", v)
	}
	if v := model.Init(model.Param{Shape: []int{2}, Init: configs.Init{Name: "zeros"}}, 3); !slices.Equal(v, []float32{0, 0}) {
		t.Errorf("zeros: %v", v)
	}
}

// TestInitStreams: the seed and the index decide, and the network does not depend on the layout inside: PyTorch's element
// order has the stream's numbers one after another.
func TestInitStreams(t *testing.T) {
	p := model.Param{Shape: []int{3, 3, 2, 4}, FanIn: 18, FanOut: 36}
	flat := model.Param{Shape: []int{72}, FanIn: 18, FanOut: 36}
	v := model.Init(p, 1)
	if !slices.Equal(model.ToTorch(p, v), model.Init(flat, 1)) {
		t.Error("a convolution weight is not drawn in PyTorch's order")
	}
	if slices.Equal(v, model.Init(p, 2)) {
		t.Error("two seeds draw the same")
	}
	p.Index = 1
	if slices.Equal(v, model.Init(p, 1)) {
		t.Error("two parameters draw the same")
	}
}

// TestInitProcessors: a parameter of several chunks, the last one short, has the bits of one stream read from its start to its
// end, at any number of processors.
func TestInitProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const n = 3<<16 + 5
	for _, c := range []struct {
		init configs.Init
		next func(*philox.Stream) float32
	}{
		{configs.Init{Name: "uniform", Low: -1, High: 2}, func(s *philox.Stream) float32 { return float32(-1 + float64(3*s.Float64())) }},
		{configs.Init{Name: "normal", Mean: 1, Std: 3}, func(s *philox.Stream) float32 { return float32(1 + float64(3*s.Normal())) }},
	} {
		want, s := make([]float32, n), philox.NewStream(7, philox.Init+4, 0, 0)
		for i := range want {
			want[i] = c.next(s)
		}
		for _, procs := range []int{1, 2, 3, 8} {
			runtime.GOMAXPROCS(procs)
			if got := model.Init(model.Param{Shape: []int{n}, Init: c.init, Index: 4}, 7); !slices.Equal(got, want) {
				t.Errorf("%s on %d processors: other values", c.init.Name, procs)
			}
		}
	}
}

// TestTorchLayouts compares ToTorch with transposes written as axis permutations, and wants FromTorch to undo it.
func TestTorchLayouts(t *testing.T) {
	v := make([]float32, 3*2*5*4)
	for i := range v {
		v[i] = float32(i)
	}
	image := []int{3, 2, 5}
	for _, c := range []struct {
		name string
		p    model.Param
		want []float32
	}{
		{"convolution", model.Param{Shape: []int{3, 2, 5, 4}}, golden.Permute(v, []int{3, 2, 5, 4}, 3, 2, 0, 1)},
		{"linear", model.Param{Shape: []int{30, 4}}, golden.Permute(v, []int{30, 4}, 1, 0)},
		{"linear after flatten", model.Param{Shape: []int{30, 4}, FlattenShape: image}, golden.Permute(v, []int{3, 2, 5, 4}, 3, 2, 0, 1)},
		{"linear to a flattened image", model.Param{Shape: []int{4, 30}, OutFlattenShape: image}, golden.Permute(v, []int{4, 3, 2, 5}, 3, 1, 2, 0)},
		{"vector", model.Param{Shape: []int{120}}, v},
		{"vector of a flattened image", model.Param{Shape: []int{120}, OutFlattenShape: []int{3, 2, 20}}, golden.Permute(v, []int{3, 2, 20}, 2, 0, 1)},
	} {
		got := model.ToTorch(c.p, v)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if back := model.FromTorch(c.p, got); !slices.Equal(back, v) {
			t.Errorf("%s: FromTorch does not undo ToTorch", c.name)
		}
	}
}

// TestFlattenOrder: which parameters run over a flattened image, through layers that keep the features in place and
// through residual blocks, which make a linear layer's outputs follow their input.
func TestFlattenOrder(t *testing.T) {
	image := []int{2, 2, 3}
	s := model.Spec{
		Layers: []configs.Layer{
			plain("flatten"), plain("relu"), batchNorm(),
			residual(linear(7), plain("relu"), linear(12), residual(linear(12))), linear(4), linear(4),
		},
		Loss: crossEntropy, Input: image, Classes: 4, Batch: 2, Train: true,
	}
	m := build(t, s)
	for i, want := range []struct {
		name    string
		in, out []int
	}{
		{"bn1/weight", nil, image},
		{"bn1/bias", nil, image},
		{"residual1/linear1/weight", image, nil},
		{"residual1/linear1/bias", nil, nil},
		{"residual1/linear2/weight", nil, image},
		{"residual1/linear2/bias", nil, image},
		{"residual1/residual1/linear1/weight", image, image},
		{"residual1/residual1/linear1/bias", nil, image},
		{"linear1/weight", image, nil},
		{"linear1/bias", nil, nil},
		{"linear2/weight", nil, nil},
		{"linear2/bias", nil, nil},
	} {
		p := m.Params[i]
		if p.Name != want.name || !slices.Equal(p.FlattenShape, want.in) || !slices.Equal(p.OutFlattenShape, want.out) {
			t.Errorf("%s: %v to %v, want %s: %v to %v", p.Name, p.FlattenShape, p.OutFlattenShape, want.name, want.in, want.out)
		}
	}
	if bn := m.BatchNorms[0]; !slices.Equal(bn.FlattenShape, image) {
		t.Errorf("bn1's statistics: %v, want %v", bn.FlattenShape, image)
	}
}
