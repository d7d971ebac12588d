package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/device/devices"
	"halfstep/runs"
	"halfstep/trainer"
)

// tutorialConfig is the net of the second post: three linear layers of 4096, mean squared error, 50 batches of 512, 3 epochs.
const tutorialConfig = "posts/tutorial_mlp"

// TutorialOptions say how long and on what to run.
type TutorialOptions struct {
	Device     string   // "": all that are usable
	NoGraph    bool     // cuda.graph: false
	Precisions []string // of fp32, tf32, fp16, bf16; default: all but tf32, which devices without it leave out
	Steps      int      // stop after so many; 0: all 150
}

// TutorialRow is the training of one precision on one device.
type TutorialRow struct {
	Device         string  `json:"device"`
	Precision      string  `json:"precision"`
	Steps          int     `json:"steps"`
	Seconds        float64 `json:"seconds"`
	MSStep         float64 `json:"ms_step"`
	GFLOPS         float64 `json:"gflops"`
	MemPeak        int64   `json:"mem_peak_bytes"` // without the resident data
	MemPlanned     int64   `json:"mem_planned_bytes"`
	ResidentData   int64   `json:"resident_data_bytes"`
	WarmUpSeconds  float64 `json:"warm_up_seconds"` // building, and a first step, which does not count in Seconds
	FinalLoss      float64 `json:"final_loss"`      // mean over the last epoch
	SkippedSteps   int     `json:"skipped_steps"`
	SpeedUp        float64 `json:"speedup"`      // over the device's first row
	MemoryRatio    float64 `json:"memory_ratio"` // to the device's first row
	FinalLossScale float64 `json:"final_loss_scale"`
}

// TutorialResult compares default and mixed precision.
type TutorialResult struct {
	DataSeconds float64          `json:"data_seconds"` // to draw the random data, the same for all
	Rows        []TutorialRow    `json:"rows"`
	Missing     []devices.Usable `json:"missing,omitempty"`
	Conclusion  string           `json:"conclusion"`
}

// Tutorial trains the tutorial's net in each precision.
func Tutorial(ctx context.Context, o TutorialOptions) (*TutorialResult, error) {
	if o.Steps < 0 {
		return nil, &Error{"--steps", fmt.Sprintf("%d, want at least 1", o.Steps)}
	}
	if len(o.Precisions) == 0 {
		o.Precisions = []string{"fp32", "fp16", "bf16"}
	}
	r, err := configs.Load(tutorialConfig, nil)
	if err != nil {
		return nil, err
	}
	cfg := r.Config
	cfg.MaxSteps, cfg.CUDA.Graph = o.Steps, !o.NoGraph
	settings := make([]configs.Config, len(o.Precisions))
	for k, p := range o.Precisions {
		if settings[k], err = trainer.Precision(cfg, p); err != nil {
			return nil, err
		}
	}
	use, missing, err := choose(o.Device)
	if err != nil {
		return nil, err
	}
	if slices.Contains(o.Precisions, trainer.TF32) && !slices.ContainsFunc(use, hasTF32) {
		return nil, needTF32(use[len(use)-1].Properties)
	}
	start := time.Now()
	set, err := data.Open(cfg.Data, cfg.Seed)
	if err != nil {
		return nil, err
	}
	result := &TutorialResult{DataSeconds: time.Since(start).Seconds(), Missing: missing}
	for _, u := range use {
		for k, c := range settings {
			if o.Precisions[k] == trainer.TF32 && !hasTF32(u) {
				continue
			}
			row, err := tutorialRow(ctx, c, set, u.Name)
			if err != nil {
				return nil, err
			}
			row.Precision = o.Precisions[k]
			result.Rows = append(result.Rows, *row)
		}
	}
	compareRows(result.Rows)
	result.Conclusion = tutorialConclusion(result.Rows)
	return result, nil
}

// tutorialRow trains one configuration after a warm-up of one step.
func tutorialRow(ctx context.Context, c configs.Config, set *data.Set, name string) (row *TutorialRow, err error) {
	dev, err := trainer.OpenNamed(name, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	start := time.Now()
	row = &TutorialRow{Device: name}
	t, err := trainer.New(c, set, dev, trainer.Options{Emit: func(e runs.Event) {
		if epoch, ok := e.(runs.Epoch); ok {
			row.FinalLoss = epoch.TrainLoss
		}
	}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := t.Undisturbed(func() error { return firstStep(ctx, t) }); err != nil {
		return nil, err
	}
	row.WarmUpSeconds = time.Since(start).Seconds()
	fit, err := t.Fit(ctx)
	if err != nil {
		return nil, err
	}
	row.fill(fit, t, dev)
	return row, nil
}

// firstStep runs one step, the cold one.
func firstStep(ctx context.Context, t *trainer.Trainer) error {
	s, err := t.Stepper()
	if err != nil {
		return err
	}
	return s.Run(ctx, 1)
}

func (r *TutorialRow) fill(fit *trainer.Result, t *trainer.Trainer, d device.Device) {
	r.Steps, r.Seconds, r.SkippedSteps, r.FinalLossScale = fit.Steps, fit.Seconds, fit.Skipped, fit.FinalLossScale
	r.MSStep = 1e3 * ratio(r.Seconds, float64(r.Steps))
	r.GFLOPS = ratio(float64(t.FLOPs()), r.MSStep*1e6)
	r.MemPlanned, r.ResidentData = fit.MemPlanned, fit.ResidentData
	r.MemPeak, _ = t.Memory().Measured(d.Memory())
}

// compareRows relates each row to the first of its device.
func compareRows(rows []TutorialRow) {
	var first TutorialRow
	for k := range rows {
		r := &rows[k]
		if k == 0 || r.Device != first.Device {
			first = *r
		}
		r.SpeedUp, r.MemoryRatio = ratio(first.MSStep, r.MSStep), ratio(float64(r.MemPeak), float64(first.MemPeak))
	}
}

// tutorialConclusion says of each device what the other precisions did against the first.
func tutorialConclusion(rows []TutorialRow) string {
	var s []string
	first := ""
	for k, r := range rows {
		if k == 0 || r.Device != rows[k-1].Device {
			first = r.Precision
			continue
		}
		speed := fmt.Sprintf("%.2f times as fast as %s", r.SpeedUp, first)
		memory := fmt.Sprintf("%.0f%% of its memory", 100*r.MemoryRatio)
		s = append(s, fmt.Sprintf("On %s %s is %s, in %s.", r.Device, r.Precision, speed, memory))
	}
	return strings.Join(s, " ")
}
