package trainer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"halfstep/runs"
)

const accumulated = `
epochs: 2
data: {name: mnist}
model:
  layers: [{conv2d: {filters: 6, kernel: 5, stride: 2}}, relu, flatten, {linear: {units: 24}}, tanh, {linear: {units: 10}}]
optim: {name: sgd, lr: 0.05, momentum: 0.9}
log: {every: 1}
`

// TestAccumulation: three micro-batches of 16 are one batch of 48, also at an epoch's end, where the last group is a batch of
// 16 and one of 8, or one of 8 alone. Both sides sum the same products in another order: a gradient element differs by a few
// units of 2⁻²⁴ of its largest terms, and ten steps at these rates amplify that by less than a hundred: 1e-5 of a loss, 1e-4
// of a norm.
func TestAccumulation(t *testing.T) {
	dev := open(t, nil, 0)
	for _, n := range []int{216, 200} {
		for _, loss := range []string{"{name: cross_entropy, label_smoothing: 0.1}", "{name: mse, reduction: sum}", "{name: mse, reduction: batch_mean}"} {
			t.Run(fmt.Sprintf("%d samples, %s", n, loss), func(t *testing.T) {
				rate := map[bool]string{true: "optim.lr=0.0005", false: "optim.lr=0.02"}[strings.Contains(loss, "sum")]
				whole := load(t, accumulated, "loss="+loss, rate, "data.batch_size=48").Config
				micro := load(t, accumulated, "loss="+loss, rate, "data.batch_size=16", "optim.accumulate=3").Config
				_, a, _ := fit(t, whole, images(t, n, 0), dev)
				_, b, _ := fit(t, micro, images(t, n, 0), dev)
				steps, got := of[runs.Step](a), of[runs.Step](b)
				if len(steps) != 10 || len(got) != len(steps) {
					t.Fatalf("%d and %d updates, want 10", len(steps), len(got))
				}
				var lossOff, normOff float64
				for k, want := range steps {
					lossOff = max(lossOff, math.Abs(got[k].TrainLoss-want.TrainLoss)/want.TrainLoss)
					normOff = max(normOff, math.Abs(got[k].GradNorm-want.GradNorm)/want.GradNorm)
				}
				if !(lossOff < 1e-5 && normOff < 1e-4) {
					t.Errorf("losses differ by %.1e, gradient norms by %.1e", lossOff, normOff)
				}
				off := 0.0
				for _, x := range a.last().Tensors {
					w, g := floats(t, a.last(), x.Name), floats(t, b.last(), x.Name)
					for k := range w {
						off = max(off, math.Abs(float64(g[k]-w[k])))
					}
				}
				if !(off < 1e-4) { // of weights and momenta that are below 10
					t.Errorf("tensors differ by %.1e", off)
				}
				t.Logf("relative: losses %.1e, norms %.1e; tensors %.1e", lossOff, normOff, off)
			})
		}
	}
}

// TestAccumulationInHalf: the same in float16 with a loss scale, where every gradient is rounded to 11 bits before it is
// summed, so that norms agree to about 2⁻¹¹.
func TestAccumulationInHalf(t *testing.T) {
	dev := open(t, nil, 0)
	half := "amp={enabled: true, dtype: float16, grad_scaler: {init_scale: 1024}}"
	_, a, _ := fit(t, load(t, accumulated, half, "data.batch_size=48").Config, images(t, 200, 0), dev)
	_, b, _ := fit(t, load(t, accumulated, half, "data.batch_size=16", "optim.accumulate=3").Config, images(t, 200, 0), dev)
	want, got := of[runs.Step](a)[0], of[runs.Step](b)[0]
	d := math.Abs(got.GradNorm-want.GradNorm) / want.GradNorm
	if !(d < 0x1p-10) {
		t.Errorf("gradient norm %v, want %v", got.GradNorm, want.GradNorm)
	}
	t.Logf("relative difference %.1e", d)
}

// TestAccumulatedStatistics: every micro-batch moves batch norm's running statistics, as if each had been a step of its own.
func TestAccumulatedStatistics(t *testing.T) {
	dev := open(t, nil, 0)
	_, a, _ := fit(t, load(t, smallCNN, still, "data.batch_size=16").Config, images(t, 200, 0), dev)
	_, b, _ := fit(t, load(t, smallCNN, still, "data.batch_size=16", "optim.accumulate=3").Config, images(t, 200, 0), dev)
	for _, name := range []string{"bn1.running_mean", "bn1.running_var"} {
		want, got := floats(t, a.last(), name), floats(t, b.last(), name)
		if !slices.Equal(want, got) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if got[0] == 0 || got[0] == 1 {
			t.Errorf("%s has not moved", name)
		}
	}
}

// TestAccumulationCounts: an update is counted once for its group, with all of the group's samples.
func TestAccumulationCounts(t *testing.T) {
	tr, r, result := fit(t, load(t, accumulated, "data.batch_size=16", "optim.accumulate=3", "log.every=4").Config, images(t, 216, 0), open(t, nil, 0))
	if result.Steps != 10 || tr.state.Samples != 432 {
		t.Errorf("%d updates, %d samples, want 10 and 432", result.Steps, tr.state.Samples)
	}
	for k, e := range of[runs.Epoch](r) {
		if e.Step != 5*(k+1) {
			t.Errorf("epoch %d ends at step %d", e.Epoch, e.Step)
		}
	}
}
