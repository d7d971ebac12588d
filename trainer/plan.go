package trainer

import (
	"errors"
	"fmt"
	"math"

	"halfstep/amp"
	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
)

// MemoryOptions say what to plan. Empty lists stand for the configuration's own value.
type MemoryOptions struct {
	Precisions []string
	BatchSizes []int
	Fit        int64 // bytes; 0: do not look for the largest batch
}

// MemoryRow is the planned memory of one precision and batch size.
type MemoryRow struct {
	Device            string     `json:"device"` // cpu or cuda: planned for it
	Precision         string     `json:"precision"`
	BatchSize         int        `json:"batch_size"`
	PlannedPeakBytes  int64      `json:"planned_peak_bytes"`
	ResidentDataBytes int64      `json:"resident_data_bytes"`
	Categories        amp.Memory `json:"categories"`
	Note              string     `json:"note,omitempty"` // "largest batch in 8589934592 bytes"
}

// PlanMemory plans each precision and batch size without running anything; the data is opened for its size only. With
// device: auto it plans for the CPU, and tf32, which the CPU has not, as fp32: it stores the same.
func PlanMemory(r *configs.Resolved, o MemoryOptions) ([]MemoryRow, error) {
	set, err := data.Open(r.Config.Data, r.Config.Seed)
	if err != nil {
		return nil, err
	}
	if len(o.BatchSizes) == 0 {
		o.BatchSizes = []int{r.Config.Data.BatchSize}
	}
	if len(o.Precisions) == 0 {
		return planPrecision(r.Config, set, "", o)
	}
	var rows []MemoryRow
	for _, p := range o.Precisions {
		c, err := Precision(r.Config, p)
		if err != nil {
			return nil, err
		}
		more, err := planPrecision(c, set, p, o)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// planPrecision plans a configuration at each batch size. An empty precision is named after what the configuration computes in.
func planPrecision(c configs.Config, set *data.Set, precision string, o MemoryOptions) (rows []MemoryRow, err error) {
	name := c.Device
	if name == "auto" {
		name = "cpu"
	}
	dev, err := OpenNamed(name, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if precision == "" {
		if precision, err = PrecisionName(c, dev.Properties()); err != nil {
			return nil, err
		}
	}
	for _, b := range o.BatchSizes {
		row, err := planRow(c, set, dev, precision, b)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	if o.Fit > 0 {
		row, err := largestBatch(c, set, dev, precision, o.Fit)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func planRow(c configs.Config, set *data.Set, dev device.Device, precision string, batch int) (MemoryRow, error) {
	c.Data.BatchSize = batch
	t := &Trainer{cfg: c, set: set, dev: dev}
	if err := t.build(); err != nil {
		return MemoryRow{}, err
	}
	m := t.plan()
	return MemoryRow{
		Device: dev.Properties().Kind, Precision: precision, BatchSize: batch,
		PlannedPeakBytes: m.Peak(), ResidentDataBytes: m.ResidentData, Categories: m,
	}, nil
}

// largestBatch finds the largest batch whose plan and data fit, by bisection: the plan grows with the batch.
func largestBatch(c configs.Config, set *data.Set, dev device.Device, precision string, fit int64) (MemoryRow, error) {
	total := func(r MemoryRow) int64 { return r.PlannedPeakBytes + r.ResidentDataBytes }
	best, err := planRow(c, set, dev, precision, 1)
	if err != nil {
		return best, err
	}
	if total(best) > fit {
		return best, &ConfigError{Key: "--fit", Message: fmt.Sprintf("%d bytes are too few: a batch of 1 in %s needs %d", fit, precision, total(best))}
	}
	low, high := 1, len(set.TrainIndex)+1 // low fits, high does not or is more than there is
	for high-low > 1 {
		mid := int(math.Sqrt(float64(low) * float64(high)))
		mid = min(max(mid, low+1), high-1)
		row, err := planRow(c, set, dev, precision, mid)
		if err != nil {
			return best, err
		}
		if total(row) <= fit {
			low, best = mid, row
		} else {
			high = mid
		}
	}
	best.Note = fmt.Sprintf("largest batch in %d bytes", fit)
	if low == len(set.TrainIndex) {
		best.Note = "all training samples fit in one batch"
	}
	return best, nil
}
