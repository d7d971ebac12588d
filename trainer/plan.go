package trainer

import (
	"fmt"
	"math"

	"halfstep/amp"
	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/device/devices"
	"halfstep/program"
)

// MemoryOptions say what to plan. Empty lists stand for the configuration's own value.
type MemoryOptions struct {
	Precisions []string
	BatchSizes []int
	Fit        int64 // bytes; 0: do not look for the largest batch
}

// MemoryRow is the planned memory of one precision and batch size.
type MemoryRow struct {
	Precision         string     `json:"precision"`
	BatchSize         int        `json:"batch_size"`
	PlannedPeakBytes  int64      `json:"planned_peak_bytes"`
	ResidentDataBytes int64      `json:"resident_data_bytes"`
	Categories        amp.Memory `json:"categories"`
	Note              string     `json:"note,omitempty"` // "largest batch in 8589934592 bytes"
}

// shortNames are the precisions as the command line has them.
var shortNames = map[program.DType]string{program.Float32: "fp32", program.Float16: "fp16", program.BFloat16: "bf16"}

// Precision changes a configuration to compute in fp32, fp16 or bf16.
func Precision(c configs.Config, name string) (configs.Config, error) {
	d, err := program.ParseDType(name)
	if err != nil || !d.Float() {
		return c, &ConfigError{Key: "--precision", Message: fmt.Sprintf("%q, want fp32, fp16 or bf16", name)}
	}
	c.AMP.Enabled = d.Half()
	if d.Half() {
		c.AMP.DType = d.String()
	}
	return c, nil
}

// PlanMemory plans each precision and batch size without running anything; the data is opened for its size only.
func PlanMemory(r *configs.Resolved, o MemoryOptions) ([]MemoryRow, error) {
	set, err := data.Open(r.Config.Data, r.Config.Seed)
	if err != nil {
		return nil, err
	}
	name := r.Config.Device
	if name == "auto" {
		name = "cpu"
	}
	dev, err := devices.Open(name, r.Config.Threads)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	if len(o.Precisions) == 0 {
		d, err := DTypeOf(r.Config)
		if err != nil {
			return nil, err
		}
		o.Precisions = []string{shortNames[d]}
	}
	if len(o.BatchSizes) == 0 {
		o.BatchSizes = []int{r.Config.Data.BatchSize}
	}
	var rows []MemoryRow
	for _, p := range o.Precisions {
		c, err := Precision(r.Config, p)
		if err != nil {
			return nil, err
		}
		for _, b := range o.BatchSizes {
			row, err := planRow(c, set, dev, p, b)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
		if o.Fit > 0 {
			row, err := largestBatch(c, set, dev, p, o.Fit)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
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
	return MemoryRow{Precision: precision, BatchSize: batch, PlannedPeakBytes: m.Peak(), ResidentDataBytes: m.ResidentData, Categories: m}, nil
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
