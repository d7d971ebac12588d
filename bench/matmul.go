package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"halfstep/device"
	"halfstep/device/devices"
	"halfstep/program"
	"halfstep/trainer"
)

// MatMulOptions say which product to time. Zeros stand for the third post's: 20 x (1000x200)(200x1000).
type MatMulOptions struct {
	Batch, M, K, N int
	DTypes         []string // default: float64, float32, float16, bfloat16
	Device         string   // "": all that are usable
	Runs           int      // timings; 0: 20
}

// MatMulRow is one dtype on one device.
type MatMulRow struct {
	Device        string   `json:"device"`
	DType         string   `json:"dtype"`
	CopyMS        float64  `json:"copy_ms"` // A and B to the device
	CopyGBPerS    float64  `json:"copy_gb_per_s"`
	WarmUpMS      float64  `json:"warm_up_ms"` // the first product
	BestMS        float64  `json:"best_ms"`
	MedianMS      float64  `json:"median_ms"`
	GFLOPS        float64  `json:"gflops"`          // of the best
	PeakGFLOPS    *float64 `json:"peak_gflops"`     // of the dtype's multiply-adds: float16's are float32's on a CPU
	PercentOfPeak *float64 `json:"percent_of_peak"` // of the best
	// MaxError is the largest relative error of some elements of C against a sum in float64 of the same operands.
	MaxError float64 `json:"max_relative_error"`
}

// MatMulResult is a product on all devices.
type MatMulResult struct {
	Batch      int              `json:"batch"`
	M          int              `json:"m"`
	K          int              `json:"k"`
	N          int              `json:"n"`
	GFLOP      float64          `json:"gflop"`
	Runs       int              `json:"runs"`
	Devices    []devices.Usable `json:"devices"` // with their properties
	Missing    []devices.Usable `json:"missing,omitempty"`
	Rows       []MatMulRow      `json:"rows"`
	Conclusion string           `json:"conclusion"`
}

// fill puts in the defaults and refuses what makes no product.
func (o *MatMulOptions) fill() error {
	for _, d := range []struct {
		flag  string
		n     *int
		value int
	}{{"--batch", &o.Batch, 20}, {"--m", &o.M, 1000}, {"--k", &o.K, 200}, {"--n", &o.N, 1000}, {"--runs", &o.Runs, 20}} {
		if *d.n == 0 {
			*d.n = d.value
		}
		if *d.n < 1 || *d.n > 1<<24 {
			return &Error{d.flag, fmt.Sprintf("%d, want 1 to %d", *d.n, 1<<24)}
		}
	}
	if len(o.DTypes) == 0 {
		o.DTypes = []string{"float64", "float32", "float16", "bfloat16"}
	}
	return nil
}

// MatMul times the product in each dtype on each device.
func MatMul(ctx context.Context, o MatMulOptions) (*MatMulResult, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	var dtypes []program.DType
	for _, name := range o.DTypes {
		d, err := program.ParseDType(name)
		if err != nil {
			return nil, &Error{"--dtypes", fmt.Sprintf("%q, want float64, float32, float16 or bfloat16", name)}
		}
		dtypes = append(dtypes, d)
	}
	use, missing, err := choose(o.Device)
	if err != nil {
		return nil, err
	}
	shape := device.MatMulShape{Batch: o.Batch, M: o.M, N: o.N, K: o.K}
	r := &MatMulResult{Batch: o.Batch, M: o.M, K: o.K, N: o.N, Runs: o.Runs, GFLOP: float64(shape.FLOPs()) / 1e9, Devices: use, Missing: missing}
	for _, u := range use {
		rows, err := matMulOn(ctx, u.Name, shape, dtypes, o.Runs)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, rows...)
	}
	r.Conclusion = matMulConclusion(r.Rows)
	return r, nil
}

// matMulOn times all dtypes on one device.
func matMulOn(ctx context.Context, name string, s device.MatMulShape, dtypes []program.DType, runs int) (rows []MatMulRow, err error) {
	dev, err := devices.Open(name, devices.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	b, ok := dev.(device.Benchmarker)
	if !ok {
		return nil, fmt.Errorf("bench: matmul: device %s has no matrix product outside a program", name)
	}
	limits := measurePeaks(dev, dtypes...)
	for _, d := range dtypes {
		s.DType = d
		if need, free := 2*s.Bytes(), trainer.Free(dev); need > free {
			return nil, &Error{"--batch, --m, --k, --n", fmt.Sprintf("%d bytes on host and device in %s, of memory %d are free", need, d, free)}
		}
		row, err := matMulRow(ctx, b, s, runs)
		if err != nil {
			return nil, err
		}
		row.Device, row.PeakGFLOPS = name, limits.of(d)
		row.PercentOfPeak = percent(row.GFLOPS, row.PeakGFLOPS)
		rows = append(rows, *row)
	}
	return rows, nil
}

// matMulRow times one product.
func matMulRow(ctx context.Context, dev device.Benchmarker, s device.MatMulShape, runs int) (row *MatMulRow, err error) {
	a, b := newMatrices(s.DType, s.Batch, s.M, s.K, 1), newMatrices(s.DType, s.Batch, s.K, s.N, 2)
	c := newMatrices(s.DType, s.Batch, s.M, s.N, 0)
	p, err := dev.NewMatMul(s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	once := func(f func() error) (ms float64, err error) {
		start := time.Now()
		err = f()
		return milliseconds(time.Since(start)), err
	}
	upload := func() error { return p.Upload(a.bytes, b.bytes) }
	run := func() error { return p.Run(1) }
	row = &MatMulRow{DType: s.DType.String()}
	// The first copy also makes the system hand out the device's memory; the second is what a copy costs.
	if err := upload(); err != nil {
		return nil, err
	}
	if row.CopyMS, err = once(upload); err != nil {
		return nil, err
	}
	row.CopyGBPerS = ratio(float64(len(a.bytes)+len(b.bytes)), row.CopyMS*1e6)
	if row.WarmUpMS, err = once(run); err != nil {
		return nil, err
	}
	ms := make([]float64, runs)
	for k := range ms {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if ms[k], err = once(run); err != nil {
			return nil, err
		}
	}
	row.BestMS, row.MedianMS = slices.Min(ms), median(ms)
	row.GFLOPS = ratio(float64(s.FLOPs()), row.BestMS*1e6)
	if err := p.Download(c.bytes); err != nil {
		return nil, err
	}
	row.MaxError = productError(s, a, b, c)
	return row, nil
}

// matMulConclusion relates the dtypes of each device to its first row. Rows are ordered by device.
func matMulConclusion(rows []MatMulRow) string {
	var s []string
	var first MatMulRow
	for k, r := range rows {
		if k == 0 || r.Device != first.Device {
			first = r
			if k > 0 {
				before := rows[0]
				s = append(s, fmt.Sprintf("%s is %.2f times as fast on %s as on %s.", r.DType, ratio(before.BestMS, r.BestMS), r.Device, before.Device))
			}
			continue
		}
		s = append(s, fmt.Sprintf("On %s %s is %.2f times as fast as %s.", r.Device, r.DType, ratio(first.BestMS, r.BestMS), first.DType))
	}
	return strings.Join(s, " ")
}
