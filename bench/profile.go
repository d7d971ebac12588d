package bench

import (
	"context"
	"slices"

	"halfstep/program"
	"halfstep/trainer"
)

// InstrRow is one instruction of a profiled step.
type InstrRow struct {
	Phase         string   `json:"phase"`
	Layer         string   `json:"layer"`
	Op            string   `json:"op"`
	DType         string   `json:"dtype"` // of what it writes
	MS            float64  `json:"ms"`
	Share         float64  `json:"share"` // of the step, 0..1
	FLOPs         int64    `json:"flops"`
	GFLOPS        float64  `json:"gflops"`
	PercentOfPeak *float64 `json:"percent_of_peak"` // of the float32 peak; nil without FLOPs or peak
}

// profile runs a few steps instruction by instruction and takes the median of each.
func profile(ctx context.Context, t *trainer.Trainer, peak *float64) ([]InstrRow, error) {
	p, err := t.Profile(ctx, profileSteps)
	if err != nil {
		return nil, err
	}
	ns := make([]float64, len(p.Instrs)+1)
	for k := range ns {
		var times []float64
		for _, step := range p.Times {
			times = append(times, step[k])
		}
		ns[k] = median(times)
	}
	return profileRows(p.Instrs, p.Runs, ns, peak), nil
}

// profileRows makes the table of instructions, each run so often in a step, from their nanoseconds; the last time is that of
// making batches on the host, which is a row of its own where it is not 0.
func profileRows(instrs []*program.Instr, runs []int, ns []float64, peak *float64) []InstrRow {
	total := 0.0
	for _, t := range ns {
		total += t
	}
	var rows []InstrRow
	if host := ns[len(instrs)]; host > 0 {
		rows = append(rows, InstrRow{Phase: program.Input.String(), Op: "host", MS: host / 1e6, Share: ratio(host, total)})
	}
	for k, i := range instrs {
		r := InstrRow{
			Phase: i.Phase.String(), Layer: i.Layer, Op: i.Op.Name(), DType: writes(i),
			MS: ns[k] / 1e6, Share: ratio(ns[k], total), FLOPs: int64(runs[k]) * instrFLOPs(i),
		}
		if r.FLOPs > 0 {
			r.GFLOPS = ratio(float64(r.FLOPs), ns[k])
			r.PercentOfPeak = percent(r.GFLOPS, peak)
		}
		rows = append(rows, r)
	}
	return rows
}

// writes is the dtype of an instruction's first result.
func writes(i *program.Instr) string {
	for _, values := range [][]*program.Value{i.Out, i.InOut} {
		if len(values) > 0 {
			return values[0].DType.String()
		}
	}
	return ""
}

// PhaseTotals sums up rows by phase, in order of appearance.
func PhaseTotals(rows []InstrRow) []InstrRow {
	var totals []InstrRow
	for _, r := range rows {
		k := slices.IndexFunc(totals, func(t InstrRow) bool { return t.Phase == r.Phase })
		if k < 0 {
			k = len(totals)
			totals = append(totals, InstrRow{Phase: r.Phase})
		}
		t := &totals[k]
		t.MS += r.MS
		t.Share += r.Share
		t.FLOPs += r.FLOPs
		t.GFLOPS = ratio(float64(t.FLOPs), t.MS*1e6)
	}
	return totals
}
