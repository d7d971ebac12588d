package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"halfstep/amp"
	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/program"
	"halfstep/trainer"
)

// contender is a row of a comparison with what has been measured of it.
type contender struct {
	batch     int
	dtype     program.DType
	cfg       configs.Config
	dev       device.Device
	precision string // fp32, tf32, fp16, bf16: what dtype is computed in on the device
	planned   amp.Memory
	diverged  *trainer.DivergedError

	tr   *trainer.Trainer // of the seed at hand; else nil
	own  int64            // bytes that it allocated
	turn int              // updates of one turn
	more bool             // the epoch goes on

	// Sums over all seeds. Seconds are of steps, of evaluations, and of the rest of the runs.
	training, evaluating, rest float64
	updates, evaluations       int
	samples, peak              int64
	fastest                    float64 // seconds of a step in the fastest turn
	accuracies, skipped        []float64
	scale                      float64

	apart
}

func (k *contender) String() string { return fmt.Sprintf("%s at batch %d", k.precision, k.batch) }

// fp32 is the precision that the others are measured against.
const fp32 = "fp32"

// plan refuses what cannot be built or has no room.
func (k *contender) plan(set *data.Set) (err error) {
	if k.precision, err = trainer.PrecisionName(k.cfg, k.dev.Properties()); err != nil {
		return err
	}
	if n, micro := len(set.TrainIndex), k.cfg.Optim.Accumulate; n >= k.batch && n < k.batch*micro {
		return &Error{"--batch-sizes", fmt.Sprintf("%d micro-batches of %d are more than the %d training samples", micro, k.batch, n)}
	}
	k.planned, err = trainer.Plan(k.cfg, set, k.dev)
	return err
}

// run trains the rows of a group with one seed, in turns, and with the last seed takes their steps apart.
func (c *comparison) run(ctx context.Context, group []*contender, seed int) (err error) {
	defer func() {
		for _, k := range group {
			if k.tr != nil {
				err = errors.Join(err, k.tr.Close())
				k.tr = nil
			}
		}
	}()
	set, err := c.setOf(seed)
	if err != nil {
		return err
	}
	for _, k := range group {
		if err := k.open(ctx, set, seed); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	what := group[0].String()
	if len(group) > 1 {
		what = fmt.Sprintf("%d rows in turns", len(group))
	}
	for epoch := range c.Epochs {
		c.say("seed %d of %d, epoch %d of %d: %s", seed+1, c.Seeds, epoch+1, c.Epochs, what)
		if err := c.epoch(ctx, running(group)); err != nil {
			return err
		}
	}
	for _, k := range running(group) {
		r := k.tr.Result()
		k.skipped, k.scale = append(k.skipped, float64(r.Skipped)), r.FinalLossScale
	}
	if seed < c.Seeds-1 {
		return nil
	}
	c.say("taking the steps apart: %s", what)
	return c.takeApart(ctx, running(group), set)
}

// running are the rows that have not diverged.
func running(group []*contender) []*contender {
	return slices.DeleteFunc(slices.Clone(group), func(k *contender) bool { return k.diverged != nil })
}

// setOf is the data as a run with that seed has it.
func (c *comparison) setOf(seed int) (*data.Set, error) {
	if seed == 0 || c.cfg.Data.Name != "random" && c.cfg.Data.Validation == 0 {
		return c.set, nil
	}
	return data.Open(c.cfg.Data, c.cfg.Seed+uint64(seed))
}

// turnTime is about how long a row trains before it is another's turn; an epoch has at least turnsAnEpoch turns.
const (
	turnTime     = 300 * time.Millisecond
	turnsAnEpoch = 8
)

// open builds the row's trainer, warms it up and finds the length of its turns.
func (k *contender) open(ctx context.Context, set *data.Set, seed int) (err error) {
	if k.diverged != nil {
		return nil
	}
	cfg := k.cfg
	cfg.Seed += uint64(seed)
	before := k.dev.Memory().Allocated
	if k.tr, err = trainer.New(cfg, set, k.dev, trainer.Options{}); err != nil {
		return err
	}
	k.own = k.dev.Memory().Allocated - before
	return k.tr.Undisturbed(func() error {
		s, err := k.tr.Stepper()
		if err != nil {
			return err
		}
		once, err := warm(ctx, s, warmUp)
		if err != nil {
			return err
		}
		k.turn = max(1, min(int(turnTime/once), (k.tr.UpdatesAnEpoch()+turnsAnEpoch-1)/turnsAnEpoch))
		if set.Test.N > 0 {
			_, err = k.tr.Evaluate(ctx, "test")
		}
		return err
	})
}

// epoch trains an epoch of each row, in turns and in alternating order, and evaluates.
func (c *comparison) epoch(ctx context.Context, group []*contender) error {
	var round, evaluate []*contender
	for _, k := range group {
		if k.tr.Done() { // max_steps
			continue
		}
		start := time.Now()
		if err := k.tr.BeginEpoch(); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		k.rest += time.Since(start).Seconds()
		round, evaluate = append(round, k), append(evaluate, k)
	}
	for ; len(round) > 0; slices.Reverse(round) {
		for _, k := range round {
			if err := k.takeTurn(ctx); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
		round = slices.DeleteFunc(round, func(k *contender) bool { return !k.more })
	}
	for _, k := range running(evaluate) {
		if err := k.endEpoch(ctx); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	return nil
}

// takeTurn trains for one turn.
func (k *contender) takeTurn(ctx context.Context) error {
	k.dev.ResetPeak()
	others := k.dev.Memory().Allocated - k.own
	updates, samples := k.tr.Trained()
	var err error
	start := time.Now()
	for n := 0; n < k.turn; {
		if k.more, err = k.tr.Turn(ctx, k.turn-n); !k.more {
			break
		}
		now, _ := k.tr.Trained()
		n = now - updates
	}
	seconds := time.Since(start).Seconds()
	nowUpdates, nowSamples := k.tr.Trained()
	k.training += seconds
	k.updates += nowUpdates - updates
	k.samples += nowSamples - samples
	if step := seconds / float64(max(1, nowUpdates-updates)); k.more && (k.fastest == 0 || step < k.fastest) {
		k.fastest = step
	}
	k.peak = max(k.peak, k.dev.Memory().Peak-others-k.planned.ResidentData)
	if errors.As(err, &k.diverged) {
		return nil
	}
	return err
}

func (k *contender) endEpoch(ctx context.Context) error {
	start := time.Now()
	e, err := k.tr.EndEpoch(ctx)
	if err != nil {
		return err
	}
	if e == nil { // no test data
		k.rest += time.Since(start).Seconds()
		return nil
	}
	k.evaluating += time.Since(start).Seconds()
	k.evaluations++
	if k.tr.Done() && !math.IsNaN(e.Accuracy) {
		k.accuracies = append(k.accuracies, e.Accuracy)
	}
	return nil
}

// step is the time of a step in training in seconds, as far as possible undisturbed by whatever else the machine does.
func (k *contender) step() float64 {
	if k.fastest > 0 {
		return k.fastest
	}
	return ratio(k.training, float64(k.updates))
}

// row puts together what was measured; what needs other rows is added by the caller.
func (k *contender) row() CompareRow {
	seeds := float64(max(1, len(k.skipped)))
	r := CompareRow{
		Precision: k.precision, BatchSize: k.batch, Seconds: (k.training + k.evaluating + k.rest) / seeds,
		ImagesPerS: ratio(float64(k.samples), k.training), MSStep: 1e3 * ratio(k.training, float64(k.updates)),
		MSInput: k.phases.Input, MSForward: k.phases.Forward, MSBackward: k.phases.Backward, MSUpdate: k.phases.Update,
		MemPeakBytes: k.peak, MemPlannedBytes: k.planned.Peak(), FinalLossScale: k.scale,
	}
	r.SkippedSteps, _ = meanStd(k.skipped)
	if k.evaluations > 0 {
		r.MSEvaluation = new(1e3 * k.evaluating / float64(k.evaluations))
	}
	if n := len(k.accuracies); n > 0 {
		mean, std := meanStd(k.accuracies)
		r.AccuracyMean = &mean
		if n > 1 {
			r.AccuracyStd = &std
		}
	}
	if h := k.host; h != nil {
		r.SecondsNotResident = new((k.training*h.step + k.evaluating*h.evaluation + k.rest) / seeds)
		r.ImagesPerSNotResident = new(r.ImagesPerS / h.step)
	}
	return r
}
