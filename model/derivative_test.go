package model_test

import (
	"math"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/configs"
	"halfstep/model"
	"halfstep/model/op"
	"halfstep/model/op/ref"
	"halfstep/philox"
)

func bind[E ref.Float](t *testing.T, o *model.Oracle[E], n *G.Node, v []E) {
	t.Helper()
	if err := o.Bind(n, v); err != nil {
		t.Fatal(err)
	}
}

// normals is n normal numbers times scale.
func normals(stream uint32, n int, scale float64) []float64 {
	s := philox.NewStream(9, philox.Random, 0, stream)
	v := make([]float64, n)
	for i := range v {
		v[i] = scale * s.Normal()
	}
	return v
}

// TestDerivatives compares every gradient element with a central difference of the loss in float64, h = 1e-5. Its error is
// rounding 2⁻⁵²·|loss|/h ≈ 2e-11·|loss| plus truncation h²/6·|f”'| ≈ 2e-11·|f”'|; the tolerance is 1e-8·max(1,|loss|) and allows
// third derivatives up to 500. The data is fixed, and no relu or max pool sits within h of its kink.
func TestDerivatives(t *testing.T) {
	gelu, geluTanh := plain("gelu"), configs.Layer{Kind: "gelu", Approximate: "tanh"}
	noBias := linear(6)
	noBias.Bias = false
	for _, c := range []struct {
		name string
		spec model.Spec
	}{
		{"conv, bn, residual, dropout, pools", model.Spec{
			Layers: []configs.Layer{
				conv2D(3, 3, 2, 1), batchNorm(), plain("relu"), residual(conv2D(3, 3, 1, 1), batchNorm(), plain("tanh")),
				maxPool(2), dropout(0.3), conv2D(2, 2, 1, 1), gelu,
				{Kind: "avg_pool2d", Size: 2, Stride: 1},
				plain("flatten"), linear(4),
			},
			Loss: configs.Loss{Name: "cross_entropy", LabelSmoothing: 0.1}, Input: []int{9, 8, 2}, Classes: 4,
		}},
		{"softmax, mse", model.Spec{
			Layers: []configs.Layer{linear(6), plain("sigmoid"), batchNorm(), residual(noBias, geluTanh, dropout(0.5)), linear(5), plain("softmax")},
			Loss:   configs.Loss{Name: "mse", Reduction: "batch_mean"}, Input: []int{4}, Classes: 5,
		}},
		{"bce, sum, three readers of one value", model.Spec{
			Layers: []configs.Layer{linear(5), residual(residual(linear(5), plain("relu")), linear(5)), linear(3)},
			Loss:   configs.Loss{Name: "bce_with_logits", Reduction: "sum"}, Input: []int{4}, Targets: 3,
		}},
		{"one unit, one channel, one sample", model.Spec{
			Layers: []configs.Layer{conv2D(1, 1, 1, 0), residual(conv2D(1, 1, 1, 0)), plain("flatten"), residual(linear(1)), linear(1)},
			Loss:   configs.Loss{Name: "mse"}, Input: []int{1, 1, 1}, Targets: 1, Batch: 1,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.spec
			s.Train, s.Seed, s.DType = true, 5, tensor.Float64
			if s.Batch == 0 {
				s.Batch = 3
			}
			checkDerivatives(t, build(t, s))
		})
	}
}

func checkDerivatives(t *testing.T, m *model.Model) {
	const h = 1e-5
	o := oracle[float64](t, m)
	values := bindRandom(t, o, m)
	run := func() *model.Result[float64] {
		r, err := o.Run()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := run()
	worst, checked := 0.0, 0
	for i, p := range m.Params {
		for k, v := range values[i] {
			values[i][k] = v + h
			up := run().Loss
			values[i][k] = v - h
			down := run().Loss
			values[i][k] = v
			d := math.Abs((up-down)/(2*h) - r.Grads[i][k])
			if checked++; !(d <= 1e-8*max(1, math.Abs(r.Loss))) {
				t.Errorf("%s[%d]: gradient %v, numerically %v", p.Name, k, r.Grads[i][k], (up-down)/(2*h))
			}
			worst = max(worst, d)
		}
	}
	t.Logf("loss %.3f, %d elements, largest difference %.1e", r.Loss, checked, worst)
}

// bindRandom gives every input a value and returns those of the parameters, which the oracle reads at each run.
func bindRandom(t *testing.T, o *model.Oracle[float64], m *model.Model) [][]float64 {
	t.Helper()
	bind(t, o, m.Input, normals(1000, m.Input.Shape().TotalSize(), 1))
	n := m.Target.Shape().TotalSize()
	if m.Target.Dtype() == tensor.Int32 {
		labels := make([]int32, n)
		for i := range labels {
			labels[i] = int32(i * 7 % m.Logits.Shape()[1])
		}
		if err := o.BindInts(m.Target, labels); err != nil {
			t.Fatal(err)
		}
	} else {
		bind(t, o, m.Target, normals(1001, n, 0.5))
	}
	if m.Counters != nil {
		counters := make([]int32, op.NumCounters)
		counters[op.CounterEpoch], counters[op.CounterPosition] = 3, 40
		if err := o.BindInts(m.Counters, counters); err != nil {
			t.Fatal(err)
		}
	}
	values := make([][]float64, len(m.Params))
	for i, p := range m.Params {
		values[i] = normals(uint32(i), p.Elems(), 0.5)
		bind(t, o, p.Node, values[i])
	}
	return values
}
