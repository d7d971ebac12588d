package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"halfstep/data"
	"halfstep/device"
	"halfstep/optim"
	"halfstep/program"
	"halfstep/runs"
)

// state is where training stands; with the store it is all that a checkpoint needs.
type state struct {
	Epoch    int     `json:"epoch"`    // current one, from 0
	Position int     `json:"position"` // samples consumed in it
	Sums     sums    `json:"sums"`     // of this epoch so far
	GradNorm float64 `json:"grad_norm"`
	LR       float64 `json:"lr"`
	// BestVal is the best validation accuracy (or the negated loss, where there are no classes) so far.
	BestVal *float64 `json:"best_val"`
	Seconds float64  `json:"seconds"` // of training so far, evaluation included
	Trained float64  `json:"trained"` // seconds inside training steps
	Samples int64    `json:"samples"` // trained on so far

	EpochStart int32 `json:"epoch_start"` // attempts before the current epoch

	counters [program.NumCounters]int32
	scale    float32 // of the next step
}

// Result is what a run came to.
type Result struct {
	Epochs, Steps  int
	Seconds        float64
	ImagesPerS     float64 // over training steps alone
	Test           *Evaluation
	BestVal        *float64
	Skipped        int
	FinalLossScale float64
	MemPlanned     int64
	MemPeak        int64
	ResidentData   int64
	MaxSteps       bool // ended by max_steps
}

// ErrInterrupted says that the context ended; the state has been saved.
var ErrInterrupted = errors.New("interrupted")

// DivergedError says that training cannot go on: a gradient is not finite and no smaller loss scale can help.
type DivergedError struct {
	Step    int
	Tensor  string // parameter whose gradient was the first, in backward order, that was not finite
	Skips   int    // consecutive ones; 0 without loss scaling
	Message string
}

func (e *DivergedError) Error() string { return e.Message }

// Fit trains from where the state stands to the last epoch.
func (t *Trainer) Fit(ctx context.Context) (*Result, error) {
	start := time.Now()
	before := t.state.Seconds
	t.dev.ResetPeak()
	var err error
	stopped := false
	for t.state.Epoch < t.cfg.Epochs && !stopped && err == nil {
		stopped, err = t.epoch(ctx, func() { t.state.Seconds = before + time.Since(start).Seconds() })
	}
	t.state.Seconds = before + time.Since(start).Seconds()
	if errors.Is(err, context.Canceled) {
		if err = t.save(false); err == nil {
			err = ErrInterrupted
		}
	}
	r := t.result()
	r.MaxSteps = stopped
	if err != nil {
		return r, err
	}
	if _, ok := t.evals["test"]; ok {
		ev, err := t.Evaluate(ctx, "test")
		if err != nil {
			return r, err
		}
		r.Test = &ev
	}
	return r, nil
}

func (t *Trainer) result() *Result {
	peak, _ := t.memory.Measured(t.dev.Memory())
	return &Result{
		Epochs: t.state.Epoch, Steps: int(t.state.counters[program.CounterAttempts]), Seconds: t.state.Seconds,
		ImagesPerS: float64(t.state.Samples) / t.state.Trained, BestVal: t.state.BestVal,
		Skipped: int(t.state.counters[program.CounterSkipped]), FinalLossScale: float64(t.state.scale),
		MemPlanned: t.memory.Peak(), MemPeak: peak, ResidentData: t.memory.ResidentData,
	}
}

// epoch runs the rest of the current epoch, evaluates and saves. It reports whether max_steps ended it.
func (t *Trainer) epoch(ctx context.Context, clock func()) (stopped bool, err error) {
	if err := t.beginEpoch(); err != nil {
		return false, err
	}
	start := time.Now()
	trained, samples := t.state.Trained, t.state.Samples
	for t.left() > 0 {
		if t.cfg.MaxSteps > 0 && int(t.state.counters[program.CounterAttempts]) >= t.cfg.MaxSteps {
			stopped = true
			break
		}
		if err := t.burst(ctx); err != nil {
			return false, err
		}
		clock()
		if err := t.saveBySteps(); err != nil {
			return false, err
		}
	}
	e := runs.Epoch{
		Epoch: t.state.Epoch + 1, Step: int(t.state.counters[program.CounterAttempts]), TrainLoss: t.state.Sums.loss(),
		TrainAccuracy: number(t.state.Sums.accuracy(t.set.Classes)), LR: t.state.LR, Seconds: time.Since(start).Seconds(),
		LossScale: float64(t.state.scale), SkippedSteps: int(t.state.counters[program.CounterSkipped]), GradNorm: t.state.GradNorm,
	}
	e.ImagesPerS = float64(t.state.Samples-samples) / (t.state.Trained - trained)
	best, err := t.evaluateEpoch(ctx, &e)
	if err != nil {
		return stopped, err
	}
	peak, _ := t.memory.Measured(t.dev.Memory())
	e.MemPlannedBytes, e.MemPeakBytes = t.memory.Peak(), peak
	t.opts.Emit(e)
	t.endEpoch(&e)
	clock()
	return stopped, t.saveByEpoch(best, stopped)
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
	put(w, trainOrder, data.EpochOrder(t.cfg.Seed, t.state.Epoch, t.set.TrainIndex, t.cfg.Data.Shuffle))
	rates := make([]float32, 0, 2*t.updatesAnEpoch)
	for _, r := range t.schedule.Table(t.updatesAnEpoch) {
		rates = append(rates, r[0], r[1])
	}
	put(w, optim.RatesName, rates)
	c := &t.state.counters
	c[program.CounterEpoch], c[program.CounterPosition] = int32(t.state.Epoch), int32(t.state.Position)
	if t.state.Position == 0 {
		c[program.CounterEpochUpdates] = 0
		t.state.EpochStart = c[program.CounterAttempts]
	}
	put(w, program.CountersName, c[:])
	t.state.scale = t.scaler.GetScale()
	if t.cfg.Optim.Accumulate > 1 {
		put(w, groupWeight, []float32{1 / float32(t.cfg.Optim.Accumulate)})
	}
	return w.err
}

// burst runs steps up to the next point where the host wants to look, and reads what they left.
func (t *Trainer) burst(ctx context.Context) error {
	first := int(t.state.counters[program.CounterAttempts])
	start := time.Now()
	var runErr error
	if t.update != nil {
		runErr = t.groups(ctx, t.burstLength(first))
	} else {
		runErr = t.steps(ctx, t.burstLength(first))
	}
	if err := t.readState(); err != nil {
		return err
	}
	seconds := time.Since(start).Seconds()
	if err := t.report(first, seconds); err != nil {
		return err
	}
	return runErr
}

// burstLength is how many updates to run: to the next multiple of log.every, checkpoint.steps or max_steps.
func (t *Trainer) burstLength(done int) int {
	n := t.asm.ringRows - done%t.asm.ringRows
	for _, limit := range []int{t.cfg.Checkpoint.Steps} {
		if limit > 0 {
			n = min(n, limit-done%limit)
		}
	}
	if t.cfg.MaxSteps > 0 {
		n = min(n, t.cfg.MaxSteps-done)
	}
	return n
}

// steps runs up to n whole steps; the last batch of an epoch runs alone.
func (t *Trainer) steps(ctx context.Context, n int) error {
	left := t.left()
	if full := left / t.train.samples; full > 0 {
		return t.train.exec.Run(ctx, min(n, full))
	}
	return t.tail.exec.Run(ctx, 1)
}

// groups runs up to n updates of accumulated micro-batches. A group is never left half done.
func (t *Trainer) groups(ctx context.Context, n int) error {
	every := t.cfg.Optim.Accumulate
	for range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		left := t.left()
		if left == 0 {
			return nil
		}
		update := t.update
		micros, rest := every, 0
		if left < every*t.train.samples {
			micros, rest = left/t.train.samples, left%t.train.samples
			update = t.tailUpdate
		}
		if err := t.group(micros, rest, left, update); err != nil {
			return err
		}
	}
	return nil
}

// group runs one update: whole micro-batches, then the epoch's last, smaller one where rest is its size.
func (t *Trainer) group(micros, rest, left int, update *unit) error {
	total := micros*t.train.samples + rest
	weigh := func(samples int) error {
		return device.Write(t.store, groupWeight, []float32{float32(float64(samples) / float64(total))})
	}
	if micros > 0 {
		if err := weigh(t.train.samples); err != nil {
			return err
		}
		if err := t.train.exec.Run(context.Background(), micros); err != nil {
			return err
		}
	}
	if rest > 0 {
		if err := weigh(rest); err != nil {
			return err
		}
		if err := t.tail.exec.Run(context.Background(), 1); err != nil {
			return err
		}
	}
	t.state.Position += total
	return update.exec.Run(context.Background(), 1)
}

// readState copies counters and scale from the device.
func (t *Trainer) readState() error {
	c, err := device.Read[int32](t.store, program.CountersName, program.NumCounters)
	if err != nil {
		return err
	}
	s, err := device.Read[float32](t.store, optim.ScaleName, 1)
	if err != nil {
		return err
	}
	copy(t.state.counters[:], c)
	t.state.Position = int(c[program.CounterPosition])
	t.state.scale = s[0]
	t.scaler.Sync(s[0], c[program.CounterGrowthTracker])
	return nil
}

// evaluateEpoch evaluates on validation and test data after an epoch and reports whether it is the best so far. The test
// set decides nothing.
func (t *Trainer) evaluateEpoch(ctx context.Context, e *runs.Epoch) (best bool, err error) {
	for _, name := range []string{"validation", "test"} {
		if t.evals[name] == nil {
			continue
		}
		ev, err := t.Evaluate(ctx, name)
		if err != nil {
			return false, err
		}
		e.EvalSeconds += ev.Seconds
		t.opts.Emit(ev.event(name, e.Epoch, e.Step))
		if name == "test" {
			e.TestLoss, e.TestAccuracy = &ev.Loss, number(ev.Accuracy)
			continue
		}
		e.ValLoss, e.ValAccuracy = &ev.Loss, number(ev.Accuracy)
		score := ev.Accuracy
		if math.IsNaN(score) {
			score = -ev.Loss
		}
		if t.state.BestVal == nil || score > *t.state.BestVal {
			t.state.BestVal, best = &score, true
		}
	}
	return best, nil
}

// endEpoch moves the schedule and the state to the next epoch.
func (t *Trainer) endEpoch(e *runs.Epoch) {
	metric := math.NaN()
	switch {
	case t.cfg.Optim.Schedule.Monitor == "val_accuracy" && e.ValAccuracy != nil:
		metric = *e.ValAccuracy
	case e.ValLoss != nil:
		metric = *e.ValLoss
	}
	if t.left() > 0 {
		return // max_steps ended it: the epoch is not over
	}
	t.schedule.EndEpoch(int(t.state.counters[program.CounterEpochUpdates]), metric)
	t.state.Epoch++
	t.state.Position, t.state.Sums = 0, sums{}
}

// report reads the rows of the updates since first and turns them into events.
func (t *Trainer) report(first int, seconds float64) error {
	n := int(t.state.counters[program.CounterAttempts]) - first
	if n == 0 {
		return nil
	}
	ring, err := device.Read[float32](t.store, trainRing, t.asm.ringRows*program.NumRing)
	if err != nil {
		return err
	}
	var burst sums
	for k := range n {
		row := ring[(first+k)%t.asm.ringRows*program.NumRing:][:program.NumRing]
		next := t.state.scale
		if k+1 < n {
			next = ring[(first+k+1)%t.asm.ringRows*program.NumRing+program.RingLossScale]
		}
		burst.add(row)
		t.state.Sums.add(row)
		t.state.LR, t.state.GradNorm = float64(row[program.RingLR]), float64(row[program.RingGradNorm])
		if err := t.scaling(first+k+1, n-1-k, row, next); err != nil {
			return err
		}
	}
	t.state.Trained += seconds
	t.state.Samples += int64(burst.Count)
	s := runs.Step{
		Epoch: t.state.Epoch + 1, Step: first + n, TrainLoss: burst.loss(), TrainAccuracy: number(burst.accuracy(t.set.Classes)),
		LR: t.state.LR, ImagesPerS: burst.Count / seconds, LossScale: float64(t.state.scale),
		SkippedSteps: int(t.state.counters[program.CounterSkipped]), GradNorm: t.state.GradNorm,
	}
	t.opts.Emit(s)
	t.opts.Progress(runs.Status{
		Epoch: s.Epoch, Epochs: t.cfg.Epochs, Step: int(t.state.counters[program.CounterAttempts] - t.state.EpochStart),
		Steps: t.updatesAnEpoch, Loss: s.TrainLoss, Accuracy: s.TrainAccuracy, ImagesPerS: s.ImagesPerS,
		LossScale: s.LossScale, SkippedSteps: s.SkippedSteps,
	})
	return nil
}

// scaling emits what a row says about the loss scale, and ends the run where no smaller scale can help. later is the number
// of attempts after this one.
func (t *Trainer) scaling(step, later int, row []float32, next float32) error {
	used, skipped := row[program.RingLossScale], row[program.RingSkipped] != 0
	epoch := t.state.Epoch + 1
	if !skipped {
		if next != used {
			t.opts.Emit(runs.ScaleChange{Epoch: epoch, Step: step, LossScaleBefore: float64(used), LossScale: float64(next), Cause: "growth"})
		}
		return nil
	}
	tensor := "?"
	if k := int(row[program.RingFirstBad]); k > 0 {
		tensor = t.train.grads[k-1]
	}
	if !t.scaler.IsEnabled() {
		return &DivergedError{Step: step, Tensor: tensor, Message: fmt.Sprintf(
			"step %d: the gradient of %s is not finite, and %s has no loss scale that could be lowered; try a lower learning rate or clip_grad_norm",
			step, tensor, t.asm.dtype)}
	}
	consecutive := max(0, int(t.state.counters[program.CounterConsecutiveSkips])-later)
	cause := "backoff"
	if next == used {
		cause = "min_scale"
	}
	t.opts.Emit(runs.SkippedStep{
		Epoch: epoch, Step: step, LossScaleBefore: float64(used), LossScale: float64(next), FirstBadTensor: tensor,
		SkippedSteps: int(t.state.counters[program.CounterSkipped]), ConsecutiveSkips: consecutive,
	})
	t.opts.Emit(runs.ScaleChange{Epoch: epoch, Step: step, LossScaleBefore: float64(used), LossScale: float64(next), Cause: cause})
	if limit := t.cfg.AMP.GradScaler.MaxConsecutiveSkips; limit > 0 && consecutive >= limit {
		return &DivergedError{Step: step, Tensor: tensor, Skips: consecutive, Message: fmt.Sprintf(
			"step %d: %d updates in a row were skipped; the gradient of %s overflows at loss scale %g (min_scale %g)",
			step, consecutive, tensor, used, t.cfg.AMP.GradScaler.MinScale)}
	}
	return nil
}
