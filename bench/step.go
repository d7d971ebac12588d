package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"halfstep/configs"
	"halfstep/program"
	"halfstep/trainer"
)

// StepOptions say how to time a training step.
type StepOptions struct {
	Steps   int // timings; 0: 20
	Profile bool
}

const (
	defaultSteps = 20
	warmUp       = 200 * time.Millisecond // at least, and at least two steps
	timingTime   = time.Millisecond       // of one timing at least: shorter steps are timed several at once
	profileSteps = 7                      // that a profile takes the median of
)

// StepResult is the cost of one training step: input, forward, backward and update, after warm-up. A peak is in GFLOP/s on
// all threads, nil where the device cannot tell.
type StepResult struct {
	Config  string `json:"config"`
	Device  string `json:"device"`
	ISA     string `json:"isa"`
	Threads int    `json:"threads"`
	DType   string `json:"dtype"`
	TF32    bool   `json:"tf32"`  // float32 products are computed in tf32
	Batch   int    `json:"batch"` // samples of one step

	MSMedian   float64 `json:"ms_step_median"`
	MSMin      float64 `json:"ms_step_min"`
	ImagesPerS float64 `json:"images_per_s"` // at the median

	FLOPs         int64    `json:"flops_per_step"` // two per multiply-add of convolutions and linear layers, counted densely
	GFLOPS        float64  `json:"gflops"`         // FLOPs/s at the median
	FMAPeak       *float64 `json:"fma_peak_gflops"`
	PercentOfPeak *float64 `json:"percent_of_peak"`            // of FMAPeak, whatever the dtype
	BF16Peak      *float64 `json:"bf16_peak_gflops,omitempty"` // of instructions that multiply bfloat16

	MemPlanned int64 `json:"mem_planned_bytes"`
	MemPeak    int64 `json:"mem_peak_bytes"`

	Timings        int     `json:"timings"`
	StepsPerTiming int     `json:"steps_per_timing"`
	FirstStepMS    float64 `json:"ms_first_step"`
	StartSeconds   float64 `json:"start_seconds"` // from the command's start to the end of the first step, data included
	DataSeconds    float64 `json:"data_seconds"`  // of these, reading the data

	Profile []InstrRow `json:"profile,omitempty"`
}

// Step times the training step of a configuration.
func Step(ctx context.Context, r *configs.Resolved, o StepOptions) (*StepResult, error) {
	if o.Steps == 0 {
		o.Steps = defaultSteps
	}
	if o.Steps < 0 {
		return nil, &Error{"--steps", fmt.Sprintf("%d, want at least 1", o.Steps)}
	}
	start := time.Now()
	session, err := trainer.Prepare(r, trainer.SessionOptions{})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	s, err := session.Trainer().Stepper()
	if err != nil {
		return nil, err
	}
	first := time.Now()
	if err := s.Run(ctx, 1); err != nil {
		return nil, err
	}
	result := describeStep(r, session)
	result.FirstStepMS, result.StartSeconds = milliseconds(time.Since(first)), time.Since(start).Seconds()
	result.DataSeconds = session.ReadSeconds()
	limits := measurePeaks(session.Device(), program.Float32, program.BFloat16)
	if err := result.time(ctx, s, o.Steps); err != nil {
		return nil, err
	}
	// Once more, since the machine may have had other work at first.
	result.setPeaks(limits.or(measurePeaks(session.Device(), program.Float32, program.BFloat16)))
	result.MemPeak, _ = session.Trainer().Memory().Measured(session.Device().Memory())
	if o.Profile {
		if result.Profile, err = profile(ctx, session.Trainer(), result.FMAPeak); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// describeStep fills in what is known before any timing.
func describeStep(r *configs.Resolved, session *trainer.Session) *StepResult {
	t, p := session.Trainer(), session.Device().Properties()
	micro := max(1, r.Config.Optim.Accumulate)
	return &StepResult{
		Config: r.Config.Name, Device: p.Kind, ISA: p.ISA, Threads: p.Threads, DType: t.DType().String(), TF32: t.UsesTF32(),
		Batch: r.Config.Data.BatchSize * micro, FLOPs: programFLOPs(t.Program()) * int64(micro), MemPlanned: t.Memory().Peak(),
	}
}

func (r *StepResult) setPeaks(p peaks) {
	r.FMAPeak, r.BF16Peak = p.own(program.Float32), p.own(program.BFloat16)
	r.PercentOfPeak = percent(r.GFLOPS, r.FMAPeak)
}

// time warms up and takes n timings.
func (r *StepResult) time(ctx context.Context, s *trainer.Stepper, n int) error {
	once, err := warm(ctx, s, warmUp)
	if err != nil {
		return err
	}
	r.Timings, r.StepsPerTiming = n, stepsPerTiming(once, s)
	ms := make([]float64, n)
	for k := range ms {
		d, err := timeSteps(ctx, s, r.StepsPerTiming)
		if err != nil {
			return err
		}
		ms[k] = milliseconds(d) / float64(r.StepsPerTiming)
	}
	r.setTimes(ms)
	return nil
}

// setTimes derives all rates from the times of a step in milliseconds.
func (r *StepResult) setTimes(ms []float64) {
	r.MSMedian, r.MSMin = median(ms), slices.Min(ms)
	r.ImagesPerS = float64(r.Batch) / r.MSMedian * 1e3
	r.GFLOPS = float64(r.FLOPs) / r.MSMedian / 1e6
}

// warm runs steps for at least a time, at least two, and gives the shortest time of one.
func warm(ctx context.Context, s *trainer.Stepper, least time.Duration) (time.Duration, error) {
	var shortest, total time.Duration
	for n := 0; n < 2 || total < least; n++ {
		d, err := timeSteps(ctx, s, 1)
		if err != nil {
			return 0, err
		}
		total += d
		if n == 0 || d < shortest {
			shortest = d
		}
	}
	return shortest, nil
}

// stepsPerTiming is how many steps of a duration one timing takes: the clock and the end of an epoch then cost nothing.
func stepsPerTiming(step time.Duration, s *trainer.Stepper) int {
	n := int((timingTime + step - 1) / max(step, 1))
	return max(1, min(n, s.PerEpoch()))
}

// timeSteps times n steps, which the device finishes; beginning the data anew is not timed.
func timeSteps(ctx context.Context, s *trainer.Stepper, n int) (time.Duration, error) {
	if n > s.Left() {
		if err := s.Rewind(); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	err := s.Run(ctx, n)
	return time.Since(start), err
}
