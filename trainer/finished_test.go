package trainer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"halfstep/runs"
)

// usage fails unless an error is a *ConfigError of a key that says some words.
func usage(t *testing.T, err error, key string, words ...string) {
	t.Helper()
	var e *ConfigError
	if !errors.As(err, &e) || e.Key != key {
		t.Errorf("%v, want a ConfigError of %s", err, key)
		return
	}
	for _, w := range words {
		if !strings.Contains(e.Message, w) {
			t.Errorf("%v does not say %q", e, w)
		}
	}
}

// A damaged checkpoint is passed over with a warning, in eval and export; where all are, they are named.
func TestUseTellsOfDamage(t *testing.T) {
	dir := trainedRun(t, load(t, smallNet), images(t, 256, 64))
	folder := filepath.Join(dir, runs.CheckpointsDir)
	whole := filepath.Join(folder, "step-00000012.safetensors")
	damaged := filepath.Join(folder, "step-00000013.safetensors")
	if err := os.WriteFile(damaged, []byte("half a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	var told []string
	o := UseOptions{Warn: func(message string) { told = append(told, message) }}
	ctx := context.Background()
	evaluated, err := EvaluateRun(ctx, dir, "test", o)
	if err != nil || evaluated.Step != 12 || len(evaluated.Warnings) != 1 || !strings.Contains(evaluated.Warnings[0], damaged) {
		t.Errorf("eval: %+v, %v", evaluated, err)
	}
	file, err := Export(ctx, dir, ExportOptions{UseOptions: o})
	if err != nil || file.Step != 12 || len(file.Warnings) != 1 || !strings.Contains(file.Warnings[0], damaged) {
		t.Errorf("export: %+v, %v", file, err)
	}
	k, err := OpenClassifier(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	k.Close()
	if len(told) != 3 || !strings.Contains(told[2], damaged) {
		t.Errorf("warned of %q, want %s three times", told, damaged)
	}

	if err := os.WriteFile(whole, []byte("half a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = EvaluateRun(ctx, dir, "test", o)
	if err == nil || !strings.Contains(err.Error(), damaged) || !strings.Contains(err.Error(), whole) || ExitCode(err) != ExitFailed {
		t.Errorf("with all checkpoints damaged: %v", err)
	}
}

// What a run does not have is said with the way to it.
func TestUseWhatIsNotThere(t *testing.T) {
	dir := trainedRun(t, load(t, smallNet), images(t, 256, 64))
	ctx := context.Background()
	_, err := EvaluateRun(ctx, dir, "test", UseOptions{Best: true})
	usage(t, err, "--best", "checkpoint.best=true", "data.validation")
	_, err = EvaluateRun(ctx, dir, "val", UseOptions{})
	usage(t, err, "--split", `"val"`, "test or validation")
	_, err = EvaluateRun(ctx, dir, "validation", UseOptions{})
	usage(t, err, "--split", "no validation samples")
	if err := os.Remove(filepath.Join(dir, runs.CheckpointsDir, "step-00000012.safetensors")); err != nil {
		t.Fatal(err)
	}
	_, err = Export(ctx, dir, ExportOptions{})
	usage(t, err, dir, "no checkpoint saved yet")
}

// Where an export may go: files of their own, folders, but nothing of a run's, and under no name of another format.
func TestExportTarget(t *testing.T) {
	dir := trainedRun(t, load(t, smallNet), images(t, 256, 64))
	folder := t.TempDir()
	ctx := context.Background()
	for _, c := range []struct{ out, format, want string }{
		{"", "", filepath.Join(dir, "model.safetensors")},
		{"", "onnx", filepath.Join(dir, "model.onnx")},
		{folder, "", filepath.Join(folder, "model.safetensors")},
		{folder, "onnx", filepath.Join(folder, "model.onnx")},
		{filepath.Join(folder, "a.bin"), "onnx", filepath.Join(folder, "a.bin")},
		{filepath.Join(folder, "a.bin"), "", filepath.Join(folder, "a.bin")}, // again
		{filepath.Join(dir, "b.onnx"), "", filepath.Join(dir, "b.onnx")},
	} {
		e, err := Export(ctx, dir, ExportOptions{Out: c.out, Format: c.format})
		if err != nil || e.Path != c.want {
			t.Errorf("--out %q --format %q: %+v, %v; want %s", c.out, c.format, e, err, c.want)
		}
	}
	before, err := os.ReadFile(filepath.Join(dir, runs.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ out, format, words string }{
		{filepath.Join(folder, "none", "m.onnx"), "", "there is no folder " + filepath.Join(folder, "none")},
		{filepath.Join(folder, "m.pt"), "", "torch.load"},
		{filepath.Join(folder, "m.PTH"), "safetensors", "torch.load"},
		{filepath.Join(folder, "m.onnx"), "safetensors", "another format"},
		{filepath.Join(folder, "m.safetensors"), "onnx", "another format"},
		{filepath.Join(dir, runs.LogFile), "", "run's own file"},
		{filepath.Join(dir, runs.ConfigFile), "", "run's own file"},
		{filepath.Join(dir, "config.1.yaml"), "", "run's own file"},
		{filepath.Join(dir, runs.CheckpointsDir), "", "run's own file"},
		{filepath.Join(dir, runs.CheckpointsDir, "step-00000012.safetensors"), "", "run's own file"},
	} {
		_, err := Export(ctx, dir, ExportOptions{Out: c.out, Format: c.format})
		usage(t, err, "--out", c.words)
	}
	if after, err := os.ReadFile(filepath.Join(dir, runs.ConfigFile)); err != nil || string(after) != string(before) {
		t.Error("the run's configuration changed", err)
	}
}

// Exports to one file at once do not disturb each other, nor a file of the user beside it.
func TestExportsAtOnce(t *testing.T) {
	dir := trainedRun(t, load(t, smallNet), images(t, 256, 64))
	out := filepath.Join(t.TempDir(), "net.onnx")
	mine := out + ".tmp"
	if err := os.WriteFile(mine, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := Export(context.Background(), dir, ExportOptions{Out: out}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if b, err := os.ReadFile(mine); err != nil || string(b) != "mine" {
		t.Errorf("the user's file: %q, %v", b, err)
	}
	if list, err := os.ReadDir(filepath.Dir(out)); err != nil || len(list) != 2 {
		t.Errorf("%v, %v; want the export and the user's file", list, err)
	}
	decodeONNX(t, must(t, out))
}

func must(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A checkpoint without what the configuration needs is refused by the key that needs it.
func TestRestoreNamesTheKey(t *testing.T) {
	set, dev := images(t, 200, 50), open(t, nil, 0)
	c := load(t, smallCNN).Config
	tr, _, _ := fit(t, c, set, dev)
	from := checkpoint(t, tr)
	for _, o := range []struct{ override, key string }{
		{"optim.amsgrad=true", "optim.amsgrad"},
		{"optim.name=rmsprop", "optim.name"},
		{"optim.schedule.name=plateau", "optim.schedule.name"},
		{"model.layers=[flatten, {linear: {units: 10}}]", "model"},
	} {
		changed := load(t, smallCNN, "data.validation=20", o.override).Config
		_, err := newTrainer(t, changed, hold(images(t, 200, 50), 20), dev, Options{}).Restore(from)
		usage(t, err, o.key)
	}
	for _, o := range []struct{ before, after, key string }{
		{"{name: sgd, lr: 0.1}", "{name: sgd, lr: 0.1, momentum: 0.9}", "optim.momentum"},
		{"{name: rmsprop, lr: 0.1}", "{name: rmsprop, lr: 0.1, momentum: 0.9}", "optim.momentum"},
		{"{name: rmsprop, lr: 0.1}", "{name: rmsprop, lr: 0.1, centered: true}", "optim.centered"},
	} {
		with := func(optim string) string { return smallNet + "optim: " + optim + "\n" }
		from := checkpoint(t, newTrainer(t, load(t, with(o.before)).Config, set, dev, Options{}))
		_, err := newTrainer(t, load(t, with(o.after)).Config, set, dev, Options{}).Restore(from)
		usage(t, err, o.key)
	}
}

// A run that was killed after max_steps cut an epoch, before its end, sums that epoch up again when it is resumed.
func TestResumeAtMaxSteps(t *testing.T) {
	c := load(t, linearNet, "data.batch_size=64", "max_steps=6").Config // 4 steps an epoch
	set, dev := images(t, 200, 50), open(t, nil, 0)
	_, whole, _ := fit(t, c, set, dev)
	r, _ := resumed(t, c, set, dev, whole.last())
	want := of[runs.Epoch](whole)
	got := of[runs.Epoch](r)
	if len(got) != 1 || got[0].Epoch != 2 || got[0].Step != 6 || got[0].TrainLoss != want[1].TrainLoss || *got[0].TestLoss != *want[1].TestLoss {
		t.Errorf("%+v, want %+v", got, want[1])
	}
	if n := len(of[runs.Step](r)); n != 0 {
		t.Errorf("%d steps were trained", n)
	}
}
