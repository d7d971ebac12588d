package trainer

import (
	"context"
	"fmt"

	"halfstep/model"
	"halfstep/optim"
)

// Stepper runs whole training steps and nothing else, for benchmarks: no events, no evaluation, no checkpoints. Only full
// batches are run. It uses the trainer's store and so takes the place of Fit.
type Stepper struct {
	t    *Trainer
	left int // full steps before the data must be begun anew
}

// Stepper begins an epoch.
func (t *Trainer) Stepper() (*Stepper, error) {
	s := &Stepper{t: t}
	return s, s.Rewind()
}

// Samples is the number of samples that one step trains on.
func (s *Stepper) Samples() int { return s.t.train.samples * max(1, s.t.cfg.Optim.Accumulate) }

// Left is the number of steps that Run may run before the next Rewind.
func (s *Stepper) Left() int { return s.left }

// PerEpoch is the number of steps between two Rewinds.
func (s *Stepper) PerEpoch() int { return len(s.t.set.TrainIndex) / s.Samples() }

// Rewind begins the same epoch again; parameters and optimizer state stay as they are.
func (s *Stepper) Rewind() error {
	t := s.t
	if err := t.readState(); err != nil {
		return fmt.Errorf("trainer: rewind: %w", err)
	}
	t.state.Position = 0
	if err := t.beginEpoch(); err != nil {
		return fmt.Errorf("trainer: rewind: %w", err)
	}
	s.left = s.PerEpoch()
	if s.left == 0 {
		return &ConfigError{Key: "optim.accumulate", Message: fmt.Sprintf("a step of %d samples needs more than the %d there are", s.Samples(), len(t.set.TrainIndex))}
	}
	return nil
}

// Run runs n steps, at most Left, and returns when the device has finished them.
func (s *Stepper) Run(ctx context.Context, n int) error {
	if n > s.left {
		return fmt.Errorf("trainer: %d steps asked for, %d are left of the epoch", n, s.left)
	}
	s.left -= n
	if s.t.update == nil {
		return s.t.run(ctx, s.t.train, n)
	}
	return s.t.groups(ctx, n)
}

// ResetWeights draws the parameters anew, the same as at the start, and writes them to the device. Optimizer state, running
// statistics and counters stay as they are.
func (t *Trainer) ResetWeights() error {
	w := &writer{store: t.store}
	for _, p := range t.params {
		t.writeParam(w, p, model.Init(p, t.cfg.Seed))
	}
	put(w, optim.ScaleName, []float32{t.scaler.GetScale()})
	if w.err != nil {
		return fmt.Errorf("trainer: reset weights: %w", w.err)
	}
	return nil
}

// ReadSeconds is the time that reading the data took.
func (s *Session) ReadSeconds() float64 { return s.readSeconds }
