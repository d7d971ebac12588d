package trainer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"halfstep/configs"
	"halfstep/device/devices"
	"halfstep/runs"
)

// UseOptions say how a run's model is used after training.
type UseOptions struct {
	Device string // as in the configuration; empty: the one that the run was on
	Best   bool   // the checkpoint with the best validation accuracy, not the last one

	Warn func(message string) // is told of damaged checkpoints that were passed over; nil: nobody
}

// openRun reads a run's configuration and the checkpoint that the options ask for. The warnings went to Warn, too.
func openRun(dir string, o UseOptions) (_ *configs.Resolved, _ *runs.Checkpoint, warnings []string, _ error) {
	var overrides []string
	if o.Device != "" {
		overrides = []string{"device=" + o.Device}
	}
	r, err := configs.Load(filepath.Join(dir, runs.ConfigFile), overrides)
	if err != nil {
		return nil, nil, nil, err
	}
	folder := filepath.Join(dir, runs.CheckpointsDir)
	var c *runs.Checkpoint
	if o.Best {
		c, err = runs.Best(folder)
	} else {
		c, warnings, err = runs.Latest(folder)
	}
	if err != nil {
		return nil, nil, warnings, withoutCheckpoint(dir, folder, o.Best, err)
	}
	if o.Warn != nil {
		for _, w := range warnings {
			o.Warn(w)
		}
	}
	return r, c, warnings, nil
}

// withoutCheckpoint explains that a run does not have the checkpoint that is asked for.
func withoutCheckpoint(dir, folder string, best bool, err error) error {
	if !errors.Is(err, runs.ErrNoCheckpoint) {
		return err
	}
	if best {
		return &ConfigError{Key: "--best", Message: dir + " has no best checkpoint: train with checkpoint.best=true and data.validation above 0"}
	}
	if list, listErr := runs.ListCheckpoints(folder); listErr != nil || len(list) > 0 {
		return errors.Join(err, listErr) // it names those that are damaged
	}
	return &ConfigError{Key: dir, Message: "no checkpoint saved yet"}
}

// Evaluated is a run's model on one split.
type Evaluated struct {
	Run        string   `json:"run"`
	Checkpoint string   `json:"checkpoint"` // relative to the run folder
	Step       int      `json:"step"`
	Split      string   `json:"split"`
	Samples    int      `json:"samples"`
	Loss       float64  `json:"loss"`
	Accuracy   *float64 `json:"accuracy"` // null where there are no classes
	Seconds    float64  `json:"seconds"`
	ImagesPerS float64  `json:"images_per_s"`
	Warnings   []string `json:"warnings,omitempty"`
}

// EvaluateRun evaluates the model of a run folder on its split "test" or "validation".
func EvaluateRun(ctx context.Context, dir, split string, o UseOptions) (*Evaluated, error) {
	if split != "test" && split != "validation" {
		return nil, &ConfigError{Key: "--split", Message: fmt.Sprintf("%q, want test or validation", split)}
	}
	r, c, warnings, err := openRun(dir, o)
	if err != nil {
		return nil, err
	}
	if r.Config.Device == "auto" { // nothing to measure for one evaluation
		r.Config.Device = "cpu"
		if rec, err := runs.Open(dir); err == nil && rec.Environment.Device != "" {
			r.Config.Device = rec.Environment.Device
		}
	}
	s, err := Prepare(r, SessionOptions{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.trainer.evals[split] == nil {
		return nil, &ConfigError{Key: "--split", Message: fmt.Sprintf("the run's data has no %s samples", split)}
	}
	if err := s.trainer.RestoreWeights(c); err != nil {
		return nil, err
	}
	e, err := s.trainer.Evaluate(ctx, split)
	if err != nil {
		return nil, err
	}
	return &Evaluated{
		Run: runID(dir), Checkpoint: relative(dir, c.Path), Step: c.Step, Split: split, Samples: e.Samples, Loss: e.Loss,
		Accuracy: number(e.Accuracy), Seconds: e.Seconds, ImagesPerS: float64(e.Samples) / e.Seconds, Warnings: warnings,
	}, nil
}

// runID is a run folder's name.
func runID(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return filepath.Base(abs)
	}
	return filepath.Base(dir)
}

// OpenClassifier opens the model of a run folder, on the CPU unless the options name another device. Closing it closes its
// device.
func OpenClassifier(dir string, o UseOptions) (*Classifier, error) {
	r, c, _, err := openRun(dir, o)
	if err != nil {
		return nil, err
	}
	name := o.Device
	if name == "" || name == "auto" {
		name = "cpu"
	}
	if name == devices.Gorgonia {
		return nil, &ConfigError{Key: "--device", Message: "gorgonia trains and evaluates only; take cpu"}
	}
	d, err := OpenNamed(name, r.Config)
	if err != nil {
		return nil, err
	}
	k, err := NewClassifier(r.Config, c, d)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	k.owned = d
	return k, nil
}
