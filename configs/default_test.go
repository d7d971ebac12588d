package configs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The right values are the signatures in PyTorch's documentation: torch.optim, torch.optim.lr_scheduler, torch.nn,
// torch.cuda.amp.GradScaler.
func TestDefaultsArePyTorchs(t *testing.T) {
	plain := Schedule{Name: "constant", Per: "epoch"}
	for _, want := range []Optim{
		{Name: "sgd", LR: 1e-3, Schedule: plain, Accumulate: 1},
		{Name: "adam", LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Schedule: plain, Accumulate: 1},
		{Name: "adamw", LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 1e-2, Schedule: plain, Accumulate: 1},
		{Name: "adadelta", LR: 1.0, Rho: 0.9, Eps: 1e-6, Schedule: plain, Accumulate: 1},
		{Name: "rmsprop", LR: 1e-2, Alpha: 0.99, Eps: 1e-8, Schedule: plain, Accumulate: 1},
		{Name: "adagrad", LR: 1e-2, Eps: 1e-10, Schedule: plain, Accumulate: 1},
	} {
		if diff := cmp.Diff(want, load(t, "optim: {name: "+want.Name+"}").Optim); diff != "" {
			t.Errorf("%s: -want +got\n%s", want.Name, diff)
		}
	}
	for text, want := range map[string]Schedule{
		"name: step, step_size: 30":             {Name: "step", Per: "epoch", StepSize: 30, Gamma: 0.1},
		"name: exponential, gamma: 1":           {Name: "exponential", Per: "epoch", Gamma: 1},
		"name: multistep, milestones: [30, 80]": {Name: "multistep", Per: "epoch", Milestones: []int{30, 80}, Gamma: 0.1},
		"name: cosine":                          {Name: "cosine", Per: "epoch", WarmupFactor: 1.0 / 3},
		"name: linear_warmup":                   {Name: "linear_warmup", Per: "epoch", Warmup: 5, WarmupFactor: 1.0 / 3},
		"name: one_cycle, max_lr: 0.1":          {Name: "one_cycle", Per: "update", MaxLR: 0.1, PctStart: 0.3, Anneal: "cos", DivFactor: 25, FinalDiv: 1e4, CycleMomentum: true, BaseMomentum: 0.85, MaxMomentum: 0.95},
		"name: plateau":                         {Name: "plateau", Per: "epoch", Monitor: "val_loss", Factor: 0.1, Patience: 10, Threshold: 1e-4, ThresholdMode: "rel"},
	} {
		got := load(t, "data: {validation: 0.1}\noptim: {schedule: {"+text+"}}").Optim.Schedule
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", text, diff)
		}
	}
	none := Init{Name: "default"}
	layers := load(t, `model:
  layers:
    - conv2d: {filters: 2, kernel: 3}
    - batch_norm
    - gelu
    - max_pool2d: {size: 3}
    - avg_pool2d: {size: 2, stride: 1}
    - dropout
    - linear: {units: 4, init: {name: normal}, bias_init: {name: uniform}}`).Model.Layers
	want := []Layer{
		{Kind: "conv2d", Filters: 2, Kernel: 3, Stride: 1, Bias: true, Trainable: true, Init: none, BiasInit: none},
		{Kind: "batch_norm", Eps: 1e-5, Momentum: 0.1, Trainable: true},
		{Kind: "gelu", Approximate: "none"},
		{Kind: "max_pool2d", Size: 3, Stride: 3},
		{Kind: "avg_pool2d", Size: 2, Stride: 1},
		{Kind: "dropout", Rate: 0.5},
		{Kind: "linear", Units: 4, Bias: true, Trainable: true, Init: Init{Name: "normal", Std: 1}, BiasInit: Init{Name: "uniform", High: 1}},
	}
	if diff := cmp.Diff(want, layers); diff != "" {
		t.Errorf("layers: -want +got\n%s", diff)
	}
	scaler := GradScaler{
		Enabled: "auto", InitScale: 65536, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 2000,
		MinScale: 1, MaxScale: 16777216, MaxConsecutiveSkips: 100,
	} // the last three are this project's
	if diff := cmp.Diff(scaler, load(t, "").AMP.GradScaler); diff != "" {
		t.Errorf("grad_scaler: -want +got\n%s", diff)
	}
}

// A step is one captured graph, and float32 is computed in full, unless the file or an override says otherwise. The default of
// allow_tf32 is that of torch.backends.cuda.matmul.
func TestCUDA(t *testing.T) {
	for _, c := range []struct {
		file      string
		overrides []string
		want      CUDA
	}{
		{"", nil, CUDA{Graph: true}},
		{"cuda: {graph: false}", nil, CUDA{}},
		{"cuda: {allow_tf32: true}", nil, CUDA{Graph: true, AllowTF32: true}},
		{"cuda: {allow_tf32: true}", []string{"cuda.graph=false"}, CUDA{AllowTF32: true}},
		{"cuda: {allow_tf32: true}", []string{"cuda={graph: false}"}, CUDA{}},
		{"", []string{"cuda.allow_tf32=true", "cuda.allow_tf32=false"}, CUDA{Graph: true}},
	} {
		r, err := resolve(source{file: "a.yaml"}, []byte(tiny+c.file), c.overrides)
		if err != nil {
			t.Fatal(err)
		}
		if r.Config.CUDA != c.want {
			t.Errorf("%q with %v: %+v, want %+v", c.file, c.overrides, r.Config.CUDA, c.want)
		}
		if again, err := reload(r.Config); err != nil || again.CUDA != c.want {
			t.Errorf("%q with %v, written out and loaded: %+v, %v", c.file, c.overrides, again.CUDA, err)
		}
	}
}

// load resolves a text, with a model where it has none.
func load(t *testing.T, text string) Config {
	t.Helper()
	overrides := []string{"model.layers=[flatten, linear: {units: 10}]"}
	if len(text) > 6 && text[:6] == "model:" {
		overrides = nil
	}
	r, err := resolve(source{file: "a.yaml"}, []byte(text), overrides)
	if err != nil {
		t.Fatal(err)
	}
	return r.Config
}
