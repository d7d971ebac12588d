//go:build linux && gpu && (amd64 || arm64)

package cuda_test

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/device/cpu"
	"halfstep/device/cpu/kernel"
	"halfstep/device/cuda"
	"halfstep/runs"
	"halfstep/trainer"
)

const common = `
seed: 7
epochs: 1
data: {name: mnist, batch_size: 30}
loss: {name: cross_entropy}
log: {every: 1}
`

const mlp = common + `
model:
  layers: [flatten, {linear: {units: 40}}, relu, {dropout: {rate: 0.2}}, {linear: {units: 32}}, gelu, {linear: {units: 10}}]
optim: {name: adam, lr: 0.002}
`

const cnn = common + `
model:
  layers: [{conv2d: {filters: 16, kernel: 5, stride: 2}}, relu, {conv2d: {filters: 32, kernel: 3}}, relu, {max_pool2d: {size: 2}}, batch_norm, {dropout: {rate: 0.25}}, flatten, {linear: {units: 24}}, relu, {linear: {units: 10}}]
optim: {name: sgd, lr: 0.02, momentum: 0.9, clip_grad_norm: 5}
`

// steps trains on the first images of MNIST and gives what the log says of each step.
func steps(t *testing.T, d device.Device, yaml string, overrides ...string) []runs.Step {
	t.Helper()
	path := t.TempDir() + "/test.yaml"
	if err := os.WriteFile(path, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := configs.Load(path, append([]string{"runs_dir=" + t.TempDir()}, overrides...))
	if err != nil {
		t.Fatal(err)
	}
	var got []runs.Step
	tr, err := trainer.New(r.Config, images(t, 20*30+13), d, trainer.Options{Emit: func(e runs.Event) {
		if s, ok := e.(runs.Step); ok {
			got = append(got, s)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if _, err := tr.Fit(context.Background()); err != nil {
		t.Fatal(err)
	}
	return got
}

// images is a set of the first n training images of MNIST.
func images(t *testing.T, n int) *data.Set {
	t.Helper()
	s, err := data.Open(configs.Data{Name: "mnist"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Train = data.Split{N: n, Images: s.Train.Images[:n*s.Height*s.Width], Labels: s.Train.Labels[:n]}
	s.Test = data.Split{N: 64, Images: s.Test.Images[:64*s.Height*s.Width], Labels: s.Test.Labels[:64]}
	s.TrainIndex, s.ValIndex = make([]int32, n), nil
	for i := range s.TrainIndex {
		s.TrainIndex[i] = int32(i)
	}
	return s
}

func simulated(t *testing.T, settings string, o cuda.Options) device.Device {
	t.Helper()
	if os.Getenv("HALFSTEP_LIBCUDA") == "" {
		t.Skip("runs on the simulator: build it with scripts/sim.sh and set HALFSTEP_LIBCUDA to its libcuda.so.1")
	}
	t.Setenv("HALFSTEP_SIM", settings)
	d, err := cuda.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// modes are the simulator's: work done at once or when it is waited for, threads and blocks from the first or the last.
var modes = []string{"", "reverse", "deferred", "deferred,reverse"}

// TestTraining trains an MLP and a CNN in each precision on the simulator and compares each step with the portable CPU. The
// losses drift apart as rounding does: by the order of float32 sums, or by halves that round differently. Bounds are four times
// what was measured, or more (float32 2.4e-7, float16 0.005, bfloat16 0.05), and far below what a wrong step gives: the loss falls
// from 2.3 to between 0.6 and 1.5. Skipped steps, loss scales and learning rates must agree exactly, and all modes of the
// simulator bit for bit.
func TestTraining(t *testing.T) {
	level := kernel.Portable
	host, err := cpu.Open(cpu.Options{Level: &level})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for _, c := range []struct {
		name      string
		overrides string
		bound     float64
	}{
		{"float32", "", 1e-5},
		// The scale starts where gradients overflow: the first steps are skipped.
		{"float16", "amp.enabled=true amp.dtype=float16 amp.grad_scaler={init_scale: 16777216, growth_interval: 4}", 0.02},
		{"bfloat16", "amp.enabled=true amp.dtype=bfloat16", 0.2},
	} {
		for name, yaml := range map[string]string{"mlp": mlp, "cnn": cnn} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				var overrides []string
				if c.overrides != "" {
					overrides = split(c.overrides)
				}
				want := steps(t, host, yaml, overrides...)
				first := steps(t, simulated(t, modes[0], cuda.Options{}), yaml, overrides...)
				compare(t, first, want, c.bound)
				for _, mode := range modes[1:] {
					t.Run(mode, func(t *testing.T) { equal(t, steps(t, simulated(t, mode, cuda.Options{}), yaml, overrides...), first) })
				}
				t.Run("no graph", func(t *testing.T) {
					equal(t, steps(t, simulated(t, "", cuda.Options{NoGraph: true}), yaml, overrides...), first)
				})
			})
		}
	}
}

// split cuts overrides at spaces outside braces.
func split(s string) []string {
	depth := 0
	return strings.FieldsFunc(s, func(r rune) bool {
		depth += strings.Count("{", string(r)) - strings.Count("}", string(r))
		return r == ' ' && depth == 0
	})
}

func compare(t *testing.T, got, want []runs.Step, bound float64) {
	t.Helper()
	if len(got) != len(want) || len(want) < 20 {
		t.Fatalf("%d steps, the CPU has %d, want both to be 21", len(got), len(want))
	}
	var loss, norm float64
	for i, w := range want {
		g := got[i]
		if g.LossScale != w.LossScale || g.SkippedSteps != w.SkippedSteps || g.LR != w.LR {
			t.Errorf("step %d: scale %v, %d skipped, lr %v; the CPU has %v, %d, %v", w.Step, g.LossScale, g.SkippedSteps, g.LR, w.LossScale, w.SkippedSteps, w.LR)
		}
		loss = max(loss, math.Abs(g.TrainLoss-w.TrainLoss))
		if !math.IsNaN(w.GradNorm) && !math.IsInf(w.GradNorm, 0) { // not of a skipped step
			norm = max(norm, math.Abs(g.GradNorm-w.GradNorm)/w.GradNorm)
		}
	}
	last := want[len(want)-1]
	t.Logf("simulated: loss differs by up to %.2g, gradient norm by %.2g of itself; final loss %.5f, the CPU's %.5f; %d skipped, scale %v",
		loss, norm, got[len(got)-1].TrainLoss, last.TrainLoss, last.SkippedSteps, last.LossScale)
	if !(loss <= bound) {
		t.Errorf("the loss differs by %g, at most %g", loss, bound)
	}
}

func equal(t *testing.T, got, want []runs.Step) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d steps, want %d", len(got), len(want))
	}
	for i := range want {
		if !same(got[i].TrainLoss, want[i].TrainLoss) || !same(got[i].GradNorm, want[i].GradNorm) || got[i].SkippedSteps != want[i].SkippedSteps {
			t.Fatalf("step %d: loss %v, gradient norm %v; the first mode has %v, %v", got[i].Step, got[i].TrainLoss, got[i].GradNorm, want[i].TrainLoss, want[i].GradNorm)
		}
	}
}

// same is equality with NaN equal to itself: the gradient norm of a skipped step.
func same(a, b float64) bool { return a == b || a != a && b != b }
