package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSources(t *testing.T) {
	text := `epochs: 3
data:
  batch_size: 64
model:
  layers:
    - flatten
    - linear:
        units: 10
        init: {name: zeros}
optim: {name: sgd, lr: 0.1}
`
	r, err := resolve(source{file: "a.yaml"}, []byte(text), []string{"epochs=4", "model.layers.1.linear.bias=false", "optim.schedule={name: step, step_size: 2}"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"seed": "default", "epochs": "override", "data.batch_size": "a.yaml:3", "data.normalize.mean": "default",
		"model.layers.0": "a.yaml:6", "model.layers.1.linear.units": "a.yaml:8", "model.layers.1.linear.init.name": "a.yaml:9",
		"model.layers.1.linear.bias": "override", "model.layers.1.linear.trainable": "default", "optim.lr": "a.yaml:10",
		"optim.schedule.step_size": "override", "optim.schedule.gamma": "default",
	} {
		if got := r.Source[key]; got != want {
			t.Errorf("%s comes from %q, want %q", key, got, want)
		}
	}
	for _, absent := range []string{"optim.beta1", "optim.schedule.milestones", "loss.reduction", "data.random.samples"} {
		if s, ok := r.Source[absent]; ok {
			t.Errorf("%s has source %s, but does not belong to this config", absent, s)
		}
	}
	values := r.Values()
	if len(values) != len(r.Source) {
		t.Errorf("%d values, %d sources", len(values), len(r.Source))
	}
	want := []Value{{"name", "a", "default"}, {"seed", "42", "default"}, {"device", "auto", "default"}, {"threads", "0", "default"}, {"epochs", "4", "override"}}
	if diff := cmp.Diff(want, values[:len(want)]); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestRelativeFolders(t *testing.T) {
	work := t.TempDir()
	t.Chdir(work)
	t.Setenv("HOME", filepath.Join(work, "home"))
	if err := os.Mkdir("exp", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file      string
		overrides []string
		dir, runs string // below work; "": none
	}{
		{"", nil, "", "runs"},
		{"data: {dir: mnist}\nruns_dir: ../out\n", nil, "exp/mnist", "out"},
		{"data: {dir: mnist}\n", []string{"data.dir=mnist", "runs_dir=./r"}, "mnist", "r"},
		{"data: {dir: ~/mnist}\nruns_dir: " + work + "/abs\n", nil, "home/mnist", "abs"},
		{"data: {dir: mnist}\n", []string{"data.dir="}, "", "runs"},
	} {
		if err := os.WriteFile("exp/a.yaml", []byte(tiny+c.file), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Load("exp/a.yaml", c.overrides)
		if err != nil {
			t.Fatal(err)
		}
		dir := ""
		if c.dir != "" {
			dir = filepath.Join(work, c.dir)
		}
		if r.Config.Data.Dir != dir || r.Config.RunsDir != filepath.Join(work, c.runs) {
			t.Errorf("%q %v: data in %s, runs in %s, want %s and %s below %s", c.file, c.overrides, r.Config.Data.Dir, r.Config.RunsDir, c.dir, c.runs, work)
		}
	}
}

// What Diff names, and each section around it, is a key; what no config has is none.
func TestCheckKey(t *testing.T) {
	keys := []string{"cuda.graph", "loss.reduction", "data.random.samples", "data.split", "model.layers.7.residual.layers.0.conv2d.init.std"}
	for _, name := range Names() {
		r, err := Load(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range r.Values() {
			keys = append(keys, v.Key)
		}
	}
	for _, key := range keys {
		for key != "" {
			if err := CheckKey(key); err != nil {
				t.Error(err)
			}
			key = key[:max(0, strings.LastIndex(key, "."))]
		}
	}
	for key, want := range map[string]string{
		"nosuch": `"nosuch" is no key`, "": `"" is no key`, "epoch": `"epoch" is no key; did you mean epochs?`,
		"optim.amsgard": `"optim.amsgard" is no key; did you mean optim.amsgrad?`, "epochs.x": `"epochs.x" is no key; did you mean epochs?`,
		"model.layers.x": `"model.layers.x" is no key; did you mean model.layers?`, "model.layers.0.linear.kernel": `"model.layers.0.linear.kernel" is no key`,
	} {
		if err := CheckKey(key); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", key, err, want)
		}
	}
}

func TestDiff(t *testing.T) {
	load := func(overrides ...string) Config {
		r, err := Load("cnn_amp", overrides)
		if err != nil {
			t.Fatal(err)
		}
		return r.Config
	}
	if d := Diff(load(), load()); d != nil {
		t.Errorf("a config differs from itself: %v", d)
	}
	got := Diff(load(), load("seed=7", "model.layers.0.conv2d.filters=16", "model.layers.1=tanh", "data.dir=/d",
		"optim={name: sgd, lr: 1e-9, schedule: {name: step, step_size: 1, gamma: 0.7}}"))
	want := []Difference{
		{"seed", "42", "7"},
		{"data.dir", `""`, "/d"},
		{"model.layers.0.conv2d.filters", "32", "16"},
		{"model.layers.1", "relu", "tanh"},
		{"optim.name", "adadelta", "sgd"},
		{"optim.lr", "1", "1.0e-09"},
		{"optim.rho", "0.9", ""},
		{"optim.eps", "1.0e-06", ""},
		{"optim.momentum", "", "0"},
		{"optim.dampening", "", "0"},
		{"optim.nesterov", "", "false"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// reload writes a config out and loads the text.
func reload(c Config) (Config, error) {
	text, err := c.YAML()
	if err != nil {
		return Config{}, err
	}
	r, err := resolve(source{file: "elsewhere/config.yaml", dir: "elsewhere"}, text, nil)
	if err != nil {
		return Config{}, fmt.Errorf("%w\n%s", err, text)
	}
	return r.Config, nil
}

func TestEmbedded(t *testing.T) {
	want := []string{
		"cnn", "cnn_amp", "cnn_amp_1024", "cnn_bf16", "cnn_fast", "mlp", "mlp_amp", "posts/sigmoid_mlp", "posts/tensorcore",
		"posts/tensorcore_amp", "posts/tensorcore_amp_1024", "posts/three_matrices", "posts/tutorial_mlp",
	}
	if diff := cmp.Diff(want, Names()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, name := range Names() {
		r, err := Load(name, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(r.Warnings) > 0 {
			t.Errorf("%s: %v", name, r.Warnings)
		}
		if again, err := reload(r.Config); err != nil {
			t.Errorf("%s written out: %v", name, err)
		} else if diff := cmp.Diff(r.Config, again); diff != "" {
			t.Errorf("%s written out and loaded: -want +got\n%s", name, diff)
		}
	}
}

// A config with random values comes back from its YAML as it was, each value to its last bit.
func TestYAMLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		c.Name = rapid.StringMatching(`[a-z0-9_. -]{1,8}`).Filter(func(s string) bool { return s != "." && s != ".." }).Draw(t, "name")
		c.Seed = rapid.Uint64().Draw(t, "seed")
		c.RunsDir = "/" + rapid.String().Filter(func(s string) bool { return filepath.Clean("/"+s) == "/"+s }).Draw(t, "runs_dir")
		c.Data = defaultData(rapid.SampledFrom(names(dataSets())[:4]).Draw(t, "data"))
		c.Data.Normalize.Mean = rapid.Float32Range(-1, 1).Draw(t, "mean")
		c.Data.Normalize.Std = rapid.Float32Range(0x1p-149, 2).Draw(t, "std")
		c.AMP.GradScaler.MinScale = rapid.Float32Range(0, 65536).Draw(t, "min_scale")
		c.AMP.GradScaler.Enabled = rapid.SampledFrom([]string{"auto", "true", "false"}).Draw(t, "scaler")
		c.Optim = defaultOptim(rapid.SampledFrom(names(optimizers())).Draw(t, "optim"))
		c.Optim.LR = rapid.Float64Range(5e-324, 1e300).Draw(t, "lr")
		c.Optim.Schedule = defaultSchedule("multistep")
		for i := range rapid.IntRange(1, 4).Draw(t, "milestones") {
			c.Optim.Schedule.Milestones = append(c.Optim.Schedule.Milestones, 1+i*i)
		}
		c.Model.Layers = layersGen(2).Draw(t, "layers")
		if err := c.Validate(); err != nil {
			t.Fatalf("generator: %v", err)
		}
		again, err := reload(c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
		if d := Diff(c, again); d != nil {
			t.Fatalf("Diff sees %v", d)
		}
	})
}

func layersGen(depth int) *rapid.Generator[[]Layer] {
	layer := rapid.Custom(func(t *rapid.T) Layer {
		l := defaultLayer(rapid.SampledFrom(names(layerKinds())).Draw(t, "kind"))
		size := rapid.IntRange(1, 1<<31-1)
		switch l.Kind {
		case "conv2d":
			l.Filters, l.Kernel, l.Padding = size.Draw(t, "filters"), size.Draw(t, "kernel"), 1
			l.Init = Init{Name: "normal", Std: rapid.Float32Range(0, 1).Draw(t, "std")}
		case "linear":
			l.Units, l.Bias = size.Draw(t, "units"), rapid.Bool().Draw(t, "bias")
		case "max_pool2d", "avg_pool2d":
			l.Size, l.Stride = size.Draw(t, "size"), size.Draw(t, "stride")
		case "dropout":
			l.Rate = rapid.Float32Range(0, 0.99).Draw(t, "rate")
		case "residual":
			l.Layers = []Layer{defaultLayer("relu")}
			if depth > 0 {
				l.Layers = layersGen(depth-1).Draw(t, "layers")
			}
		}
		return l
	})
	return rapid.SliceOfN(layer, 1, 4)
}
