package trainer

import (
	"context"
	"fmt"
	"math"

	"halfstep/device"
	"halfstep/program"
	"halfstep/runs"
)

// rows are the ring's rows of the updates of one burst.
type rows struct {
	ring  []float32
	first int // attempts before the burst
	n     int
}

func (r rows) row(k int) []float32 {
	size := len(r.ring) / program.NumRing
	return r.ring[(r.first+k)%size*program.NumRing:][:program.NumRing]
}

func (r rows) skipped(k int) bool { return r.row(k)[program.RingSkipped] != 0 }

// applied reports whether any update after row k was applied.
func (r rows) appliedAfter(k int) bool {
	for j := k + 1; j < r.n; j++ {
		if !r.skipped(j) {
			return true
		}
	}
	return false
}

// report reads the rows of the updates since the counters were as before, and turns them into events.
func (t *Trainer) report(ctx context.Context, before [program.NumCounters]int32, seconds float64) error {
	r := rows{first: int(before[program.CounterAttempts])}
	r.n = t.state.attempts() - r.first
	if r.n == 0 {
		return nil
	}
	var err error
	if r.ring, err = device.Read[float32](t.store, trainRing, t.asm.ringRows*program.NumRing); err != nil {
		return err
	}
	var burst sums
	for k := range r.n {
		burst.add(r.row(k), t.asm.summedLoss())
	}
	t.addSums(burst, seconds)
	bad := t.eachRow(ctx, r, before)
	last := t.state.attempts()
	if bad != nil || last%t.asm.ringRows == 0 || t.left() == 0 || t.outOfSteps() {
		t.emitStep()
	}
	t.showProgress(burst, seconds)
	return bad
}

func (t *Trainer) addSums(burst sums, seconds float64) {
	s := &t.state
	for _, total := range []*sums{&s.Sums, &s.Recent} {
		total.Loss += burst.Loss
		total.Correct += burst.Correct
		total.Count += burst.Count
	}
	s.Samples += int64(burst.Count)
	for _, total := range []*float64{&s.Trained, &s.RecentSeconds, &s.EpochSeconds} {
		*total += seconds
	}
}

// eachRow follows the updates of a burst one by one: rates, loss scale, skipped steps. It returns the error that ends the
// run, if one does.
func (t *Trainer) eachRow(ctx context.Context, r rows, before [program.NumCounters]int32) error {
	c := before // as it was when the update of the row began
	for k := range r.n {
		row := r.row(k)
		t.state.LR, t.state.GradNorm = float64(row[program.RingLR]), float(row[program.RingGradNorm])
		t.state.Momentum = number(float64(t.rates[min(int(c[program.CounterEpochUpdates]), len(t.rates)-1)][1]))
		next := t.state.scale
		if k+1 < r.n {
			next = r.row(k + 1)[program.RingLossScale]
		}
		if !r.skipped(k) {
			t.scaleGrowth(r.first+k+1, row[program.RingLossScale], next)
			c[program.CounterEpochUpdates]++
			c[program.CounterConsecutiveSkips] = 0
		} else {
			c[program.CounterSkipped]++
			c[program.CounterConsecutiveSkips]++
			tensor, err := t.firstBad(ctx, row, int(c[program.CounterPosition]), !r.appliedAfter(k))
			if err == nil {
				err = t.skipped(skip{
					step: r.first + k + 1, tensor: tensor, used: row[program.RingLossScale], next: next,
					total: int(c[program.CounterSkipped]), consecutive: int(c[program.CounterConsecutiveSkips]),
				})
			}
			if err != nil {
				return err
			}
		}
		c[program.CounterPosition] += int32(row[program.RingCount])
	}
	return nil
}

func (t *Trainer) scaleGrowth(step int, used, next float32) {
	if next != used {
		t.opts.Emit(runs.ScaleChange{
			Epoch: t.state.Epoch + 1, Step: step, LossScaleBefore: float64(used), LossScale: float64(next), Cause: "growth",
		})
	}
}

// skip is an update that was not applied.
type skip struct {
	step               int
	tensor             string  // the first that was not finite
	used, next         float32 // loss scale
	total, consecutive int     // skips in the run; since the last applied update
}

// skipped logs a skipped update, and gives the error that ends the run where no smaller scale can help.
func (t *Trainer) skipped(s skip) error {
	if !t.scaler.IsEnabled() {
		return &DivergedError{Step: s.step, Tensor: s.tensor, Message: fmt.Sprintf(
			"step %d: %s is not finite, and there is no loss scale to lower (%s, loss scaling is off); try a lower learning rate or optim.clip_grad_norm",
			s.step, s.tensor, t.asm.dtype)}
	}
	epoch, cause := t.state.Epoch+1, "backoff"
	if s.next == s.used {
		cause = "min_scale"
	}
	t.opts.Emit(runs.SkippedStep{
		Epoch: epoch, Step: s.step, LossScaleBefore: float64(s.used), LossScale: float64(s.next), FirstBadTensor: s.tensor,
		SkippedSteps: s.total, ConsecutiveSkips: s.consecutive,
	})
	t.opts.Emit(runs.ScaleChange{Epoch: epoch, Step: s.step, LossScaleBefore: float64(s.used), LossScale: float64(s.next), Cause: cause})
	t.warnMinScale(s)
	if limit := t.cfg.AMP.GradScaler.MaxConsecutiveSkips; limit > 0 && s.consecutive >= limit {
		return &DivergedError{Step: s.step, Tensor: s.tensor, Skips: s.consecutive, Message: fmt.Sprintf(
			"step %d: %d updates in a row were skipped; %s is not finite at loss scale %g (amp.grad_scaler.min_scale %g)",
			s.step, s.consecutive, s.tensor, s.used, t.cfg.AMP.GradScaler.MinScale)}
	}
	return nil
}

// warnMinScale says once in a run that the scale has fallen to its floor.
func (t *Trainer) warnMinScale(s skip) {
	floor := t.cfg.AMP.GradScaler.MinScale
	if s.next > floor || floor == 0 || t.state.WarnedMinScale {
		return
	}
	t.state.WarnedMinScale = true
	t.opts.Emit(runs.Warning{Code: "min_scale", Step: &s.step, Message: fmt.Sprintf(
		"the loss scale has fallen to amp.grad_scaler.min_scale %g; if steps are still skipped, the model needs a smaller one", floor)})
}

// emitStep sums up the steps since the last such event.
func (t *Trainer) emitStep() {
	s := &t.state
	t.opts.Emit(runs.Step{
		Epoch: s.Epoch + 1, Step: s.attempts(), TrainLoss: s.Recent.loss(), TrainAccuracy: number(s.Recent.accuracy(t.set.Classes)),
		LR: s.LR, Momentum: s.Momentum, ImagesPerS: s.Recent.Count / s.RecentSeconds, LossScale: float64(s.scale),
		SkippedSteps: int(s.counters[program.CounterSkipped]), GradNorm: float64(s.GradNorm),
	})
	s.Recent, s.RecentSeconds = sums{}, 0
}

func (t *Trainer) showProgress(burst sums, seconds float64) {
	s := &t.state
	t.opts.Progress(runs.Status{
		Epoch: s.Epoch + 1, Epochs: t.cfg.Epochs, Step: s.attempts() - int(s.EpochStart), Steps: t.updatesAnEpoch,
		Loss: burst.loss(), Accuracy: number(burst.accuracy(t.set.Classes)), ImagesPerS: burst.Count / seconds,
		LossScale: float64(s.scale), SkippedSteps: int(s.counters[program.CounterSkipped]),
	})
}

// number is nil for what does not apply.
func number(x float64) *float64 {
	if math.IsNaN(x) {
		return nil
	}
	return &x
}
