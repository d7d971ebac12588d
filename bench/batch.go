package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device/devices"
	"halfstep/trainer"
)

// batchConfig is the net of the fourth post, 784-16-16-10, which was trained one sample at a time.
const batchConfig = "posts/sigmoid_mlp"

// batchSizes are the batch sizes by default.
var batchSizes = []int{1, 8, 64, 512, 4096}

// BatchOptions say what to compare.
type BatchOptions struct {
	Device     string // "": all that are usable
	NoGraph    bool   // cuda.graph: false
	BatchSizes []int  // default: 1, 8, 64, 512, 4096
	Steps      int    // timings of each; 0: 20
}

// BatchRow is one batch size on one device.
type BatchRow struct {
	Device     string  `json:"device"`
	Batch      int     `json:"batch"`
	MSStep     float64 `json:"ms_step"` // median
	ImagesPerS float64 `json:"images_per_s"`
	// EpochSeconds is what all training images take at that rate.
	EpochSeconds float64 `json:"epoch_seconds"`
	SpeedUp      float64 `json:"speedup"` // images/s over those of the device's smallest batch
}

// BatchResult tells what a loop over single samples costs.
type BatchResult struct {
	Rows       []BatchRow       `json:"rows"`
	Missing    []devices.Usable `json:"missing,omitempty"`
	Conclusion string           `json:"conclusion"`
}

// Batch times the net at each batch size, on resident data, after warm-up.
func Batch(ctx context.Context, o BatchOptions) (*BatchResult, error) {
	if len(o.BatchSizes) == 0 {
		o.BatchSizes = batchSizes
	}
	if o.Steps == 0 {
		o.Steps = defaultSteps
	}
	if o.Steps < 0 {
		return nil, &Error{"--steps", fmt.Sprintf("%d, want at least 1", o.Steps)}
	}
	r, err := configs.Load(batchConfig, nil)
	if err != nil {
		return nil, err
	}
	r.Config.CUDA.Graph = !o.NoGraph
	set, err := data.Open(r.Config.Data, r.Config.Seed)
	if err != nil {
		return nil, err
	}
	sizes := slices.Sorted(slices.Values(o.BatchSizes))
	for _, b := range sizes {
		if b < 1 || b > len(set.TrainIndex) {
			return nil, &Error{"--batch-sizes", fmt.Sprintf("%d, want 1 to %d, the number of training images", b, len(set.TrainIndex))}
		}
	}
	use, missing, err := choose(o.Device)
	if err != nil {
		return nil, err
	}
	result := &BatchResult{Missing: missing}
	for _, u := range use {
		for _, b := range sizes {
			c := r.Config
			c.Data.BatchSize = b
			row, err := batchRow(ctx, c, set, u.Name, o.Steps)
			if err != nil {
				return nil, err
			}
			result.Rows = append(result.Rows, *row)
		}
	}
	relateBatches(result.Rows)
	result.Conclusion = batchConclusion(result.Rows)
	return result, nil
}

func batchRow(ctx context.Context, c configs.Config, set *data.Set, name string, n int) (row *BatchRow, err error) {
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
	r := &StepResult{Batch: c.Data.BatchSize}
	if err := r.time(ctx, s, n); err != nil {
		return nil, err
	}
	return &BatchRow{
		Device: name, Batch: r.Batch, MSStep: r.MSMedian, ImagesPerS: r.ImagesPerS,
		EpochSeconds: float64(len(set.TrainIndex)) / r.ImagesPerS,
	}, nil
}

// perDevice cuts rows that are ordered by device.
func perDevice(rows []BatchRow) [][]BatchRow {
	var parts [][]BatchRow
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && rows[to].Device == rows[from].Device {
			to++
		}
		parts = append(parts, rows[from:to])
		from = to
	}
	return parts
}

// relateBatches fills in each row's speed-up over the smallest batch of its device.
func relateBatches(rows []BatchRow) {
	for _, part := range perDevice(rows) {
		for k := range part {
			part[k].SpeedUp = ratio(part[k].ImagesPerS, part[0].ImagesPerS)
		}
	}
}

// batchConclusion says in a sentence per device what single samples cost, and which device wins at which batch.
func batchConclusion(rows []BatchRow) string {
	var s []string
	parts := perDevice(rows)
	for _, part := range parts {
		s = append(s, batchSentence(part))
	}
	if len(parts) > 1 {
		s = append(s, batchWinners(parts))
	}
	return strings.Join(s, " ")
}

// batchSentence compares a device's smallest batch with its fastest.
func batchSentence(rows []BatchRow) string {
	name, first, best := rows[0].Device, rows[0], rows[0]
	for _, r := range rows {
		if r.ImagesPerS > best.ImagesPerS {
			best = r
		}
	}
	if best.SpeedUp < 1.05 {
		return fmt.Sprintf("On %s no batch is faster than %d.", name, first.Batch)
	}
	// A step's time is a fixed cost and one for each image; two batches tell both.
	perImage := (best.MSStep - first.MSStep) / float64(best.Batch-first.Batch)
	fixed := first.MSStep - perImage*float64(first.Batch)
	s := fmt.Sprintf("On %s batch %d trains %.1f times as many images per second as batch %d: an epoch takes %.3g s instead of %.3g s",
		name, best.Batch, best.SpeedUp, first.Batch, best.EpochSeconds, first.EpochSeconds)
	if perImage > 0 && fixed > 0 {
		s += fmt.Sprintf("; %.0f%% of a step of %d is a cost that does not depend on the batch (%.3g µs)", 100*fixed/first.MSStep, first.Batch, 1e3*fixed)
	}
	return s + "."
}

// batchWinners names the fastest device at the smallest and at the largest batch.
func batchWinners(parts [][]BatchRow) string {
	winner := func(at func([]BatchRow) BatchRow) BatchRow {
		best := at(parts[0])
		for _, p := range parts {
			if r := at(p); r.ImagesPerS > best.ImagesPerS {
				best = r
			}
		}
		return best
	}
	small := winner(func(r []BatchRow) BatchRow { return r[0] })
	large := winner(func(r []BatchRow) BatchRow { return r[len(r)-1] })
	if small.Device == large.Device {
		return fmt.Sprintf("%s is the faster device at batch %d and at batch %d.", small.Device, small.Batch, large.Batch)
	}
	return fmt.Sprintf("%s is the faster device at batch %d, %s at batch %d.", small.Device, small.Batch, large.Device, large.Batch)
}
