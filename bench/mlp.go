package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device/devices"
	"halfstep/trainer"
)

// mlpConfig is the net of the first post: three matrices with ReLU between, squared error summed, SGD at 1e-9, one batch of
// 64 over and over.
const mlpConfig = "posts/three_matrices"

// MLPSize is the net's batch and widths.
type MLPSize struct{ Batch, Inputs, Hidden, Outputs int }

func (s MLPSize) String() string {
	return fmt.Sprintf("(%d, %d, %d, %d)", s.Batch, s.Inputs, s.Hidden, s.Outputs)
}

// mlpRuns are the post's two sizes with their iterations by default. The large one's step takes a hundred times as long: it
// runs fewer, and its time for as many as the small one's is worked out from them.
var mlpRuns = []struct {
	size       MLPSize
	iterations int
}{{MLPSize{64, 1024, 128, 8}, 10000}, {MLPSize{64, 5000, 5000, 8}, 300}}

// mlpAsked is the number of iterations that the post ran.
const mlpAsked = 10000

// mlpEpoch is how many times the batch is listed in the epoch's order: so many steps run without a word from the host.
const mlpEpoch = 1000

// MLPOptions say what to run.
type MLPOptions struct {
	Device     string // "": all that are usable
	NoGraph    bool   // cuda.graph: false
	Iterations int    // of both sizes; 0: 10,000 of the small one and 300 of the large one
}

// MLPRow is the training of one size on one device, in the parts that the post timed as one. Times are in seconds.
type MLPRow struct {
	Device     string  `json:"device"`
	Net        string  `json:"net"`
	Iterations int     `json:"iterations"`
	Data       float64 `json:"data_seconds"`    // creating inputs and targets on the host
	Build      float64 `json:"build_seconds"`   // opening the device, compiling the step, copying the data there; with weights
	Weights    float64 `json:"weights_seconds"` // the part of this that creates the weights and copies them to the device, timed once more
	Cold       float64 `json:"cold_seconds"`    // the first iteration
	Warm       float64 `json:"warm_seconds"`    // the others
	Again      float64 `json:"again_seconds"`   // all iterations once more, from fresh weights
	USStep     float64 `json:"us_step"`         // of the second run
	GFLOPS     float64 `json:"gflops"`          // of the second run
	// Asked is what 10,000 iterations take at the second run's rate.
	Asked float64 `json:"seconds_of_10000"`
}

// MLPResult compares devices on both sizes.
type MLPResult struct {
	Rows       []MLPRow         `json:"rows"`
	Missing    []devices.Usable `json:"missing,omitempty"`
	Conclusion string           `json:"conclusion"`
}

// MLP trains both sizes on each device.
func MLP(ctx context.Context, o MLPOptions) (*MLPResult, error) {
	if o.Iterations < 0 || o.Iterations == 1 {
		return nil, &Error{"--iterations", fmt.Sprintf("%d, want at least 2: the first one is timed apart", o.Iterations)}
	}
	use, missing, err := choose(o.Device)
	if err != nil {
		return nil, err
	}
	result := &MLPResult{Missing: missing}
	for _, run := range mlpRuns {
		n := run.iterations
		if o.Iterations > 0 {
			n = o.Iterations
		}
		c, err := mlpSetting(run.size)
		if err != nil {
			return nil, err
		}
		c.CUDA.Graph = !o.NoGraph
		for _, u := range use {
			row, err := mlpRow(ctx, c, n, u.Name)
			if err != nil {
				return nil, err
			}
			result.Rows = append(result.Rows, *row)
		}
	}
	result.Conclusion = mlpConclusion(result.Rows)
	return result, nil
}

// mlpSetting is the post's configuration at a size, by which it is named.
func mlpSetting(s MLPSize) (configs.Config, error) {
	r, err := configs.Load(mlpConfig, []string{
		fmt.Sprintf("data.batch_size=%d", s.Batch), fmt.Sprintf("data.random.samples=%d", s.Batch),
		fmt.Sprintf("data.random.features=%d", s.Inputs), fmt.Sprintf("data.random.targets=%d", s.Outputs),
	})
	if err != nil {
		return configs.Config{}, err
	}
	r.Config.Name = s.String()
	units := []int{s.Hidden, s.Outputs, s.Outputs}
	for k := range r.Config.Model.Layers {
		if l := &r.Config.Model.Layers[k]; l.Kind == "linear" {
			l.Units, units = units[0], units[1:]
		}
	}
	return r.Config, nil
}

func mlpRow(ctx context.Context, c configs.Config, n int, name string) (row *MLPRow, err error) {
	row = &MLPRow{Device: name, Net: c.Name, Iterations: n}
	var set *data.Set
	if err := clock(&row.Data, func() error { set, err = data.Open(c.Data, c.Seed); return err }); err != nil {
		return nil, err
	}
	batch := set.TrainIndex
	for range mlpEpoch - 1 {
		set.TrainIndex = append(set.TrainIndex, batch...)
	}
	start := time.Now()
	dev, err := trainer.OpenNamed(name, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	t, err := trainer.New(c, set, dev, trainer.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	s, err := t.Stepper()
	if err != nil {
		return nil, err
	}
	row.Build = time.Since(start).Seconds()
	return row, row.train(ctx, t, s)
}

// train times the iterations, twice.
func (r *MLPRow) train(ctx context.Context, t *trainer.Trainer, s *trainer.Stepper) error {
	steps := func(n int) func() error {
		return func() error {
			for n > 0 {
				if s.Left() == 0 {
					if err := s.Rewind(); err != nil {
						return err
					}
				}
				k := min(n, s.Left())
				if err := s.Run(ctx, k); err != nil {
					return err
				}
				n -= k
			}
			return nil
		}
	}
	for _, part := range []struct {
		seconds *float64
		f       func() error
	}{
		{&r.Weights, t.ResetWeights},
		{&r.Cold, steps(1)},
		{&r.Warm, steps(r.Iterations - 1)},
		{new(float64), t.ResetWeights},
		{&r.Again, steps(r.Iterations)},
	} {
		if err := clock(part.seconds, part.f); err != nil {
			return err
		}
	}
	step := r.Again / float64(r.Iterations)
	r.USStep, r.GFLOPS, r.Asked = 1e6*step, float64(programFLOPs(t.Program()))/step/1e9, mlpAsked*step
	return nil
}

// clock times f in seconds.
func clock(seconds *float64, f func() error) error {
	start := time.Now()
	err := f()
	*seconds = time.Since(start).Seconds()
	return err
}

// mlpConclusion says for each net which device wins, once everything is warm and counting everything. Rows are ordered by net.
func mlpConclusion(rows []MLPRow) string {
	var s []string
	for from := 0; from < len(rows); {
		to := from
		for to < len(rows) && rows[to].Net == rows[from].Net {
			to++
		}
		s = append(s, mlpWinner(rows[from:to]))
		from = to
	}
	return strings.Join(s, " ")
}

// mlpWinner compares the devices on one net.
func mlpWinner(rows []MLPRow) string {
	r := rows[0]
	if len(rows) == 1 {
		return fmt.Sprintf("%s: only %s is here: %.3g µs an iteration, %d of them in %.3g s.", r.Net, r.Device, r.USStep, mlpAsked, r.Asked)
	}
	fastest := func(seconds func(MLPRow) float64) (best, second MLPRow) {
		best, second = rows[0], rows[1]
		if seconds(second) < seconds(best) {
			best, second = second, best
		}
		for _, x := range rows[2:] {
			switch {
			case seconds(x) < seconds(best):
				best, second = x, best
			case seconds(x) < seconds(second):
				second = x
			}
		}
		return best, second
	}
	whole := func(r MLPRow) float64 { return r.Data + r.Build + r.Cold + r.Warm }
	warm, next := fastest(func(r MLPRow) float64 { return r.USStep })
	all, other := fastest(whole)
	s := fmt.Sprintf("%s: %s wins, %.3g µs an iteration against %.3g µs on %s.", r.Net, warm.Device, warm.USStep, next.USStep, next.Device)
	if all.Device != warm.Device {
		s += fmt.Sprintf(" Counting the start, %s wins: %.3g s for %d iterations against %.3g s.", all.Device, whole(all), all.Iterations, whole(other))
	}
	return s
}
