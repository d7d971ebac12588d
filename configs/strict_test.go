package configs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tiny is the shortest config without a mistake.
const tiny = "model: {layers: [flatten, linear: {units: 10}]}\n"

// problems resolves a file and gives the lines of its error.
func problems(t *testing.T, text string, overrides ...string) []string {
	t.Helper()
	_, err := resolve(source{file: "a.yaml"}, []byte(text), overrides)
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is a %T, want *Error: %v", err, err)
	}
	return strings.Split(err.Error(), "\n")
}

// The messages were written by hand from the rules in docs/CONFIG.md.
func TestStrictFile(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing wrong":        {tiny, nil},
		"1e-3 is a number":     {tiny + "optim: {lr: 1e-3}\n", nil},
		"quoted text":          {tiny + "runs_dir: \"2024\"\n", nil},
		"largest seed":         {tiny + "seed: 18446744073709551615\n", nil},
		"layer with no fields": {"model: {layers: [flatten: , linear: {units: 1}, relu: {}, softmax]}\n", nil},
		"misspelt key": {
			tiny + "epoch: 3\n",
			[]string{"a.yaml:2:1: epoch: unknown key; did you mean epochs?"},
		},
		"misspelt keys in sections": {tiny + "data:\n  name: mnist\n  batchsize: 3\noptim: {nmae: sgd}\n", []string{
			"a.yaml:4:3: data.batchsize: unknown key; did you mean batch_size?",
			"a.yaml:5:9: optim.nmae: unknown key; did you mean name?",
		}},
		"key of another section": {
			tiny + "batch_size: 3\n",
			[]string{"a.yaml:2:1: batch_size: unknown key; did you mean data.batch_size?"},
		},
		"key like no other": {
			tiny + "log: {colour: red}\n",
			[]string{"a.yaml:2:7: log.colour: unknown key; want one of level, every, tensorboard"},
		},
		"misspelt model, nothing that follows from it": {
			"modle: {layers: [relu]}\n",
			[]string{"a.yaml:1:1: modle: unknown key; did you mean model?"},
		},
		"misspelt field, nothing that follows from it": {
			"model: {layers: [conv2d: {filter: 32, kernel: 3}]}\n",
			[]string{"a.yaml:1:27: model.layers.0.conv2d.filter: unknown key; did you mean filters?"},
		},
		"fractional epochs": {
			tiny + "epochs: 2.7\n",
			[]string{"a.yaml:2:9: epochs: want a whole number, got 2.7"},
		},
		"whole but not written so": {
			tiny + "epochs: 1e1\n",
			[]string{"a.yaml:2:9: epochs: want a whole number, got 1e1; write 10"},
		},
		"leading zeros": {tiny + "seed: 010\nepochs: 00\noptim: {lr: 00.5}\n", []string{
			"a.yaml:2:7: seed: 010 has a leading zero, which YAML may read as octal; write 10",
			"a.yaml:3:9: epochs: 00 has a leading zero, which YAML may read as octal; write 0",
			"a.yaml:4:13: optim.lr: 00.5 has a leading zero, which YAML may read as octal; write 0.5",
		}},
		"other bases": {tiny + "seed: 0x10\nepochs: 0o7\nthreads: 1_0\n", []string{
			"a.yaml:2:7: seed: want a whole number, got 0x10",
			"a.yaml:3:9: epochs: want a whole number, got 0o7",
			"a.yaml:4:10: threads: want a whole number, got 1_0",
		}},
		"booleans of YAML 1.1": {tiny + "data: {shuffle: yes, drop_last: off, resident: True, transpose: 1}\n", []string{
			"a.yaml:2:17: data.shuffle: want true or false, got yes; write true",
			"a.yaml:2:33: data.drop_last: want true or false, got off; write false",
			"a.yaml:2:48: data.resident: want true or false, got True; write true",
			"a.yaml:2:65: data.transpose: want true or false, got 1",
		}},
		"keys of the CUDA device": {tiny + "cuda: {graph: no, allow_tf32: 1, tf32: true}\ndevice: cuda\nallow_tf32: true\n", []string{
			"a.yaml:2:15: cuda.graph: want true or false, got no; write false",
			"a.yaml:2:31: cuda.allow_tf32: want true or false, got 1",
			"a.yaml:2:34: cuda.tf32: unknown key; want one of graph, allow_tf32",
			"a.yaml:4:1: allow_tf32: unknown key; did you mean cuda.allow_tf32?",
		}},
		"text for a number": {tiny + "epochs: \"3\"\noptim: {lr: fast}\n", []string{
			"a.yaml:2:9: epochs: want a whole number, got the text \"3\"",
			"a.yaml:3:13: optim.lr: want a number, got fast",
		}},
		"number for a text": {
			tiny + "runs_dir: 2024\n",
			[]string{"a.yaml:2:11: runs_dir: want text, got 2024; write \"2024\" with the quotes"},
		},
		"no values": {tiny + "epochs:\nruns_dir: ~\ndata:\n", []string{
			"a.yaml:2:8: epochs: no value; want a whole number",
			"a.yaml:3:11: runs_dir: no value; want text, \"\" if it is empty",
			"a.yaml:4:6: data: no value; want keys with values",
		}},
		"lists and sections in the wrong place": {"epochs: [1]\nseed: {a: 1}\ndata: mnist\nmodel: {layers: 3}\n", []string{
			"a.yaml:1:9: epochs: want a whole number, got a list",
			"a.yaml:2:7: seed: want a whole number, got keys with values",
			"a.yaml:3:7: data: want keys with values, got mnist",
			"a.yaml:4:17: model.layers: want a list of layers, got 3",
		}},
		"numbers too large or small": {tiny + "epochs: 2147483648\nseed: -1\noptim: {lr: 1e999, clip_grad_norm: 1e39}\namp: {grad_scaler: {min_scale: 1e-60}}\n", []string{
			"a.yaml:2:9: epochs: want a whole number up to 2147483647, got 2147483648",
			"a.yaml:3:7: seed: want 0 to 18446744073709551615, got -1",
			"a.yaml:4:13: optim.lr: 1e999 is too large for a float64",
			"a.yaml:4:36: optim.clip_grad_norm: 1e39 is too large for a float32",
			"a.yaml:5:32: amp.grad_scaler.min_scale: 1e-60 is too small for a float32",
		}},
		"not finite": {tiny + "optim: {lr: .inf, weight_decay: nan}\n", []string{
			"a.yaml:2:13: optim.lr: want a finite number, got .inf",
			"a.yaml:2:33: optim.weight_decay: want a finite number, got nan",
		}},
		"key twice": {tiny + "epochs: 1\nepochs: 2\ndata: {dir: a, dir: b}\n", []string{
			"a.yaml:3:1: epochs: key given twice",
			"a.yaml:4:16: data.dir: key given twice",
		}},
		"two documents": {
			tiny + "---\nepochs: 1\n",
			[]string{"a.yaml:2:1: a second YAML document starts here; want one"},
		},
		"a list":    {"- 1\n", []string{"a.yaml:1:1: want keys with values, such as epochs: 10"}},
		"empty":     {"# nothing\n", []string{"a.yaml: model.layers: a model needs at least one layer"}},
		"tab":       {"data:\n\tname: mnist\n", []string{"a.yaml:2:1: not YAML: found character that cannot start any token while scanning for the next token"}},
		"open list": {"seed: 1\nmodel: [1,\n", []string{"a.yaml:3:1: not YAML: did not find expected node content while parsing a flow node"}},
		"tags, aliases, merge keys": {tiny + "epochs: !!int 3\nseed: &s 4\nthreads: *s\n<<: {log: 1}\n", []string{
			"a.yaml:2:9: epochs: tags such as !!int are not supported; want a whole number",
			"a.yaml:4:10: threads: aliases such as *s are not supported; write the value out",
			"a.yaml:5:1: merge keys (<<) are not supported; write the values out",
		}},
		"layers": {"model:\n  layers:\n    - rlu\n    - linear: 10\n    - [relu]\n    - conv2d:\n      filters: 3\n    - 3\n    - relu: {size: 2}\n", []string{
			"a.yaml:3:7: model.layers.0: unknown layer \"rlu\"; did you mean relu?",
			"a.yaml:4:15: model.layers.1.linear: want keys with values, got 10",
			"a.yaml:5:7: model.layers.2: want a layer such as relu or linear: {units: 10}",
			"a.yaml:6:7: model.layers.3: want one layer, got the keys conv2d, filters; a layer's fields are indented below its name, or written conv2d: {filters: 32, kernel: 3}",
			"a.yaml:8:7: model.layers.4: unknown layer \"3\"; want one of conv2d, linear, relu, sigmoid, tanh, gelu, softmax, max_pool2d, avg_pool2d, batch_norm, dropout, flatten, residual",
			"a.yaml:9:14: model.layers.5.relu.size: a key of max_pool2d, avg_pool2d, not of relu",
		}},
		"keys of other kinds": {tiny + "optim: {name: sgd, rho: 0.9}\nloss: {reduction: sum}\ndata: {random: {samples: 2}}\n", []string{
			"a.yaml:2:20: optim.rho: a key of adadelta, not of sgd, which has lr, momentum, dampening, nesterov, weight_decay, schedule, clip_grad_norm, accumulate",
			"a.yaml:3:8: loss.reduction: a key of mse, bce_with_logits, not of cross_entropy, which has label_smoothing",
			"a.yaml:4:8: data.random: a key of random, not of mnist, which has dir, batch_size, drop_last, shuffle, validation, normalize, transpose, resident, augment",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, problems(t, c.text)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestStrictOverrides(t *testing.T) {
	file := "model:\n  layers:\n    - conv2d: {filters: 3, kernel: 3}\n    - relu\n    - batch_norm\noptim: {name: adadelta, rho: 0.8}\n"
	for name, c := range map[string]struct {
		overrides []string
		want      []string
	}{
		"right ones": {[]string{
			"epochs=1", "data.batch_size=256", "model.layers.0.conv2d.filters=64", "model.layers.2.batch_norm.eps=1e-3",
			"model.layers.1={gelu: {approximate: tanh}}", "optim={name: sgd}", "data.dir=", "log.level=warn",
		}, nil},
		"every one is named": {[]string{"epochs=2.7", "seed=010", "data.shuffle=no", "epoch=3", "optm.lr=1"}, []string{
			`override "epochs=2.7": epochs: want a whole number, got 2.7`,
			`override "seed=010": seed: 010 has a leading zero, which YAML may read as octal; write 10`,
			`override "data.shuffle=no": data.shuffle: want true or false, got no; write false`,
			`override "epoch=3": epoch: unknown key; did you mean epochs?`,
			`override "optm.lr=1": optm: unknown key; did you mean optim?`,
		}},
		"keys of the CUDA device": {[]string{"cuda.graph=0", "cuda.allow_tf23=true"}, []string{
			`override "cuda.graph=0": cuda.graph: want true or false, got 0`,
			`override "cuda.allow_tf23=true": cuda.allow_tf23: unknown key; did you mean allow_tf32?`,
		}},
		"not key=value": {[]string{"epochs", "=3", "a..b=3"}, []string{
			`override "epochs": want key=value, such as data.batch_size=256`,
			`override "=3": want a dotted key before the =, such as data.batch_size`,
			`override "a..b=3": want a dotted key before the =, such as data.batch_size`,
		}},
		"not YAML": {[]string{"optim.schedule={name: [", "seed=1\n---\n2"}, []string{
			`override "optim.schedule={name: [": optim.schedule: not YAML: did not find expected node content while parsing a flow node`,
			`override "seed=1\n---\n2": seed: a second YAML document starts here; want one`,
		}},
		"no such layer": {[]string{"model.layers.3=relu", "model.layers.x=relu", "model.layers.0.linear.units=3", "model.layers.1.gelu.approximate=tanh"}, []string{
			`override "model.layers.3=relu": model.layers: there is no item 3; there are 3, counted from 0`,
			`override "model.layers.x=relu": model.layers: there is no item x; there are 3, counted from 0`,
			`override "model.layers.0.linear.units=3": model.layers.0: is conv2d, not linear; to change the kind, give the whole layer as value`,
			`override "model.layers.1.gelu.approximate=tanh": model.layers.1: is relu, not gelu; to change the kind, give the whole layer as value`,
		}},
		"below a value": {[]string{"optim.rho.x=1"}, []string{
			`override "optim.rho.x=1": optim.rho: is 0.8, a single value without x`,
		}},
		"empty number": {[]string{"epochs="}, []string{
			`override "epochs=": epochs: want a whole number, got the text ""`,
		}},
		"name that leaves keys behind": {[]string{"optim.name=sgd"}, []string{
			`a.yaml:6:25: optim.rho: a key of adadelta, not of sgd, which has lr, momentum, dampening, nesterov, weight_decay, schedule, clip_grad_norm, accumulate; an override with {name: sgd, ...} replaces the whole section`,
		}},
		"the last one counts": {[]string{"epochs=0", "epochs=1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, problems(t, file, c.overrides...)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("mine.yaml", []byte(tiny), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("posts", 0o755); err != nil { // a folder does not hide an embedded config
		t.Fatal(err)
	}
	for arg, file := range map[string]string{
		"mine": "mine.yaml", "mine.yaml": "mine.yaml", filepath.Join(dir, "mine"): filepath.Join(dir, "mine.yaml"),
		"mlp": "configs/mlp.yaml", "cnn_amp.yaml": "configs/cnn_amp.yaml", "posts/tensorcore": "configs/posts/tensorcore.yaml",
	} {
		r, err := Load(arg, nil)
		if err != nil || r.File != file {
			t.Errorf("Load(%q) gave %v, %v, want %s", arg, r, err, file)
			continue
		}
		if want := strings.TrimSuffix(filepath.Base(file), ".yaml"); r.Config.Name != want {
			t.Errorf("Load(%q) is named %s, want %s", arg, r.Config.Name, want)
		}
	}
	for arg, want := range map[string]string{
		"cn_amp":      "config cn_amp: no such file and no embedded config; did you mean cnn_amp?",
		"mine.yaml/x": "config mine.yaml/x: stat mine.yaml/x.yaml: not a directory and no embedded config; want one of " + strings.Join(Names(), ", "),
		"":            "no config given; want a path or one of " + strings.Join(Names(), ", "),
		"posts":       "config posts: is a folder and no embedded config; want one of " + strings.Join(Names(), ", "),
	} {
		var e *Error
		if _, err := Load(arg, nil); !errors.As(err, &e) || err.Error() != want {
			t.Errorf("Load(%q): %v, want %s", arg, err, want)
		}
	}
}
