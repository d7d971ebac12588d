package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"halfstep/amp"
	"halfstep/data"
	"halfstep/optim"
	"halfstep/program"
	"halfstep/runs"
)

// The keys of a checkpoint's metadata. Each value is JSON.
const (
	metaState    = "state"
	metaCounters = "counters"
	metaScaler   = "grad_scaler"
	metaSchedule = "schedule"
	metaOptim    = "optimizer"
	metaShape    = "shape"
)

// optimizerPrefix keeps the optimizer's state apart from the weights: "optimizer.conv1.weight.exp_avg".
const optimizerPrefix = "optimizer."

func isOptimizer(tensor string) bool { return strings.HasPrefix(tensor, optimizerPrefix) }

// shape is what a model takes and gives: with it a checkpoint can be used without the data it was trained on.
type shape struct {
	Height   int `json:"height,omitempty"`
	Width    int `json:"width,omitempty"`
	Channels int `json:"channels,omitempty"`
	Classes  int `json:"classes,omitempty"`
	Features int `json:"features,omitempty"`
	Targets  int `json:"targets,omitempty"`
}

func shapeOf(s *data.Set) shape {
	return shape{s.Height, s.Width, s.Channels, s.Classes, s.Features, s.Targets}
}

// optimizerState lists the optimizer's state tensors.
func (t *Trainer) optimizerState() []saved {
	var r []saved
	for _, p := range t.params {
		if !p.Trainable {
			continue
		}
		for _, s := range t.asm.step.States() {
			name := optim.StateName(p.Name, s)
			r = append(r, saved{
				name, optimizerPrefix + torchName(p.Name) + "." + s, p, stateKey(s), func(to *writer, v []float32) { put(to, name, v) },
			})
		}
	}
	return r
}

// stateKey is the key of the configuration that an optimizer's state comes with.
func stateKey(state string) string {
	switch state {
	case "max_exp_avg_sq":
		return "optim.amsgrad"
	case "momentum_buffer":
		return "optim.momentum"
	case "grad_avg":
		return "optim.centered"
	}
	return "optim.name"
}

// Checkpoint captures the whole state of training.
func (t *Trainer) Checkpoint() (*runs.Checkpoint, error) {
	c := &runs.Checkpoint{Meta: map[string]string{}}
	var err error
	if c.Tensors, err = t.tensors(append(t.saved(), t.optimizerState()...)); err != nil {
		return nil, fmt.Errorf("trainer: checkpoint: %w", err)
	}
	for key, v := range map[string]any{
		metaState: t.state, metaCounters: t.state.counters, metaScaler: t.scaler.StateDict(), metaSchedule: t.schedule.State(),
		metaOptim: t.asm.step.Name(), metaShape: shapeOf(t.set),
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
// loss scaling is resumed with it. A configuration that needs what the checkpoint does not have is a *ConfigError.
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
		return nil, &ConfigError{Key: "optim.name", Message: fmt.Sprintf(
			"%s cannot go on from the state of %s, which the checkpoint has", strings.TrimSuffix(want, "_step"), strings.TrimSuffix(name, "_step"))}
	}
	if s := t.cfg.Optim.Schedule.Name; s == "plateau" && schedule.Plateau == nil {
		return nil, &ConfigError{Key: "optim.schedule.name", Message: s + " goes on from its own state, which the checkpoint does not have"}
	}
	if err := t.restore(t.optimizerState(), c); err != nil {
		return nil, err
	}
	if err := t.scaler.LoadStateDict(scaler); errors.Is(err, amp.ErrEmptyState) {
		warnings = append(warnings, "the checkpoint is of a run without loss scaling: the scale starts afresh")
	} else if err != nil {
		return nil, fmt.Errorf("trainer: restore: %w", err)
	}
	t.state.counters[program.CounterGrowthTracker] = t.scaler.GetGrowthTracker()
	t.state.scale = t.scaler.GetScale()
	w := &writer{store: t.store}
	put(w, optim.ScaleName, []float32{t.state.scale})
	put(w, program.CountersName, t.state.counters[:])
	if w.err != nil {
		return nil, fmt.Errorf("trainer: restore: %w", w.err)
	}
	return warnings, t.schedule.SetState(schedule)
}

// RestoreWeights puts back parameters and running statistics only: for evaluation and export.
func (t *Trainer) RestoreWeights(c *runs.Checkpoint) error { return t.restore(t.saved(), c) }

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
	epoch := t.state.Epoch // the one that has just ended
	if t.state.Position > 0 || epoch == 0 {
		epoch++
	}
	return t.opts.Save(epoch, t.state.attempts(), c, best)
}

// Position tells where training stands, for the log of a resumed run.
func (t *Trainer) Position() (epoch, position, step int) {
	return t.state.Epoch + 1, t.state.Position, t.state.attempts()
}
