package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/runs"
)

// commandEnv makes this test binary the command itself, so that tests run it as a user does, as a process of its own.
const commandEnv = "HALFSTEP_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// command is the command with arguments, run in dir.
func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), commandEnv+"=1")
	return c
}

// output is what a command left behind.
type output struct {
	code           int
	stdout, stderr string
}

func (o output) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", o.code, o.stdout, o.stderr)
}

// train runs the command to its end.
func train(t *testing.T, dir string, args ...string) output {
	t.Helper()
	return finish(t, command(t, dir, args...))
}

func finish(t *testing.T, c *exec.Cmd) output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return output{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// wants fails unless the command ended with a code and said some words.
func (o output) wants(t *testing.T, code int, words ...string) output {
	t.Helper()
	if o.code != code {
		t.Fatalf("want exit code %d: %v", code, o)
	}
	for _, w := range words {
		if !strings.Contains(o.stdout+o.stderr, w) {
			t.Errorf("does not say %q: %v", w, o)
		}
	}
	return o
}

// mnist is the real MNIST, read once.
var mnist = sync.OnceValues(func() (*data.Set, error) { return data.Open(configs.Data{Name: "mnist"}, 0) })

// workplace is a folder with a small set of real images, cut from MNIST, and a configuration test.yaml that trains on it.
func workplace(t *testing.T, train, test int, yaml string) string {
	t.Helper()
	set, err := mnist()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeIDX(t, dir, "train", set.Train, train)
	writeIDX(t, dir, "t10k", set.Test, test)
	if err := os.WriteFile(filepath.Join(dir, "test.yaml"), []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeIDX(t *testing.T, dir, name string, s data.Split, n int) {
	t.Helper()
	header := func(values ...uint32) []byte {
		var b []byte
		for _, v := range values {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return b
	}
	labels := header(0x0801, uint32(n))
	for _, l := range s.Labels[:n] {
		labels = append(labels, byte(l))
	}
	for file, b := range map[string][]byte{
		name + "-images-idx3-ubyte": append(header(0x0803, uint32(n), 28, 28), s.Images[:n*28*28]...),
		name + "-labels-idx1-ubyte": labels,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// small trains in well under a second: a net with dropout and batch norm on the images beside the file.
const small = `
name: small
epochs: 3
data: {name: idx, dir: ., batch_size: 32, normalize: {mean: 0.1307, std: 0.3081}}
model:
  layers: [{conv2d: {filters: 4, kernel: 3, stride: 2}}, batch_norm, relu, {dropout: {rate: 0.2}}, flatten, {linear: {units: 10}}]
optim: {name: adam, lr: 0.003, schedule: {name: one_cycle, per: update, max_lr: 0.01}}
amp: {enabled: true}
log: {every: 5}
checkpoint: {keep: 3}
`

// theRun is the one run folder in dir/runs.
func theRun(t *testing.T, dir string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "runs", "*"))
	if err != nil || len(list) != 1 {
		t.Fatalf("%d run folders: %v", len(list), err)
	}
	return list[0]
}

// reread opens a run folder that must be faultless.
func reread(t *testing.T, dir string) *runs.Record {
	t.Helper()
	r, err := runs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) > 0 {
		t.Errorf("problems %q", r.Problems)
	}
	return r
}

// newest is a run's newest checkpoint, which must be whole.
func newest(t *testing.T, run string) *runs.Checkpoint {
	t.Helper()
	c, warnings, err := runs.Latest(filepath.Join(run, runs.CheckpointsDir))
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	return c
}

// sameEnd compares the last checkpoints of two runs bit for bit, and what they logged.
func sameEnd(t *testing.T, want, got string) {
	t.Helper()
	a, b := newest(t, want), newest(t, got)
	if a.Step != b.Step || len(a.Tensors) != len(b.Tensors) {
		t.Fatalf("step %d with %d tensors, want %d with %d", b.Step, len(b.Tensors), a.Step, len(a.Tensors))
	}
	for k, x := range a.Tensors {
		if y := b.Tensors[k]; x.Name != y.Name || !bytes.Equal(x.Data, y.Data) {
			t.Errorf("%s differs", x.Name)
		}
	}
	if x, y := losses(reread(t, want)), losses(reread(t, got)); x != y {
		t.Errorf("logged %s\nwant   %s", y, x)
	}
}

// losses are the losses, norms and scales that a run logged, in order.
func losses(r *runs.Record) string {
	var b strings.Builder
	for _, l := range r.Lines {
		switch e := l.Event.(type) {
		case runs.Step:
			fmt.Fprintln(&b, "step", e.Step, e.TrainLoss, e.GradNorm, e.LR, e.LossScale)
		case runs.Epoch:
			fmt.Fprintln(&b, "epoch", e.Epoch, e.Step, e.TrainLoss, *e.TestLoss)
		}
	}
	for _, e := range r.Epochs {
		fmt.Fprintln(&b, "metrics", e.Epoch, e.Step, e.TrainLoss, *e.TestLoss)
	}
	return b.String()
}
