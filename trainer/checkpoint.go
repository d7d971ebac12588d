package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"halfstep/amp"
	"halfstep/device"
	"halfstep/model"
	"halfstep/optim"
	"halfstep/program"
	"halfstep/runs"
	"halfstep/runs/safetensors"
)

// The keys of a checkpoint's metadata. Each value is JSON.
const (
	metaState    = "state"
	metaCounters = "counters"
	metaScaler   = "grad_scaler"
	metaSchedule = "schedule"
	metaOptim    = "optimizer"
)

// optimizerPrefix keeps the optimizer's state apart from the weights: "optimizer.conv1.weight.exp_avg".
const optimizerPrefix = "optimizer."

// torchName is a parameter's name as PyTorch writes it: "conv1.weight".
func torchName(name string) string { return strings.ReplaceAll(name, "/", ".") }

// saved is a value of the store that checkpoints hold, with its layout. States follow their parameter's layout.
type saved struct {
	name   string
	tensor string
	layout model.Param
}

// savedValues lists parameters, running statistics and optimizer state.
func (t *Trainer) savedValues() []saved {
	var r []saved
	for _, p := range t.params {
		r = append(r, saved{p.Name, torchName(p.Name), p})
	}
	for _, n := range t.norms {
		for _, name := range []string{n.RunningMean, n.RunningVar} {
			r = append(r, saved{name, torchName(name), n.Statistic(name)})
		}
	}
	for _, p := range t.params {
		if !p.Trainable {
			continue
		}
		for _, s := range t.asm.step.States() {
			r = append(r, saved{optim.StateName(p.Name, s), optimizerPrefix + torchName(p.Name) + "." + s, p})
		}
	}
	return r
}

// Checkpoint captures the whole state of training.
func (t *Trainer) Checkpoint() (*runs.Checkpoint, error) {
	c := &runs.Checkpoint{Meta: map[string]string{}}
	for _, v := range t.savedValues() {
		x, err := device.Read[float32](t.store, v.name, v.layout.Elems())
		if err != nil {
			return nil, fmt.Errorf("trainer: checkpoint: %w", err)
		}
		c.Tensors = append(c.Tensors, safetensors.Tensor{
			Name: v.tensor, DType: safetensors.F32, Shape: v.layout.TorchShape(), Data: device.Bytes(model.ToTorch(v.layout, x)),
		})
	}
	for key, v := range map[string]any{
		metaState: t.state, metaCounters: t.state.counters, metaScaler: t.scaler.StateDict(), metaSchedule: t.schedule.State(),
		metaOptim: t.asm.step.Name(),
	} {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("trainer: checkpoint: %s: %w", key, err)
		}
		c.Meta[key] = string(b)
	}
	return c, nil
}

// Restore puts a checkpoint's state back: training then goes on as if it had never stopped. It warns where a run without
// loss scaling is resumed with it.
func (t *Trainer) Restore(c *runs.Checkpoint) (warnings []string, err error) {
	if err := t.RestoreWeights(c); err != nil {
		return nil, err
	}
	var name string
	var scaler map[string]float64
	var schedule optim.State
	for key, v := range map[string]any{
		metaState: &t.state, metaCounters: &t.state.counters, metaScaler: &scaler, metaSchedule: &schedule, metaOptim: &name,
	} {
		if err := json.Unmarshal([]byte(c.Meta[key]), v); err != nil {
			return nil, fmt.Errorf("trainer: restore: metadata %q: %w", key, err)
		}
	}
	if want := t.asm.step.Name(); name != want {
		return nil, fmt.Errorf("trainer: restore: the checkpoint's optimizer is %s, not %s", name, want)
	}
	w := &writer{store: t.store}
	for _, v := range t.savedValues() {
		if strings.HasPrefix(v.tensor, optimizerPrefix) {
			t.restoreValue(w, c, v)
		}
	}
	if err := t.scaler.LoadStateDict(scaler); errors.Is(err, amp.ErrEmptyState) {
		warnings = append(warnings, "the checkpoint is of a run without loss scaling: the scale starts afresh")
	} else if err != nil {
		return nil, fmt.Errorf("trainer: restore: %w", err)
	}
	t.state.counters[program.CounterGrowthTracker] = t.scaler.GetGrowthTracker()
	t.state.scale = t.scaler.GetScale()
	put(w, optim.ScaleName, []float32{t.state.scale})
	put(w, program.CountersName, t.state.counters[:])
	if w.err != nil {
		return nil, fmt.Errorf("trainer: restore: %w", w.err)
	}
	return warnings, t.schedule.SetState(schedule)
}

// RestoreWeights puts back parameters and running statistics only: for evaluation and export.
func (t *Trainer) RestoreWeights(c *runs.Checkpoint) error {
	w := &writer{store: t.store}
	for _, v := range t.savedValues() {
		if !strings.HasPrefix(v.tensor, optimizerPrefix) {
			t.restoreValue(w, c, v)
		}
	}
	if w.err != nil {
		return fmt.Errorf("trainer: restore: %w", w.err)
	}
	return nil
}

func (t *Trainer) restoreValue(w *writer, c *runs.Checkpoint, v saved) {
	if w.err != nil {
		return
	}
	x := c.Lookup(v.tensor)
	if x == nil || x.DType != safetensors.F32 || len(x.Data) != 4*v.layout.Elems() {
		w.err = fmt.Errorf("the checkpoint has no float32 tensor %s of shape %v", v.tensor, v.layout.TorchShape())
		return
	}
	f := make([]float32, v.layout.Elems())
	copy(device.Bytes(f), x.Data)
	f = model.FromTorch(v.layout, f)
	switch {
	case strings.HasPrefix(v.tensor, optimizerPrefix):
		put(w, v.name, f)
	case strings.Contains(v.name, "/running_"):
		t.writeRunning(w, v.name, f)
	default:
		t.writeParam(w, v.layout, f)
	}
}

// saveBySteps saves every checkpoint.steps updates.
func (t *Trainer) saveBySteps() error {
	if t.stepDue() {
		return t.save(false)
	}
	return nil
}

func (t *Trainer) stepDue() bool {
	every := t.cfg.Checkpoint.Steps
	return every > 0 && t.state.attempts()%every == 0
}

// saveByEpoch saves after an epoch: every checkpoint.every epochs, where checkpoint.steps asks for it, at the end of the
// run, and where the validation accuracy is the best so far.
func (t *Trainer) saveByEpoch(best bool) error {
	if best && t.cfg.Checkpoint.Best {
		if err := t.save(true); err != nil {
			return err
		}
	}
	every := t.cfg.Checkpoint.Every
	if t.Done() || t.stepDue() || every > 0 && t.state.Epoch%every == 0 {
		return t.save(false)
	}
	return nil
}

func (t *Trainer) save(best bool) error {
	if t.opts.Save == nil {
		return nil
	}
	c, err := t.Checkpoint()
	if err != nil {
		return err
	}
	return t.opts.Save(t.state.Epoch, t.state.attempts(), c, best)
}

// Position tells where training stands, for the log of a resumed run.
func (t *Trainer) Position() (epoch, position, step int) {
	return t.state.Epoch + 1, t.state.Position, t.state.attempts()
}
