package trainer

import (
	"context"
	"time"

	"halfstep/device"
	"halfstep/optim"
	"halfstep/program"
)

// burst runs steps up to the next point where the host wants to look, and reads what they left.
func (t *Trainer) burst(ctx context.Context) error { return t.burstOf(ctx, t.burstLength()) }

// burstOf runs up to n updates and reads what they left.
func (t *Trainer) burstOf(ctx context.Context, n int) error {
	before := t.state.counters
	start := time.Now()
	t.lastTest = nil
	var runErr error
	if t.update != nil {
		runErr = t.groups(ctx, n)
	} else {
		runErr = t.steps(ctx, n)
	}
	if err := t.readState(); err != nil {
		return err
	}
	if err := t.report(ctx, before, time.Since(start).Seconds()); err != nil {
		return err
	}
	return runErr
}

// burstLength is how many updates to run: to the next multiple of log.every or checkpoint.steps, or to max_steps. With loss
// scaling also to where the scale next grows, and a single one after it changed: a skipped step is then the last of its
// burst, and can be replayed.
func (t *Trainer) burstLength() int {
	done := t.state.attempts()
	n := t.asm.ringRows - done%t.asm.ringRows
	if every := t.cfg.Checkpoint.Steps; every > 0 {
		n = min(n, every-done%every)
	}
	if t.cfg.MaxSteps > 0 {
		n = min(n, t.cfg.MaxSteps-done)
	}
	if !t.scaler.IsEnabled() {
		return n
	}
	tracker := int(t.scaler.GetGrowthTracker())
	if tracker == 0 {
		return 1
	}
	return max(1, min(n, t.cfg.AMP.GradScaler.GrowthInterval-tracker))
}

// steps runs up to n whole steps; the last batch of an epoch runs alone.
func (t *Trainer) steps(ctx context.Context, n int) error {
	if full := t.left() / t.train.samples; full > 0 {
		return t.run(ctx, t.train, min(n, full))
	}
	return t.run(ctx, t.tail, 1)
}

// groups runs up to n updates of accumulated micro-batches. A group is never left half done.
func (t *Trainer) groups(ctx context.Context, n int) error {
	for range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		g := t.nextGroup()
		if g.total == 0 {
			return nil
		}
		if err := t.group(g); err != nil {
			return err
		}
	}
	return nil
}

// group is the micro-batches of one update: whole ones, then the epoch's last, smaller one where rest is its size.
type group struct {
	micros, rest, total int // total samples
	update              *unit
}

// nextGroup is the group at the current position; its total is 0 at the end of the epoch.
func (t *Trainer) nextGroup() group {
	every, size, left := t.cfg.Optim.Accumulate, t.train.samples, t.left()
	if left >= every*size {
		return group{every, 0, every * size, t.update}
	}
	return group{left / size, left % size, left, t.tailUpdate}
}

func (t *Trainer) group(g group) error {
	if g.micros > 0 {
		if err := t.weigh(t.train.samples, g.total); err != nil {
			return err
		}
		if err := t.run(context.Background(), t.train, g.micros); err != nil {
			return err
		}
	}
	if g.rest > 0 {
		if err := t.weigh(g.rest, g.total); err != nil {
			return err
		}
		if err := t.run(context.Background(), t.tail, 1); err != nil {
			return err
		}
	}
	t.state.Position += g.total
	return g.update.exec.Run(context.Background(), 1)
}

// weigh sets the weight of a micro-batch of samples in a group of total: its share, since losses are means over the batch,
// or 1 where the loss is a sum.
func (t *Trainer) weigh(samples, total int) error {
	w := float32(float64(samples) / float64(total))
	if t.asm.summedLoss() {
		w = 1
	}
	return device.Write(t.store, groupWeight, []float32{w})
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
