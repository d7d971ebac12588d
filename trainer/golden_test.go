package trainer

import (
	"context"
	"fmt"
	"math"
	"testing"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/device/cpu/kernel"
	"halfstep/golden"
	"halfstep/runs"
	"halfstep/runs/safetensors"
)

// goldenFile is a network's runs in PyTorch.
type goldenFile struct{ *golden.Training }

func loadGolden(t *testing.T, name string) goldenFile {
	t.Helper()
	f, err := golden.LoadTraining(name)
	if err != nil {
		t.Fatal(err)
	}
	return goldenFile{f}
}

// initial is the file's initial parameters as a checkpoint for a trainer's model.
func (f goldenFile) initial(t *testing.T, tr *Trainer) *runs.Checkpoint {
	t.Helper()
	c := &runs.Checkpoint{}
	if len(tr.Params()) != len(f.Params) {
		t.Fatalf("%d parameters, the file has %d", len(tr.Params()), len(f.Params))
	}
	for k, p := range tr.Params() {
		c.Tensors = append(c.Tensors, safetensors.Tensor{
			Name: torchName(p.Name), DType: safetensors.F32, Shape: f.Params[k].Tensor.Shape,
			Data: device.Bytes(f.Params[k].Tensor.Float32s()),
		})
	}
	return c
}

// used is the largest share of a tolerance that was needed.
type used struct{ loss, norm, param float64 }

// near checks |got-want| <= limit and gives the share used.
func near(t *testing.T, what string, got, want, limit float64) float64 {
	t.Helper()
	d := math.Abs(got - want)
	if !(d <= limit) {
		t.Errorf("%s: %v, want %v ± %.1e", what, got, want, limit)
	}
	return d / limit
}

// check trains from the file's initial values and compares every step, and after the last step every parameter.
func (f goldenFile) check(t *testing.T, run golden.TrainingRun, c configs.Config, set *data.Set, d device.Device) {
	t.Helper()
	c.Log.Every = 1
	r := &recorder{}
	tr := newTrainer(t, c, set, d, r.options())
	if err := tr.RestoreWeights(f.initial(t, tr)); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(context.Background()); err != nil {
		t.Fatal(err)
	}
	var u used
	steps := of[runs.Step](r)
	if want := min(f.Steps, max(c.MaxSteps, 0)); c.MaxSteps > 0 && len(steps) != want || c.MaxSteps == 0 && len(steps) != f.Steps {
		t.Fatalf("%d steps", len(steps))
	}
	for k, s := range steps {
		u.loss = max(u.loss, near(t, fmt.Sprintf("step %d: loss", k), s.TrainLoss, run.Loss[k], golden.Limit(run.Tolerance.Loss[k], run.Loss[k])))
		u.norm = max(u.norm, near(t, fmt.Sprintf("step %d: gradient norm", k), s.GradNorm, run.Norm[k], golden.Limit(run.Tolerance.Norm[k], run.Norm[k])))
	}
	if len(steps) == f.Steps {
		u.param = checkParams(t, run, tr)
	}
	t.Logf("%d steps; of the tolerance used: losses %.0f%%, gradient norms %.0f%%, parameters %.0f%%", len(steps), 100*u.loss, 100*u.norm, 100*u.param)
}

func checkParams(t *testing.T, run golden.TrainingRun, tr *Trainer) (share float64) {
	t.Helper()
	c := checkpoint(t, tr)
	for k, p := range tr.Params() {
		want := run.Params[k]
		v := floats(t, c, torchName(p.Name))
		var sum, abs float64
		for _, x := range v {
			sum += float64(x)
			abs += math.Abs(float64(x))
		}
		share = max(share, near(t, want.Name+": sum", sum, want.Sum, want.Tolerance.Sum))
		share = max(share, near(t, want.Name+": sum of absolute values", abs, want.Abs, want.Tolerance.Abs))
		for i, w := range want.First {
			share = max(share, near(t, fmt.Sprintf("%s[%d]", want.Name, i), float64(v[i]), w, want.Tolerance.Element))
		}
	}
	return share
}

// eachLevel runs f on the CPU at every instruction-set level of this machine.
func eachLevel(t *testing.T, f func(t *testing.T, level kernel.Level, d device.Device)) {
	for _, level := range kernel.Levels() {
		t.Run(level.String(), func(t *testing.T) { f(t, level, open(t, &level, 0)) })
	}
}

const seedCNN = `
data: {name: mnist, batch_size: 128, shuffle: false}
model:
  layers: [{conv2d: {filters: 32, kernel: 3}}, relu, {conv2d: {filters: 64, kernel: 3}}, relu, {max_pool2d: {size: 2}}, flatten,
    {linear: {units: 128}}, relu, {linear: {units: 10}}]
optim: {name: sgd, lr: 0.05, momentum: 0.9}
`

// TestGoldenCNN: ten steps of the reference posts' CNN without dropout on the same 128 images, by three optimizers.
func TestGoldenCNN(t *testing.T) {
	f := loadGolden(t, "train_seedcnn.json")
	optimizers := map[string]string{
		"sgd_momentum": "optim={name: sgd, lr: 0.05, momentum: 0.9}",
		"adadelta":     "optim={name: adadelta, lr: 1.0, rho: 0.9, eps: 1e-6}",
		"adam":         "optim={name: adam, lr: 0.001}",
	}
	eachLevel(t, func(t *testing.T, level kernel.Level, d device.Device) {
		for _, run := range f.Runs {
			t.Run(run.Name, func(t *testing.T) {
				r := load(t, seedCNN, optimizers[run.Name], fmt.Sprintf("epochs=%d", f.Steps))
				if level == kernel.Portable { // seconds a step: the defining loops
					r.Config.MaxSteps = 2
					if run.Name != "sgd_momentum" || testing.Short() {
						t.Skip("on the portable level one run is enough, and none with -short: the smaller nets run there in full")
					}
				}
				f.check(t, run, r.Config, images(t, 128, 0), d)
			})
		}
	})
}

const mlp16 = `
data: {name: mnist, shuffle: false, normalize: {mean: 0, std: 1}}
model: {layers: [flatten, {linear: {units: 16}}, sigmoid, {linear: {units: 16}}, sigmoid, {linear: {units: 10}}, softmax]}
loss: {name: mse, reduction: batch_mean}
optim: {name: sgd, lr: 0.001}
epochs: 1
`

// TestGoldenMLP: twenty steps of SGD through sigmoid, softmax and squared error, at batch 1 and 64, on twenty batches.
func TestGoldenMLP(t *testing.T) {
	f := loadGolden(t, "train_mlp16.json")
	eachLevel(t, func(t *testing.T, _ kernel.Level, d device.Device) {
		for _, run := range f.Runs {
			t.Run(run.Name, func(t *testing.T) {
				r := load(t, mlp16, fmt.Sprintf("data.batch_size=%d", run.Batch), fmt.Sprintf("optim.lr=%v", run.LR))
				f.check(t, run, r.Config, images(t, f.Steps*run.Batch, 0), d)
			})
		}
	})
}

const tutorial = `
data: {name: random, batch_size: 32, shuffle: false, random: {samples: 128, features: 64, targets: 64}}
model: {layers: [{linear: {units: 64}}, relu, {linear: {units: 64}}, relu, {linear: {units: 64}}]}
loss: {name: mse}
optim: {name: sgd, lr: 0.001}
epochs: 5
`

// TestGoldenTutorial: twenty steps on float data, four batches over and over.
func TestGoldenTutorial(t *testing.T) {
	f := loadGolden(t, "train_tutorial.json")
	set := &data.Set{Name: "random", Features: 64, Targets: 64, TrainIndex: identity(128)}
	set.Train = data.Split{N: 128, Inputs: f.Inputs.Float32s(), Targets: f.Targets.Float32s()}
	eachLevel(t, func(t *testing.T, _ kernel.Level, d device.Device) {
		for _, run := range f.Runs {
			t.Run(run.Name, func(t *testing.T) {
				f.check(t, run, load(t, tutorial, fmt.Sprintf("optim.lr=%v", run.LR)).Config, set, d)
			})
		}
	})
}
