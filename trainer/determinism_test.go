package trainer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/runs"
)

// smallCNN has every kind of state that training can carry: dropout, batch norm, a smaller last batch, augmentation.
const smallCNN = `
epochs: 3
data: {name: mnist, batch_size: 32, augment: {shift: 1}}
model:
  layers: [{conv2d: {filters: 8, kernel: 3, stride: 2}}, batch_norm, relu, {max_pool2d: {size: 2}}, {dropout: {rate: 0.3}}, flatten,
    {linear: {units: 32}}, relu, {dropout: {rate: 0.2}}, {linear: {units: 10}}]
optim: {name: adam, lr: 0.003}
log: {every: 4}
checkpoint: {keep: 100}
`

// precisions are overrides for float32, float16 and bfloat16.
func precisions() map[string][]string {
	return map[string][]string{
		"float32":  {"amp.enabled=false"},
		"float16":  {"amp={enabled: true, dtype: float16}"},
		"bfloat16": {"amp={enabled: true, dtype: bfloat16}"},
	}
}

// TestThreads: the same bits at any number of processors and threads.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	set := images(t, 200, 50)
	for name, p := range precisions() {
		t.Run(name, func(t *testing.T) {
			c := load(t, smallCNN, append(p, "log.every=1")...).Config
			var first *recorder
			for _, n := range []struct{ procs, threads int }{{1, 0}, {2, 0}, {3, 0}, {1, 3}} {
				runtime.GOMAXPROCS(n.procs)
				_, r, _ := fit(t, c, set, open(t, nil, n.threads))
				if first == nil {
					first = r
					continue
				}
				sameRun(t, fmt.Sprintf("GOMAXPROCS %d, threads %d", n.procs, n.threads), first.events, r.events, first.last(), r.last())
			}
			t.Logf("loss of the last epoch %v, the same four times", of[runs.Epoch](first)[2].TrainLoss)
		})
	}
}

// TestThreadsShipped: a few steps of the shipped CNN, whose tensors are large enough to be cut in many pieces.
func TestThreadsShipped(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: seconds on the portable level")
	}
	set := images(t, 300, 0)
	for _, name := range []string{"cnn", "cnn_amp", "cnn_bf16"} {
		r, err := configs.Load(name, []string{"epochs=1", "data.batch_size=128", "log.every=1"})
		if err != nil {
			t.Fatal(err)
		}
		_, one, _ := fit(t, r.Config, set, open(t, nil, 1))
		_, three, _ := fit(t, r.Config, set, open(t, nil, 3))
		sameRun(t, name, one.events, three.events, one.last(), three.last())
	}
}

// TestMasksDiffer: dropout and augmentation draw anew in every epoch: with parameters that stay, in the same order, the same
// images give another loss. Without both it is the same.
func TestMasksDiffer(t *testing.T) {
	dev := open(t, nil, 0)
	for _, c := range []struct {
		shift int
		rate  float64
		same  bool
	}{{0, 0, true}, {1, 0, false}, {0, 0.3, false}} {
		cfg := load(t, smallCNN, still, "data.shuffle=false", "epochs=2", fmt.Sprintf("data.augment.shift=%d", c.shift),
			fmt.Sprintf("model.layers.4.dropout.rate=%v", c.rate), "model.layers.8.dropout.rate=0").Config
		_, r, _ := fit(t, cfg, images(t, 64, 0), dev)
		if e := of[runs.Epoch](r); (e[0].TrainLoss == e[1].TrainLoss) != c.same {
			t.Errorf("shift %d, dropout %v: losses %v and %v", c.shift, c.rate, e[0].TrainLoss, e[1].TrainLoss)
		}
	}
}

func (r *recorder) last() *runs.Checkpoint { return r.saved[len(r.saved)-1] }

// sameRun compares what was logged, times aside, and the last checkpoint, all bit for bit.
func sameRun(t *testing.T, what string, want, got []runs.Event, wantLast, gotLast *runs.Checkpoint) {
	t.Helper()
	if d := cmp.Diff(timeless(want), timeless(got), cmpopts.EquateNaNs()); d != "" {
		t.Errorf("%s: the log differs: %s", what, d)
	}
	if len(wantLast.Tensors) != len(gotLast.Tensors) || wantLast.Step != gotLast.Step {
		t.Fatalf("%s: %d tensors at step %d, want %d at %d", what, len(gotLast.Tensors), gotLast.Step, len(wantLast.Tensors), wantLast.Step)
	}
	for k, w := range wantLast.Tensors {
		if g := gotLast.Tensors[k]; w.Name != g.Name || !bytes.Equal(w.Data, g.Data) {
			t.Errorf("%s: %s differs", what, w.Name)
		}
	}
	if d := cmp.Diff(timelessMeta(t, wantLast), timelessMeta(t, gotLast), cmpopts.EquateNaNs()); d != "" {
		t.Errorf("%s: the state differs: %s", what, d)
	}
}

// timeless leaves out of events what a clock says, and memory, which grows with the threads.
func timeless(events []runs.Event) []runs.Event {
	list := make([]runs.Event, len(events))
	for k, e := range events {
		switch e := e.(type) {
		case runs.Step:
			e.ImagesPerS = 0
			list[k] = e
		case runs.Epoch:
			e.Seconds, e.EvalSeconds, e.ImagesPerS, e.MemPlannedBytes, e.MemPeakBytes = 0, 0, 0, 0, 0
			list[k] = e
		case runs.Evaluation:
			e.Seconds, e.ImagesPerS = 0, 0
			list[k] = e
		default:
			list[k] = e
		}
	}
	return list
}

// timelessMeta is a checkpoint's metadata without times.
func timelessMeta(t *testing.T, c *runs.Checkpoint) map[string]string {
	t.Helper()
	m := map[string]string{}
	for k, v := range c.Meta {
		m[k] = v
	}
	var s state
	if err := json.Unmarshal([]byte(m[metaState]), &s); err != nil {
		t.Fatal(err)
	}
	s.Seconds, s.Trained, s.EpochSeconds, s.RecentSeconds = 0, 0, 0, 0
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	m[metaState] = string(b)
	return m
}

// resumeCases are configurations whose state at a checkpoint differs in kind.
func resumeCases() map[string][]string {
	oneCycle := "optim.schedule={name: one_cycle, per: update, max_lr: 0.01}"
	plateau := "optim.schedule={name: plateau, patience: 0, factor: 0.5, threshold: 0.1}"
	return map[string][]string{
		"float32, one cycle":                 {oneCycle},
		"float16, one cycle, overflows":      {oneCycle, "amp={enabled: true, grad_scaler: {init_scale: 3e7, max_scale: 0, growth_interval: 5}}"},
		"bfloat16, plateau":                  {plateau, "epochs=8", "amp={enabled: true, dtype: bfloat16}", "data.validation=40", "checkpoint.best=true"},
		"float32, accumulate 3, plateau":     {plateau, "optim.accumulate=3", "data.batch_size=16", "data.validation=40"},
		"float16, accumulate 3, one cycle":   {oneCycle, "optim.accumulate=3", "data.batch_size=16", "amp={enabled: true, grad_scaler: {init_scale: 3e7, max_scale: 0, growth_interval: 2}}"},
		"float32, adadelta, steps an epoch":  {"optim={name: adadelta, lr: 1, schedule: {name: step, step_size: 1, gamma: 0.7}}", "data.drop_last=true"},
		"float32, amsgrad":                   {"optim={name: adam, lr: 0.003, amsgrad: true}"},
		"float32, sgd with momentum, cosine": {"optim={name: sgd, lr: 0.05, momentum: 0.9, schedule: {name: cosine, warmup: 1}}"},
	}
}

// resumeSet is 200 images, of which those that the configuration asks for are held out.
func resumeSet(t *testing.T, c configs.Config) *data.Set {
	return hold(images(t, 200, 50), int(c.Data.Validation))
}

// TestResume: going on from any checkpoint equals never having stopped, bit for bit: between epochs, within one, with
// accumulated gradients, after skipped steps.
func TestResume(t *testing.T) {
	for name, overrides := range resumeCases() {
		t.Run(name, func(t *testing.T) {
			c := load(t, smallCNN, append(overrides, "checkpoint.steps=3")...).Config
			set, dev := resumeSet(t, c), open(t, nil, 0)
			_, whole, result := fit(t, c, set, dev)
			middle := 0
			for _, saved := range whole.saved[:len(whole.saved)-1] {
				r, epoch := resumed(t, c, set, dev, onDisk(t, saved))
				if epoch != "" {
					middle++
				}
				sameRun(t, fmt.Sprintf("from step %d", saved.Step), after(whole.events, saved.Step), r.events, whole.last(), r.last())
				if got, want := bestSteps(r, saved.Step), bestSteps(whole, saved.Step); !slices.Equal(got, want) {
					t.Errorf("from step %d: best at %v, want %v", saved.Step, got, want)
				}
			}
			if middle == 0 {
				t.Error("no checkpoint in the middle of an epoch")
			}
			t.Logf("%d checkpoints, %d within an epoch; %d steps, %d skipped", len(whole.saved), middle, result.Steps, result.Skipped)
		})
	}
}

// bestSteps are the steps after one at which a checkpoint was saved as the best.
func bestSteps(r *recorder, step int) (list []int) {
	for _, c := range r.best {
		if c.Step > step {
			list = append(list, c.Step)
		}
	}
	return list
}

// resumed trains on from a checkpoint; epoch names the position when it is within an epoch.
func resumed(t *testing.T, c configs.Config, set *data.Set, dev device.Device, from *runs.Checkpoint) (r *recorder, epoch string) {
	t.Helper()
	r = &recorder{}
	tr := newTrainer(t, c, set, dev, r.options())
	if _, err := tr.Restore(from); err != nil {
		t.Fatal(err)
	}
	if e, position, _ := tr.Position(); position > 0 {
		epoch = fmt.Sprintf("epoch %d, sample %d", e, position)
	}
	if _, err := tr.Fit(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r, epoch
}

// onDisk is a checkpoint as it is read back from its file.
func onDisk(t *testing.T, c *runs.Checkpoint) *runs.Checkpoint {
	t.Helper()
	path, err := runs.SaveCheckpoint(t.TempDir(), c.Step, c)
	if err != nil {
		t.Fatal(err)
	}
	read, err := runs.LoadCheckpoint(path)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// after leaves the events of later steps.
func after(events []runs.Event, step int) []runs.Event {
	var list []runs.Event
	for _, e := range events {
		if stepOf(e) > step {
			list = append(list, e)
		}
	}
	return list
}

func stepOf(e runs.Event) int {
	switch e := e.(type) {
	case runs.Step:
		return e.Step
	case runs.Epoch:
		return e.Step
	case runs.Evaluation:
		return e.Step
	case runs.SkippedStep:
		return e.Step
	case runs.ScaleChange:
		return e.Step
	case runs.Warning:
		return *e.Step
	}
	return 0
}

// countdown is a context that ends after so many questions for its error: in the middle of a burst of steps, or of an
// evaluation.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func (c *countdown) Done() <-chan struct{}       { return nil }
func (c *countdown) Deadline() (time.Time, bool) { return time.Time{}, false }

// TestInterrupt: a run that is interrupted anywhere and goes on logs the same events once each and ends with the same bits.
// A group of micro-batches is never left half done.
func TestInterrupt(t *testing.T) {
	for name, overrides := range resumeCases() {
		t.Run(name, func(t *testing.T) {
			c := load(t, smallCNN, append(overrides, "epochs=2")...).Config
			set, dev := resumeSet(t, c), open(t, nil, 0)
			_, whole, _ := fit(t, c, set, dev)
			interruptions := 0
			for at := 0; ; at++ {
				r := &recorder{}
				tr := newTrainer(t, c, set, dev, r.options())
				_, err := tr.Fit(&countdown{context.Background(), at})
				if err == nil {
					break
				}
				if err != ErrInterrupted {
					t.Fatalf("interrupted after %d steps: error %v", at, err)
				}
				rest, _ := resumed(t, c, set, dev, onDisk(t, r.last()))
				sameRun(t, fmt.Sprintf("interrupted at %d", r.last().Step), whole.events, append(r.events, rest.events...), whole.last(), rest.last())
				interruptions++
			}
			t.Logf("interrupted %d times", interruptions)
		})
	}
}
