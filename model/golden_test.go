package model_test

import (
	"math"
	"testing"
	"time"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/golden"
	"halfstep/model"
	"halfstep/model/op/ref"
)

func loadTraining(t *testing.T, name string) *golden.Training {
	t.Helper()
	f, err := golden.LoadTraining(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// trainee is a model with its parameters at a file's initial values.
type trainee struct {
	*model.Oracle[float32]
	m      *model.Model
	params [][]float32
}

func newTrainee(t *testing.T, f *golden.Training, s model.Spec) trainee {
	t.Helper()
	tr := trainee{m: build(t, s)}
	tr.Oracle = oracle[float32](t, tr.m)
	if len(tr.m.Params) != len(f.Params) {
		t.Fatalf("%d parameters, the file has %d", len(tr.m.Params), len(f.Params))
	}
	for i, p := range tr.m.Params {
		v := model.FromTorch(p, f.Params[i].Tensor.Float32s())
		tr.params = append(tr.params, v)
		bind(t, tr.Oracle, p.Node, v)
	}
	return tr
}

func (tr trainee) run(t *testing.T) *model.Result[float32] {
	t.Helper()
	r, err := tr.Run()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sgd is p -= lr·g.
func (tr trainee) sgd(r *model.Result[float32], lr float32) {
	for i, g := range r.Grads {
		for k, v := range g {
			tr.params[i][k] -= float32(lr * v)
		}
	}
}

// within checks a relative tolerance of the files and gives the share used.
func within(t *testing.T, what string, step int, got, want, tolerance float64) float64 {
	t.Helper()
	limit := golden.Limit(tolerance, want)
	d := math.Abs(got - want)
	if !(d <= limit) {
		t.Errorf("step %d: %s %v, want %v ± %.1e", step, what, got, want, limit)
	}
	return d / limit
}

// checkStep compares a step's loss and gradient norm; at the first step also each gradient's norm and first elements, in
// PyTorch's layout: elements to the gradient norm's tolerance times the tensor's norm, floor 1e-6.
func checkStep(t *testing.T, tr trainee, run golden.TrainingRun, step int, r *model.Result[float32]) (used float64) {
	t.Helper()
	var all float64
	for i, g := range r.Grads {
		p := tr.m.Params[i]
		g = model.ToTorch(p, g)
		sum := 0.0
		for _, v := range g {
			sum += float64(v) * float64(v)
		}
		all += sum
		if step != 0 {
			continue
		}
		want := run.Grads[i]
		used = max(used, within(t, p.Name+": norm", step, math.Sqrt(sum), want.Norm, run.Tolerance.Norm[0]))
		for k, w := range want.First {
			if d := math.Abs(float64(g[k]) - w); !(d <= run.Tolerance.Norm[0]*want.Norm+1e-6) {
				t.Errorf("%s: gradient[%d] is %v, want %v", p.Name, k, g[k], w)
			}
		}
	}
	used = max(used, within(t, "loss", step, float64(r.Loss), run.Loss[step], run.Tolerance.Loss[step]))
	return max(used, within(t, "gradient norm", step, math.Sqrt(all), run.Norm[step], run.Tolerance.Norm[step]))
}

// mnist is the training set, from the GoMNIST module.
func mnist(t *testing.T) *data.Set {
	t.Helper()
	set, err := data.Open(configs.Data{Name: "mnist"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// order is 0, 1, ..., n-1.
func order(n int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(i)
	}
	return v
}

// TestSeedCNNGradients: the MNIST network's loss and gradients on 128 images.
func TestSeedCNNGradients(t *testing.T) {
	f, set := loadTraining(t, "train_seedcnn.json"), mnist(t)
	const B = 128
	s := model.Spec{Layers: []configs.Layer{
		conv2D(32, 3, 1, 0), plain("relu"), conv2D(64, 3, 1, 0), plain("relu"), maxPool(2), plain("flatten"),
		linear(128), plain("relu"), linear(10),
	}, Loss: crossEntropy, Input: []int{28, 28, 1}, Classes: 10, Batch: B, Train: true}
	tr := newTrainee(t, f, s)
	x := make([]float32, B*28*28)
	ref.GatherImages(x, set.Train.Images, order(B), ref.Normalized(0.1307, 0.3081), 0, 0, 0, 0, 28, 28, 1, 0, B)
	bind(t, tr.Oracle, tr.m.Input, x)
	if err := tr.BindInts(tr.m.Target, set.Train.Labels[:B]); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	r := tr.run(t)
	t.Logf("used %.0f%% of the tolerance, %v", 100*checkStep(t, tr, f.Runs[0], 0, r), time.Since(start).Round(time.Millisecond))
}

// TestMLP16Training: twenty steps of SGD through sigmoid, softmax and mse with batch_mean, at batch 1 and 64.
func TestMLP16Training(t *testing.T) {
	f, set := loadTraining(t, "train_mlp16.json"), mnist(t)
	table, index := ref.Normalized(0, 1), order(20*64)
	for _, run := range f.Runs {
		t.Run(run.Name, func(t *testing.T) {
			s := model.Spec{
				Layers: []configs.Layer{plain("flatten"), linear(16), plain("sigmoid"), linear(16), plain("sigmoid"), linear(10), plain("softmax")},
				Loss:   configs.Loss{Name: "mse", Reduction: "batch_mean"}, Input: []int{28, 28, 1}, Classes: 10, Batch: run.Batch, Train: true,
			}
			tr := newTrainee(t, f, s)
			x, target := make([]float32, run.Batch*784), make([]float32, run.Batch*10)
			bind(t, tr.Oracle, tr.m.Input, x)
			bind(t, tr.Oracle, tr.m.Target, target)
			used := 0.0
			for step := range f.Steps {
				at := step * run.Batch
				ref.GatherImages(x, set.Train.Images, index, table, 0, 0, 0, uint32(at), 28, 28, 1, 0, run.Batch)
				ref.OneHot(target, set.Train.Labels[at:at+run.Batch], 10)
				r := tr.run(t)
				used = max(used, checkStep(t, tr, run, step, r))
				tr.sgd(r, float32(run.LR))
			}
			t.Logf("used %.0f%% of the tolerance", 100*used)
		})
	}
}

// TestTutorialTraining: twenty steps of SGD on three linear layers with mse over float targets.
func TestTutorialTraining(t *testing.T) {
	f := loadTraining(t, "train_tutorial.json")
	batches, B, D := f.Inputs.Shape[0], f.Inputs.Shape[1], f.Inputs.Shape[2]
	inputs, targets := f.Inputs.Float32s(), f.Targets.Float32s()
	for _, run := range f.Runs {
		t.Run(run.Name, func(t *testing.T) {
			s := model.Spec{
				Layers: []configs.Layer{linear(D), plain("relu"), linear(D), plain("relu"), linear(D)},
				Loss:   configs.Loss{Name: "mse", Reduction: "mean"}, Input: []int{D}, Targets: D, Batch: B, Train: true,
			}
			tr := newTrainee(t, f, s)
			used := 0.0
			for step := range f.Steps {
				at := step % batches * B * D
				bind(t, tr.Oracle, tr.m.Input, inputs[at:at+B*D])
				bind(t, tr.Oracle, tr.m.Target, targets[at:at+B*D])
				r := tr.run(t)
				used = max(used, checkStep(t, tr, run, step, r))
				tr.sgd(r, float32(run.LR))
			}
			t.Logf("used %.0f%% of the tolerance", 100*used)
		})
	}
}
