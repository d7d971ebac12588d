package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/trainer"
)

// AccuracyOptions say what is to be reached.
type AccuracyOptions struct {
	Target float64 // test accuracy, 0..1
	Seeds  int     // runs, with the seeds from the configuration's on
	// Done is called after each run; nil does nothing.
	Done func(AccuracyRow)
}

// AccuracyRow is the run of one seed. Its clock starts when data is loaded, the step is compiled and one step, which does
// not count for training, has run; it stops when the evaluation on the test data that reaches the target has ended, or that
// after the last epoch.
type AccuracyRow struct {
	Seed         uint64  `json:"seed"`
	Reached      bool    `json:"reached"`
	Seconds      float64 `json:"seconds"`
	Epochs       int     `json:"epochs"`
	TestAccuracy float64 `json:"test_accuracy"`
	EvalSeconds  float64 `json:"eval_seconds"`  // of the seconds
	SetupSeconds float64 `json:"setup_seconds"` // before the clock: data, compilation, warm-up
}

// AccuracyResult is the time to an accuracy over seeds.
type AccuracyResult struct {
	Config       string        `json:"config"`
	Device       string        `json:"device"`
	ISA          string        `json:"isa"`
	Threads      int           `json:"threads"`
	DType        string        `json:"dtype"`
	TF32         bool          `json:"tf32"` // float32 products are computed in tf32
	Batch        int           `json:"batch"`
	Target       float64       `json:"target"`
	Rows         []AccuracyRow `json:"rows"`
	SecondsMean  float64       `json:"seconds_mean"`
	SecondsStd   float64       `json:"seconds_std"`
	AccuracyMean float64       `json:"test_accuracy_mean"`
	AccuracyStd  float64       `json:"test_accuracy_std"`
	Conclusion   string        `json:"conclusion"`
}

// TimeToAccuracy trains a configuration with several seeds and times each to its target.
func TimeToAccuracy(ctx context.Context, r *configs.Resolved, o AccuracyOptions) (*AccuracyResult, error) {
	switch {
	case !(o.Target > 0 && o.Target <= 1):
		return nil, &Error{"--target", fmt.Sprintf("%v, want a share of 1, such as 0.99", o.Target)}
	case o.Seeds < 1:
		return nil, &Error{"--seeds", fmt.Sprintf("%d, want at least 1", o.Seeds)}
	case r.Config.Data.Name == "random":
		return nil, &Error{"--config", "random data has no test accuracy"}
	}
	result := &AccuracyResult{Config: r.Config.Name, Target: o.Target, Batch: r.Config.Data.BatchSize}
	for k := range o.Seeds {
		c := r.Config
		c.Seed += uint64(k)
		row, err := result.run(ctx, c)
		if err != nil {
			return nil, err
		}
		result.Rows = append(result.Rows, *row)
		if o.Done != nil {
			o.Done(*row)
		}
	}
	result.sumUp()
	return result, nil
}

// run trains one seed.
func (r *AccuracyResult) run(ctx context.Context, c configs.Config) (row *AccuracyRow, err error) {
	row = &AccuracyRow{Seed: c.Seed}
	start := time.Now()
	set, err := data.Open(c.Data, c.Seed)
	if err != nil {
		return nil, err
	}
	dev, _, err := trainer.OpenDevice(c, set)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	t, err := trainer.New(c, set, dev, trainer.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := t.Undisturbed(func() error { return firstStep(ctx, t) }); err != nil {
		return nil, err
	}
	p := dev.Properties()
	r.Device, r.ISA, r.Threads, r.DType, r.TF32 = p.Kind, p.ISA, p.Threads, t.DType().String(), t.UsesTF32()
	row.SetupSeconds = time.Since(start).Seconds()
	return row, row.train(ctx, t, r.Target)
}

// train runs epochs until the target is reached or none is left.
func (r *AccuracyRow) train(ctx context.Context, t *trainer.Trainer, target float64) error {
	start := time.Now()
	for !t.Done() && !r.Reached {
		if err := t.BeginEpoch(); err != nil {
			return err
		}
		for more := true; more; {
			var err error
			if more, err = t.Turn(ctx, t.UpdatesAnEpoch()); err != nil {
				return err
			}
		}
		e, err := t.EndEpoch(ctx)
		if err != nil {
			return err
		}
		r.Epochs++
		r.TestAccuracy, r.Reached = e.Accuracy, e.Accuracy >= target
		r.EvalSeconds += e.Seconds
	}
	r.Seconds = time.Since(start).Seconds()
	return nil
}

// sumUp fills in means, spreads and the conclusion.
func (r *AccuracyResult) sumUp() {
	var seconds, accuracy []float64
	reached := 0
	for _, row := range r.Rows {
		seconds, accuracy = append(seconds, row.Seconds), append(accuracy, row.TestAccuracy)
		if row.Reached {
			reached++
		}
	}
	r.SecondsMean, r.SecondsStd = meanStd(seconds)
	r.AccuracyMean, r.AccuracyStd = meanStd(accuracy)
	verdict := "does not reach it"
	if r.AccuracyMean >= r.Target {
		verdict = "reaches it"
	}
	r.Conclusion = fmt.Sprintf("%d of %d seeds reached %.2f%%; %.2f s a seed (std %.2f), test accuracy %.3f%% (std %.3f): the mean %s.",
		reached, len(r.Rows), 100*r.Target, r.SecondsMean, r.SecondsStd, 100*r.AccuracyMean, 100*r.AccuracyStd, verdict)
}
