package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/trainer"
)

// CompareOptions say what Compare compares: every precision with every batch size. Empty lists and zeros stand for the
// configuration's own values, and for one seed.
type CompareOptions struct {
	Precisions []string // fp32, tf32, fp16, bf16
	BatchSizes []int
	Epochs     int
	Seeds      int          // runs of each row, with the configuration's seed and those after it
	Progress   func(string) // is told what is at hand; nil: nobody is
}

// CompareRow is one precision at one batch size. A figure that does not exist, such as the spread of a single accuracy, is
// nil.
type CompareRow struct {
	Precision  string  `json:"precision"`
	BatchSize  int     `json:"batch_size"`
	Seconds    float64 `json:"seconds"`      // of a run: training and evaluation without start and warm-up; mean over the seeds
	ImagesPerS float64 `json:"images_per_s"` // in training

	// The phases of a step are medians of steps that are profiled apart from the run. The update includes metrics.
	MSInput    float64 `json:"ms_input"`
	MSForward  float64 `json:"ms_forward"`
	MSBackward float64 `json:"ms_backward"`
	MSUpdate   float64 `json:"ms_update"`

	MemPeakBytes    int64    `json:"mem_peak_bytes"` // measured, resident data apart
	MSEvaluation    *float64 `json:"ms_evaluation"`  // of the evaluation after an epoch
	MemPlannedBytes int64    `json:"mem_planned_bytes"`
	MemoryRatio     float64  `json:"memory_ratio"` // of the measured peak to the first row's
	AccuracyMean    *float64 `json:"test_accuracy_mean"`
	AccuracyStd     *float64 `json:"test_accuracy_std"` // sample standard deviation over the seeds
	SkippedSteps    float64  `json:"skipped_steps"`     // of a run; mean over the seeds
	FinalLossScale  float64  `json:"final_loss_scale"`  // of the last seed
	Speedup         float64  `json:"speedup"`           // the first row's seconds over this one's
	BoundBy         string   `json:"bound_by"`          // input | memory bandwidth | arithmetic | launch overhead

	MSStep                float64     `json:"ms_step"`                   // in training, all included
	SecondsNotResident    *float64    `json:"seconds_not_resident"`      // what the run costs with data.resident: false
	ImagesPerSNotResident *float64    `json:"images_per_s_not_resident"` // in training
	Shares                BoundShares `json:"bound_shares"`
	Verdict               string      `json:"verdict"`
	Error                 string      `json:"error,omitempty"` // training diverged
}

// Comparison is the outcome of Compare.
type Comparison struct {
	Config, Device string
	Epochs, Seeds  int
	TookTurns      bool // else memory was too small for all rows at once, and each ran alone
	Machine        string
	Rows           []CompareRow
	Err            error // of the first row that diverged
}

// comparison is a Compare under way.
type comparison struct {
	CompareOptions
	cfg    configs.Config
	set    *data.Set
	dev    device.Device // the first row's
	opened []device.Device
	limits *limits
	rows   []*contender
}

// Compare trains a configuration in every precision at every batch size and tells what each costs and what bounds it. The
// rows take turns within each epoch, in alternating order, so that a machine that changes its speed meets all alike.
// Everything that can be refused is, before anything runs. A row that diverges is told and does not end the others.
func Compare(ctx context.Context, r *configs.Resolved, o CompareOptions) (*Comparison, error) {
	c, err := newComparison(r, o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	groups := c.groups()
	for seed := range c.Seeds {
		for _, g := range groups {
			if err := c.run(ctx, g, seed); err != nil {
				return nil, err
			}
		}
	}
	return c.outcome(len(groups) == 1), nil
}

func newComparison(r *configs.Resolved, o CompareOptions) (*comparison, error) {
	c := &comparison{CompareOptions: o, cfg: r.Config}
	if err := c.settle(); err != nil {
		return nil, err
	}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.limits = newLimits(c.dev)
	for _, k := range c.rows {
		c.limits.need(k.planned.Peak())
		if k.precision == trainer.TF32 {
			c.limits.tf32 = k.dev
		} else {
			c.limits.dev = k.dev
		}
	}
	return c, nil
}

// open opens data and device, and plans the rows.
func (c *comparison) open() (err error) {
	if c.set, err = data.Open(c.cfg.Data, c.cfg.Seed); err != nil {
		return err
	}
	if err := c.openDevices(); err != nil {
		return err
	}
	for _, k := range c.rows {
		if err := k.plan(c.set); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	return nil
}

// openDevices opens the device that all rows run on. How it multiplies float32 is a setting of a device as a whole: rows that
// differ in it have one each, on the same GPU and in the same memory.
func (c *comparison) openDevices() error {
	first := &c.rows[0].cfg
	asked := slices.Contains(c.Precisions, trainer.TF32)
	onlyGPU := asked && first.Device == "auto" // the CPU is no choice
	if onlyGPU {
		first.Device = "cuda"
	}
	d, choice, err := trainer.OpenDevice(*first, c.set)
	switch {
	case err != nil && onlyGPU:
		return &Error{"--precision", fmt.Sprintf("tf32 needs an NVIDIA GPU of compute capability 8.0 or later, and here is none: %v; leave tf32 out", err)}
	case err != nil:
		return err
	}
	c.dev, c.opened = d, []device.Device{d}
	if asked {
		if err := needTF32(d.Properties()); err != nil {
			return err
		}
	}
	name := first.Device
	if choice != nil {
		name = choice.Device
	}
	for _, k := range c.rows {
		k.dev = d
		if k.cfg.CUDA == first.CUDA {
			continue
		}
		if len(c.opened) == 1 {
			other, err := trainer.OpenNamed(name, k.cfg)
			if err != nil {
				return err
			}
			c.opened = append(c.opened, other)
		}
		k.dev = c.opened[1]
	}
	return nil
}

func (c *comparison) close() error {
	var errs []error
	for _, d := range c.opened {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

func (c *comparison) say(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// settle fills in what was left open and makes the rows.
func (c *comparison) settle() error {
	for _, k := range []struct {
		flag      string
		value     *int
		otherwise int
	}{{"--epochs", &c.Epochs, c.cfg.Epochs}, {"--seeds", &c.Seeds, 1}} {
		if *k.value < 0 {
			return &Error{k.flag, fmt.Sprintf("%d, want at least 1", *k.value)}
		}
		if *k.value == 0 {
			*k.value = k.otherwise
		}
	}
	c.cfg.Epochs = c.Epochs
	if len(c.BatchSizes) == 0 {
		c.BatchSizes = []int{c.cfg.Data.BatchSize}
	}
	if len(c.Precisions) == 0 {
		return c.add(c.cfg)
	}
	for _, p := range c.Precisions {
		cfg, err := trainer.Precision(c.cfg, p)
		if err != nil {
			return err
		}
		if err := c.add(cfg); err != nil {
			return err
		}
	}
	return nil
}

// add makes the rows of one precision.
func (c *comparison) add(cfg configs.Config) error {
	d, err := trainer.DTypeOf(cfg)
	if err != nil {
		return err
	}
	for _, b := range c.BatchSizes {
		if b < 1 {
			return &Error{"--batch-sizes", fmt.Sprintf("%d, want at least 1", b)}
		}
		k := &contender{batch: b, dtype: d, cfg: cfg}
		k.cfg.Data.BatchSize = b
		c.rows = append(c.rows, k)
	}
	return nil
}

// groups are the rows that take turns: all, or each alone where memory does not hold all at once.
func (c *comparison) groups() [][]*contender {
	var need int64
	for _, k := range c.rows {
		need += k.planned.Peak() + k.planned.ResidentData
	}
	if need < trainer.Free(c.dev)/10*9 {
		return [][]*contender{c.rows}
	}
	var alone [][]*contender
	for _, k := range c.rows {
		alone = append(alone, []*contender{k})
	}
	return alone
}

// outcome sums up.
func (c *comparison) outcome(tookTurns bool) *Comparison {
	p := c.dev.Properties()
	r := &Comparison{
		Config: c.cfg.Name, Device: fmt.Sprintf("%s (%s, %d threads)", p.Name, p.ISA, p.Threads), Epochs: c.Epochs, Seeds: c.Seeds,
		TookTurns: tookTurns, Machine: c.limits.String() + c.busy(),
	}
	for _, k := range c.rows {
		row := k.row()
		if len(r.Rows) > 0 {
			row.Speedup = ratio(r.Rows[0].Seconds, row.Seconds)
			row.MemoryRatio = ratio(float64(row.MemPeakBytes), float64(r.Rows[0].MemPeakBytes))
		} else {
			row.Speedup, row.MemoryRatio = 1, 1
		}
		if k.diverged != nil {
			row.Error, row.Verdict = k.diverged.Error(), fmt.Sprintf("%s diverged: %v.", k, k.diverged)
			if r.Err == nil {
				r.Err = fmt.Errorf("%s: %w", k, k.diverged)
			}
		} else {
			row.Shares = k.evidence.shares()
			row.BoundBy = row.Shares.largest()
			row.Verdict = c.verdict(k)
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// busyFrom is how many times its shortest time a step takes on average on a machine that does other things too.
const busyFrom = 1.25

// busy is a warning where the machine did other things meanwhile.
func (c *comparison) busy() string {
	var slower []float64
	for _, k := range c.rows {
		if k.fastest > 0 {
			slower = append(slower, k.training/float64(k.updates)/k.fastest)
		}
	}
	if m := median(slower); m > busyFrom {
		return fmt.Sprintf(" The machine was busy: steps took %.1fx their shortest time on average, so that shares and rates are rough.", m)
	}
	return ""
}

// verdict tells what bounds a row and, of one in less than float32, what it gains over that at the same batch size.
func (c *comparison) verdict(k *contender) string {
	text := k.evidence.bound()
	for _, other := range c.rows {
		if k.precision != fp32 && other.precision == fp32 && other.batch == k.batch && other.diverged == nil {
			text += " " + gain(other.evidence, k.evidence)
		}
	}
	return text
}
