package trainer

import (
	"context"
	"fmt"

	"halfstep/amp"
	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/program"
	"halfstep/runs"
)

// Plan builds a configuration's programs for a device, allocates nothing, and gives their memory. A configuration that
// cannot be built or has no room on the device is an error, the same as New's.
func Plan(c configs.Config, set *data.Set, d device.Device) (amp.Memory, error) {
	t := &Trainer{cfg: c, set: set, dev: d}
	if err := t.build(); err != nil {
		return amp.Memory{}, fmt.Errorf("trainer: %w", err)
	}
	m := t.plan()
	return m, Fits(m, d)
}

// The methods BeginEpoch, Turn and EndEpoch do what Fit does, in pieces, so that several trainers can take turns on one
// machine and a change of its speed in between meets all alike. They save nothing.

// BeginEpoch uploads order and learning rates of the next epoch.
func (t *Trainer) BeginEpoch() error { return t.beginEpoch() }

// Turn trains up to n updates of the epoch and reports whether any are left.
func (t *Trainer) Turn(ctx context.Context, n int) (more bool, err error) {
	if t.left() > 0 && !t.outOfSteps() {
		err = t.burstOf(ctx, min(n, t.burstLength()))
	}
	return err == nil && t.left() > 0 && !t.outOfSteps(), err
}

// EndEpoch evaluates and moves on to the next epoch. The evaluation on the test data is nil where there is none.
func (t *Trainer) EndEpoch(ctx context.Context) (*Evaluation, error) {
	e := runs.Epoch{Epoch: t.state.Epoch + 1, Step: t.state.attempts()}
	if _, err := t.evaluateEpoch(ctx, &e); err != nil {
		return nil, err
	}
	t.endEpoch(&e)
	return t.lastTest, nil
}

// UpdatesAnEpoch is the number of updates in an epoch, the last, smaller one included.
func (t *Trainer) UpdatesAnEpoch() int { return t.updatesAnEpoch }

// Result is what training came to so far.
func (t *Trainer) Result() *Result { return t.result() }

// Trained is how much has been trained so far: updates, and samples in them.
func (t *Trainer) Trained() (updates int, samples int64) { return t.state.attempts(), t.state.Samples }

// Undisturbed runs f, which may train, and puts the state of training back as it was. An epoch that was under way must be
// begun again.
func (t *Trainer) Undisturbed(f func() error) error {
	c, err := t.Checkpoint()
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	_, err = t.Restore(c)
	return err
}

// Profile is the time of training steps, instruction by instruction. A step is an update with all its micro-batches.
type Profile struct {
	Samples int              // of a step
	Instrs  []*program.Instr // of a micro-batch, then of the update where that is a program of its own
	Times   [][]float64      // [steps][len(Instrs)+1] ns; those of all micro-batches together; last the loader's
	Runs    []int            // how often a step runs each instruction
}

// Profile runs full steps from the start of an epoch and times each instruction. It changes the state of training; see
// Undisturbed. Timing costs the device's clock, so that steps of many short instructions take longer than without.
func (t *Trainer) Profile(ctx context.Context, steps int) (*Profile, error) {
	s, err := t.Stepper()
	if err != nil {
		return nil, err
	}
	p := &Profile{Samples: s.Samples()}
	p.add(t.train, max(1, t.cfg.Optim.Accumulate))
	if t.update != nil {
		p.add(t.update, 1)
	}
	for range steps {
		if s.Left() == 0 {
			if err := s.Rewind(); err != nil {
				return nil, err
			}
		}
		s.left--
		times, err := t.profileStep(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("trainer: profile: %w", err)
		}
		p.Times = append(p.Times, times)
	}
	return p, nil
}

func (p *Profile) add(u *unit, runs int) {
	p.Instrs = append(p.Instrs, u.program.Instrs...)
	for range u.program.Instrs {
		p.Runs = append(p.Runs, runs)
	}
}

// profileStep runs one step.
func (t *Trainer) profileStep(ctx context.Context, p *Profile) ([]float64, error) {
	times := make([]float64, len(p.Instrs)+1)
	if t.update != nil {
		if err := t.weigh(t.train.samples, p.Samples); err != nil {
			return nil, err
		}
	}
	for range p.Runs[0] {
		before := t.loaderSeconds()
		if err := t.feedNext(t.train); err != nil {
			return nil, err
		}
		times[len(p.Instrs)] += 1e9 * (t.loaderSeconds() - before)
		if err := profileUnit(ctx, t.train, times); err != nil {
			return nil, err
		}
	}
	if t.update == nil {
		return times, nil
	}
	return times, profileUnit(ctx, t.update, times[len(t.train.program.Instrs):])
}

// loaderSeconds is the time spent so far in making batches on the host.
func (t *Trainer) loaderSeconds() float64 {
	if t.loader == nil {
		return 0
	}
	return t.loader.seconds
}

// profileUnit adds the times of a program's instructions.
func profileUnit(ctx context.Context, u *unit, times []float64) error {
	ns, err := u.exec.Profile(ctx)
	for k, n := range ns {
		times[k] += float64(n)
	}
	return err
}
