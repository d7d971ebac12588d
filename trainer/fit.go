package trainer

import (
	"context"
	"errors"
	"math"
	"time"

	"halfstep/data"
	"halfstep/optim"
	"halfstep/program"
	"halfstep/runs"
)

// Done reports whether there is nothing left to train: all epochs, or max_steps.
func (t *Trainer) Done() bool { return t.state.Epoch >= t.cfg.Epochs || t.outOfSteps() }

// outOfSteps reports whether max_steps ends the run here.
func (t *Trainer) outOfSteps() bool {
	return t.cfg.MaxSteps > 0 && t.state.attempts() >= t.cfg.MaxSteps
}

// cut reports whether max_steps ends the run within an epoch. One that is resumed there ends it again: it may have been killed
// before that was logged, and resuming made void what was.
func (t *Trainer) cut() bool {
	return t.state.Position > 0 && t.state.Epoch < t.cfg.Epochs && t.outOfSteps()
}

// Fit trains from where the state stands to the last epoch, and evaluates on the test data. When the context ends, it
// saves and returns ErrInterrupted. The result is valid, as far as training came, also with an error.
func (t *Trainer) Fit(ctx context.Context) (*Result, error) {
	start, before := time.Now(), t.state.Seconds
	t.clock = func() { t.state.Seconds = before + time.Since(start).Seconds() }
	t.dev.ResetPeak()
	var err error
	for cut := t.cut(); (cut || !t.Done()) && err == nil; cut = false {
		err = t.epoch(ctx)
	}
	t.clock()
	if errors.Is(err, context.Canceled) {
		if err = t.save(false); err == nil {
			err = ErrInterrupted
		}
	}
	var test *Evaluation
	if err == nil {
		test, err = t.finalTest(ctx)
	}
	t.clock()
	r := t.result()
	r.Test = test
	return r, err
}

// finalTest evaluates on the test data, unless that has just been done after the last epoch. Nothing is left to save when
// the context ends here.
func (t *Trainer) finalTest(ctx context.Context) (*Evaluation, error) {
	if t.lastTest != nil || t.evals["test"] == nil {
		return t.lastTest, nil
	}
	e, err := t.Evaluate(ctx, "test")
	if errors.Is(err, context.Canceled) {
		return nil, ErrInterrupted
	}
	return &e, err
}

func (t *Trainer) result() *Result {
	peak, _ := t.memory.Measured(t.dev.Memory())
	return &Result{
		Epochs: t.state.Epoch, Steps: t.state.attempts(), Seconds: t.state.Seconds,
		ImagesPerS: float64(t.state.Samples) / t.state.Trained, BestVal: t.state.BestVal,
		Skipped: int(t.state.counters[program.CounterSkipped]), FinalLossScale: float64(t.state.scale),
		MemPlanned: t.memory.Peak(), MemPeak: peak, ResidentData: t.memory.ResidentData,
		MaxSteps: t.state.Epoch < t.cfg.Epochs && t.outOfSteps(),
	}
}

// epoch runs the rest of the current epoch, evaluates and saves.
func (t *Trainer) epoch(ctx context.Context) error {
	if err := t.beginEpoch(); err != nil {
		return err
	}
	for t.left() > 0 && !t.outOfSteps() {
		if err := t.burst(ctx); err != nil {
			return err
		}
		t.clock()
		if t.left() == 0 || t.outOfSteps() {
			break // what follows is saved with the end of the epoch
		}
		if err := t.saveBySteps(); err != nil {
			return err
		}
	}
	e := runs.Epoch{
		Epoch: t.state.Epoch + 1, Step: t.state.attempts(), TrainLoss: t.state.Sums.loss(),
		TrainAccuracy: number(t.state.Sums.accuracy(t.set.Classes)), LR: t.state.LR, Seconds: t.state.EpochSeconds,
		ImagesPerS: t.state.Sums.Count / t.state.EpochSeconds, LossScale: float64(t.state.scale),
		SkippedSteps: int(t.state.counters[program.CounterSkipped]), GradNorm: float64(t.state.GradNorm),
	}
	best, err := t.evaluateEpoch(ctx, &e)
	if err != nil {
		return err
	}
	peak, _ := t.memory.Measured(t.dev.Memory())
	e.MemPlannedBytes, e.MemPeakBytes = t.memory.Peak(), peak
	t.opts.Emit(e)
	t.endEpoch(&e)
	t.clock()
	return t.saveByEpoch(best)
}

// left is the number of samples that the current epoch still has to train on.
func (t *Trainer) left() int {
	n := len(t.set.TrainIndex) - t.state.Position
	if t.tail == nil {
		n -= n % t.train.samples
	}
	return n
}

// beginEpoch uploads order, learning rates and counters.
func (t *Trainer) beginEpoch() error {
	w := &writer{store: t.store}
	order := data.EpochOrder(t.cfg.Seed, t.state.Epoch, t.set.TrainIndex, t.cfg.Data.Shuffle)
	if t.loader == nil {
		put(w, trainOrder, order)
	} else {
		t.loader.begin(t.state.Epoch, order, t.state.Position)
	}
	t.rates = t.schedule.Table(t.updatesAnEpoch)
	flat := make([]float32, 0, 2*len(t.rates))
	for _, r := range t.rates {
		flat = append(flat, r[0], r[1])
	}
	put(w, optim.RatesName, flat)
	c := &t.state.counters
	c[program.CounterEpoch], c[program.CounterPosition] = int32(t.state.Epoch), int32(t.state.Position)
	if t.state.Position == 0 {
		c[program.CounterEpochUpdates] = 0
		t.state.EpochStart = c[program.CounterAttempts]
	}
	put(w, program.CountersName, c[:])
	return w.err
}

// evaluateEpoch evaluates on validation and test data after an epoch and reports whether it is the best so far. The test
// set decides nothing. An interruption leaves the state as if the evaluation had not begun.
func (t *Trainer) evaluateEpoch(ctx context.Context, e *runs.Epoch) (best bool, err error) {
	var events []runs.Event
	score := math.NaN()
	var test *Evaluation
	for _, name := range []string{"validation", "test"} {
		if t.evals[name] == nil {
			continue
		}
		ev, err := t.Evaluate(ctx, name)
		if err != nil {
			return false, err
		}
		e.EvalSeconds += ev.Seconds
		events = append(events, ev.event(name, e.Epoch, e.Step))
		if name == "test" {
			e.TestLoss, e.TestAccuracy, test = &ev.Loss, number(ev.Accuracy), &ev
			continue
		}
		e.ValLoss, e.ValAccuracy = &ev.Loss, number(ev.Accuracy)
		score = ev.Accuracy
		if t.set.Classes == 0 {
			score = -ev.Loss
		}
	}
	for _, ev := range events {
		t.opts.Emit(ev)
	}
	t.lastTest = test
	if !math.IsNaN(score) && !math.IsInf(score, 0) && (t.state.BestVal == nil || score > *t.state.BestVal) {
		t.state.BestVal, best = &score, true
	}
	return best, nil
}

// endEpoch moves the schedule and the state to the next epoch, unless max_steps ended this one before its end.
func (t *Trainer) endEpoch(e *runs.Epoch) {
	if t.left() > 0 {
		return
	}
	metric := math.NaN()
	switch {
	case t.cfg.Optim.Schedule.Monitor == "val_accuracy" && e.ValAccuracy != nil:
		metric = *e.ValAccuracy
	case e.ValLoss != nil:
		metric = *e.ValLoss
	}
	t.schedule.EndEpoch(int(t.state.counters[program.CounterEpochUpdates]), metric)
	t.state.Epoch++
	t.state.Position, t.state.Sums, t.state.EpochSeconds = 0, sums{}, 0
}
