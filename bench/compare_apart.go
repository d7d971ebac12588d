package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/program"
	"halfstep/trainer"
)

// apart is a row's step taken apart, measured after training.
type apart struct {
	phases   PhaseTimes
	evidence evidence
	host     *hostCost // nil: not measured
}

// PhaseTimes are the medians of a step's phases in milliseconds, each over the same profiled steps. Update includes
// metrics.
type PhaseTimes struct{ Input, Forward, Backward, Update float64 }

// hostCost is what batches from the host cost: times with data.resident: false over those with resident data.
type hostCost struct{ step, evaluation float64 }

// Rows take turns here as well: rounds of profiles, each of at least one step and about profileTime.
const (
	rounds      = 5
	profileTime = 40 * time.Millisecond
)

// takeApart profiles the rows' steps, and times them with batches from the host. Training must be over: it changes the
// state.
func (c *comparison) takeApart(ctx context.Context, group []*contender, set *data.Set) error {
	profiles := make([]profiles, len(group))
	for r := range rounds {
		c.limits.measurePeaks()
		if r == 0 || r == rounds-1 {
			if err := c.limits.measureBandwidth(); err != nil {
				return err
			}
		}
		for i, k := range group {
			if err := profiles[i].add(ctx, k.tr, k); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
	}
	for i, k := range group {
		if err := k.otherBatch(ctx, set, &profiles[i]); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		k.phases = phasesOf(profiles[i].own)
		k.evidence = c.gather(k, profiles[i])
		if err := k.fromHost(ctx, set); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	return nil
}

// phasesOf sums up each profiled step by phase and takes the medians.
func phasesOf(p *trainer.Profile) PhaseTimes {
	var ms [program.Metrics][]float64
	for _, times := range p.Times {
		var sum [program.Metrics]float64
		sum[program.Input] = times[len(p.Instrs)]
		for k, i := range p.Instrs {
			sum[min(i.Phase, program.Update)] += times[k]
		}
		for phase, ns := range sum {
			ms[phase] = append(ms[phase], ns/1e6)
		}
	}
	return PhaseTimes{median(ms[program.Input]), median(ms[program.Forward]), median(ms[program.Backward]), median(ms[program.Update])}
}

// gather makes the evidence of a row's profiles. Its times are the shortest of each instruction, as the limits are the
// highest rates: those of moments when the machine did nothing else.
func (c *comparison) gather(k *contender, p profiles) evidence {
	e := evidence{
		name: k.String(), dtype: k.dtype, tf32: k.precision == trainer.TF32, step: k.step(), batch: k.batch, probe: probeBatch(k.batch),
		bandwidth: c.limits.bandwidth(k.planned.Peak()), least: math.Inf(1),
	}
	if e.peak, e.native = c.limits.peakTF32, true; !e.tf32 {
		e.peak, e.native = c.limits.peak(k.dtype)
	}
	own, other := leastTimes(p.own), leastTimes(p.other)
	for i, instr := range p.own.Instrs {
		runs := p.own.Runs[i]
		x := cost{
			op: instr.Op.Name(), phase: instr.Phase, seconds: own[i], flops: instrFLOPs(instr) * int64(runs), bytes: instrBytes(instr) * int64(runs), runs: runs,
		}
		if b, ok := instr.Op.(program.Conv2DBackward); ok {
			x.sparse = b.Pool.Size > 0 // where a window's maximum was not, the gradient is zero
		}
		if len(other) == len(own) {
			x.fixed = fixedPart(own[i], other[i], k.batch, e.probe)
		}
		e.instrs = append(e.instrs, x)
		if _, view := instr.Op.(program.Reshape); !view {
			e.least = min(e.least, own[i]/float64(runs))
		}
	}
	e.loader = own[len(p.own.Instrs)]
	if len(other) == len(own) {
		e.longer = ratio(sum(other), sum(own))
	}
	return e
}

// fixedPart is the part of time a, at a batch, that does not grow with the batch, from time b at another batch, on a
// straight line.
func fixedPart(a, b float64, batch, other int) float64 {
	each := (a - b) / float64(batch-other)
	return min(max(0, a-each*float64(batch)), a)
}

// leastTimes is the least time of each instruction in seconds, and of the loader; nil of no profile.
func leastTimes(p *trainer.Profile) []float64 {
	if p == nil {
		return nil
	}
	least := slices.Clone(p.Times[0])
	for _, times := range p.Times[1:] {
		for i, t := range times {
			least[i] = min(least[i], t)
		}
	}
	for i := range least {
		least[i] /= 1e9
	}
	return least
}

func sum(x []float64) float64 {
	total := 0.0
	for _, v := range x {
		total += v
	}
	return total
}

// profiles are those of a row and, where there is room for it, of its step at another batch size.
type profiles struct{ own, other *trainer.Profile }

// add profiles some steps more.
func (p *profiles) add(ctx context.Context, t *trainer.Trainer, k *contender) (err error) {
	p.own, err = profileMore(ctx, t, p.own, k.step())
	return err
}

// profileMore profiles steps of about profileTime together and adds them to what there is.
func profileMore(ctx context.Context, t *trainer.Trainer, p *trainer.Profile, step float64) (*trainer.Profile, error) {
	more, err := t.Profile(ctx, max(1, min(int(profileTime.Seconds()/step), 200)))
	if err != nil || p == nil {
		return more, err
	}
	p.Times = append(p.Times, more.Times...)
	return p, nil
}

// probeBatch is the batch size that tells fixed costs: half of the row's, or 2 of 1.
func probeBatch(batch int) int {
	if batch == 1 {
		return 2
	}
	return batch / 2
}

// otherBatch profiles the row's step at another batch size, in turns with its own.
func (k *contender) otherBatch(ctx context.Context, set *data.Set, p *profiles) (err error) {
	cfg, bare := k.cfg, *set
	cfg.Data.BatchSize, cfg.Data.DropLast = probeBatch(k.batch), true
	bare.Test, bare.ValIndex = data.Split{}, nil
	if len(set.TrainIndex) < cfg.Data.BatchSize*max(1, cfg.Optim.Accumulate) || !k.hasRoom(cfg, &bare) {
		return nil
	}
	t, err := trainer.New(cfg, &bare, k.dev, trainer.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	for range rounds {
		if p.other, err = profileMore(ctx, t, p.other, k.step()); err != nil {
			return err
		}
		if err := p.add(ctx, k.tr, k); err != nil {
			return err
		}
	}
	return nil
}

// hasRoom reports whether a further trainer fits beside those that are there.
func (k *contender) hasRoom(cfg configs.Config, set *data.Set) bool {
	_, err := trainer.Plan(cfg, set, k.dev)
	return err == nil
}

// instrBytes is the memory traffic of an instruction that keeps nothing in cache: what it reads, what it writes, and what it
// updates twice. A view moves nothing.
func instrBytes(i *program.Instr) int64 {
	if _, view := i.Op.(program.Reshape); view {
		return 0
	}
	var n int64
	for _, v := range i.In {
		n += v.Bytes
	}
	for _, v := range i.Out {
		n += v.Bytes
	}
	for _, v := range i.InOut {
		n += 2 * v.Bytes
	}
	return n
}

// fromHost times a row's steps and evaluations with batches from the host against those with resident data, alternately.
func (k *contender) fromHost(ctx context.Context, set *data.Set) (err error) {
	if !k.cfg.Data.Resident {
		k.host = &hostCost{1, 1}
		return nil
	}
	cfg := k.cfg
	cfg.Data.Resident = false
	if !k.hasRoom(cfg, set) {
		return nil
	}
	host, err := trainer.New(cfg, set, k.dev, trainer.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	h, err := measureHost(ctx, k.tr, host, set.Test.N > 0)
	if err != nil {
		return err
	}
	k.host = h
	return nil
}

// measureHost times two trainers against each other, the second of which makes its batches on the host.
func measureHost(ctx context.Context, resident, host *trainer.Trainer, evaluate bool) (*hostCost, error) {
	var steppers [2]*trainer.Stepper
	n := 0
	for i, t := range []*trainer.Trainer{resident, host} {
		s, err := t.Stepper()
		if err != nil {
			return nil, err
		}
		once, err := warm(ctx, s, profileTime)
		if err != nil {
			return nil, err
		}
		n = max(1, min(int(profileTime/once), s.PerEpoch()))
		steppers[i] = s
	}
	var steps [rounds]float64
	for r := range steps {
		var seconds [2]float64
		for i, s := range steppers {
			d, err := timeSteps(ctx, s, n)
			if err != nil {
				return nil, err
			}
			seconds[i] = d.Seconds()
		}
		steps[r] = seconds[1] / seconds[0]
	}
	h := &hostCost{step: median(steps[:]), evaluation: 1}
	if !evaluate {
		return h, nil
	}
	var evaluations []float64
	for range 2 {
		var seconds [2]float64
		for i, t := range []*trainer.Trainer{resident, host} {
			e, err := t.Evaluate(ctx, "test")
			if err != nil {
				return nil, err
			}
			seconds[i] = e.Seconds
		}
		evaluations = append(evaluations, seconds[1]/seconds[0])
	}
	h.evaluation = median(evaluations)
	return h, nil
}
