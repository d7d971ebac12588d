package runs

import (
	"errors"
	"flag"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"halfstep/runs/safetensors"
)

// helperEnv is set in a process that a test starts from its own test binary to play another part.
const helperEnv = "RUNS_TEST_HELPER"

// helper starts the running test in another process, with arguments that helperArgs gives it there.
func helper(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, append([]string{"-test.run=^" + t.Name() + "$", "--"}, args...)...)
	c.Env = append(os.Environ(), helperEnv+"=1")
	c.Stderr = os.Stderr
	return c
}

// helperArgs are the arguments in a process that helper started; nil in the test itself.
func helperArgs() []string {
	if os.Getenv(helperEnv) == "" {
		return nil
	}
	return flag.Args()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var start = time.Date(2026, 11, 30, 9, 51, 32, 123456789, time.UTC)

// tick is a clock that moves on by a second at every call.
func tick() func() time.Time {
	now := start
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

// testCheckpoint has contents that depend on the step in every byte.
func testCheckpoint(step, floats int) *Checkpoint {
	data := make([]byte, 4*floats)
	for i := range data {
		data[i] = byte(step*31 + i)
	}
	return &Checkpoint{
		Tensors: []safetensors.Tensor{{Name: "conv1.weight", DType: safetensors.F32, Shape: []int{floats}, Data: data}},
		Meta:    map[string]string{"epoch": "3"},
	}
}

// sampleRun writes a run with one of every event, and two of some.
func sampleRun(t *testing.T, base string, o Options) *Run {
	t.Helper()
	o.Clock = tick()
	r, err := Create(base, "cnn_amp", start, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range sampleEvents() {
		r.Log(e)
	}
	if err := r.WritePredictions(samplePredictions()); err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(sampleSummary()); err != nil {
		t.Fatal(err)
	}
	return r
}

// finishedRun is a sample run with all files that a resume from step 108 changes.
func finishedRun(t *testing.T) *Run {
	t.Helper()
	r := sampleRun(t, t.TempDir(), Options{Config: []byte("epochs: 2\n"), Sources: map[string]string{"epochs": "default"}, TensorBoard: true})
	for _, step := range []int{108, 200, 216} {
		if _, err := SaveCheckpoint(r.CheckpointDir(), step, testCheckpoint(step, 4)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// contents are all files of a folder, by path.
func contents(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	})
	return files, err
}

func sampleEvents() []Event {
	memory := Memory{
		MemPlannedBytes: 28_000_000, ParametersBytes: 1_000_000, HalfCopiesBytes: 2_000_000, GradientsBytes: 3_000_000,
		OptimizerStateBytes: 4_000_000, ActivationsBytes: 5_000_000, WorkspaceBytes: 6_000_000, ResidentDataBytes: 7_000_000,
	}
	measured := memory
	measured.MemPeakBytes, measured.Agrees = new(int64(28_000_000)), new(true)
	return []Event{
		RunStart{Config: "cnn_amp", Seed: 1<<64 - 1, Device: "cpu", DType: "float16", BatchSize: 512, Epochs: 2},
		DeviceChoice{Device: "cpu", Reason: "faster", CPUMSPerStep: new(1.5), CUDAMSPerStep: new(2.5), NotUsable: []string{"cuda:1: no such device"}},
		Data{Dataset: "mnist", TrainSamples: 55000, ValSamples: 5000, TestSamples: 10000, Classes: 10, Shape: []int{28, 28, 1}},
		Model{Layers: 11, Parameters: 1199882},
		memory,
		Step{Epoch: 1, Step: 50, TrainLoss: 0.75, LR: 1, LossScale: 65536, ImagesPerS: 20000},
		SkippedStep{Epoch: 1, Step: 61, LossScaleBefore: 65536, LossScale: 32768, FirstBadTensor: "conv2/weight", SkippedSteps: 1, ConsecutiveSkips: 1},
		ScaleChange{Epoch: 1, Step: 61, LossScaleBefore: 65536, LossScale: 32768, Cause: "backoff"},
		Step{Epoch: 1, Step: 100, TrainLoss: math.NaN(), LR: 1, LossScale: 32768, GradNorm: math.Inf(1), SkippedSteps: 1},
		Epoch{Epoch: 1, Step: 108, TrainLoss: 0.5, TestAccuracy: new(0.97), ValAccuracy: new(0.96), ImagesPerS: 20000.4, LossScale: 32768},
		Evaluation{Split: "test", Epoch: 1, Step: 108, Samples: 10000, TestLoss: new(0.1), TestAccuracy: new(0.97)},
		CheckpointSaved{Epoch: 1, Step: 108, Path: "checkpoints/step-00000108.safetensors", Bytes: 1000, Best: true},
		ScaleChange{Epoch: 2, Step: 200, LossScaleBefore: 32768, LossScale: 65536, Cause: "growth"},
		Epoch{Epoch: 2, Step: 216, TrainLoss: 0.25, TestAccuracy: new(0.98), ValAccuracy: new(0.99), ImagesPerS: 21000, LossScale: 65536},
		Warning{Code: "min_scale", Message: "at the floor", Step: new(210)},
		Failure{Message: "nothing", ExitCode: 1, Step: new(211), FirstBadTensor: new("loss")},
		measured,
	}
}

// samplePredictions are of three images of 1x2, in two classes.
func samplePredictions() *Predictions {
	return &Predictions{
		Split: "test", Step: 216, Samples: 3, Confusion: [][]int{{1, 1}, {0, 1}}, Shape: []int{1, 2, 1},
		Worst: []Sample{
			{Index: 2, Label: 1, Predicted: 0, Pixels: []byte{0, 1}},
			{Index: 0, Label: 0, Predicted: 1, Probability: new(0.75), Loss: new(math.Log(4)), Pixels: []byte{255, 254}},
			{Index: 1, Label: 1, Predicted: 1, Probability: new(0.75), Loss: new(-math.Log(0.75)), Pixels: []byte{9, 8}},
		},
	}
}

func sampleSummary() Summary {
	return Summary{
		Config: "cnn_amp", Seed: 42, Device: "cpu", DType: "float16", BatchSize: 512, Epochs: 2, Steps: 216, Seconds: 10,
		ImagesPerS: 20500, TestAccuracy: new(0.98), TestLoss: new(math.Inf(1)), BestValAccuracy: new(0.99), SkippedSteps: 1,
		FinalLossScale: 65536, MemPlannedBytes: 28_000_000, MemPeakBytes: 28_000_000, ExitReason: "completed",
	}
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
