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

// goldenFile is a testdata/train_*.json: training runs of PyTorch in float64 from float32 initial values.
type goldenFile struct {
	Params []struct {
		Name   string        `json:"name"`
		Tensor golden.Tensor `json:"tensor"`
	} `json:"initial_parameters"`
	Steps   int           `json:"steps"`
	Inputs  golden.Tensor `json:"inputs"`
	Targets golden.Tensor `json:"targets"`
	Runs    []goldenRun   `json:"runs"`
}

type goldenRun struct {
	Name      string    `json:"name"`
	Batch     int       `json:"batch"`
	LR        float64   `json:"learning_rate"`
	Loss      []float64 `json:"loss_before_step_float64"`
	Norm      []float64 `json:"gradient_norm_float64"`
	Tolerance struct {
		Loss []float64 `json:"loss_relative"`
		Norm []float64 `json:"gradient_norm_relative"`
	} `json:"suggested_tolerance"`
	Params []struct {
		Name      string    `json:"name"`
		Sum       float64   `json:"sum_float64"`
		Abs       float64   `json:"sum_of_absolute_values_float64"`
		First     []float64 `json:"first_values_float64"`
		Tolerance struct {
			Element float64 `json:"element"`
			Sum     float64 `json:"sum"`
			Abs     float64 `json:"sum_of_absolute_values"`
		} `json:"suggested_absolute_tolerance"`
	} `json:"parameters_after_last_step"`
}

func loadGolden(t *testing.T, name string) goldenFile {
	t.Helper()
	var f goldenFile
	if err := golden.Load("testdata/"+name, &f); err != nil {
		t.Fatal(err)
	}
	return f
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

// check trains from the file's initial values and compares every step, and after the last step every parameter. The files'
// rule: |got - want| <= tolerance * max(|want|, 0.01) + 1e-6, for parameters the absolute tolerance given.
func (f goldenFile) check(t *testing.T, run goldenRun, c configs.Config, set *data.Set, d device.Device) {
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
		limit := func(tolerance, want float64) float64 { return tolerance*max(math.Abs(want), 0.01) + 1e-6 }
		u.loss = max(u.loss, near(t, fmt.Sprintf("step %d: loss", k), s.TrainLoss, run.Loss[k], limit(run.Tolerance.Loss[k], run.Loss[k])))
		u.norm = max(u.norm, near(t, fmt.Sprintf("step %d: gradient norm", k), s.GradNorm, run.Norm[k], limit(run.Tolerance.Norm[k], run.Norm[k])))
	}
	if len(steps) == f.Steps {
		u.param = run.checkParams(t, tr)
	}
	t.Logf("%d steps; of the tolerance used: losses %.0f%%, gradient norms %.0f%%, parameters %.0f%%", len(steps), 100*u.loss, 100*u.norm, 100*u.param)
}

func (run goldenRun) checkParams(t *testing.T, tr *Trainer) (share float64) {
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
