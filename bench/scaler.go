package bench

import (
	"context"
	"errors"
	"fmt"
	"math"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/runs"
	"halfstep/trainer"
)

// scalerOverrides provoke overflow: a loss scale that float16 cannot bear, which then grows again every 20 steps.
var scalerOverrides = []string{
	"epochs=1", "max_steps=200", "amp.enabled=true", "amp.dtype=float16", "amp.grad_scaler.enabled=true",
	"amp.grad_scaler.init_scale=16777216", "amp.grad_scaler.max_scale=0", "amp.grad_scaler.growth_interval=20",
}

// ScalerOverrides are the settings that Scaler is meant to run with; the user's own come after them.
func ScalerOverrides() []string { return append([]string(nil), scalerOverrides...) }

// ScaleRow is one change of the loss scale.
type ScaleRow struct {
	Step           int     `json:"step"`
	Cause          string  `json:"cause"` // growth | backoff | min_scale
	Before         float64 `json:"loss_scale_before"`
	After          float64 `json:"loss_scale"`
	FirstBadTensor string  `json:"first_bad_tensor,omitempty"` // of a skipped step
}

// ScalerResult is the path of the loss scale.
type ScalerResult struct {
	Config     string     `json:"config"`
	Steps      int        `json:"steps"`
	Skipped    int        `json:"skipped_steps"`
	InitScale  float64    `json:"init_scale"`
	FinalScale float64    `json:"final_loss_scale"`
	Changes    []ScaleRow `json:"changes"`
	Conclusion string     `json:"conclusion"`
}

// Scaler trains and follows the loss scale. The result is valid, as far as training came, also with an error.
func Scaler(ctx context.Context, r *configs.Resolved) (result *ScalerResult, err error) {
	set, err := data.Open(r.Config.Data, r.Config.Seed)
	if err != nil {
		return nil, err
	}
	dev, _, err := trainer.OpenDevice(r.Config, set)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	result = &ScalerResult{Config: r.Config.Name, InitScale: float64(r.Config.AMP.GradScaler.InitScale)}
	t, err := trainer.New(r.Config, set, dev, trainer.Options{Emit: result.note})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	fit, err := t.Fit(ctx)
	result.Steps, result.Skipped, result.FinalScale = fit.Steps, fit.Skipped, fit.FinalLossScale
	result.Conclusion = scalerConclusion(result)
	return result, err
}

// note keeps what an event says about the scale. The event of a skipped step comes just before that of its change.
func (r *ScalerResult) note(e runs.Event) {
	switch e := e.(type) {
	case runs.SkippedStep:
		r.Changes = append(r.Changes, ScaleRow{Step: e.Step, FirstBadTensor: e.FirstBadTensor})
	case runs.ScaleChange:
		n := len(r.Changes)
		if n == 0 || r.Changes[n-1].Step != e.Step || r.Changes[n-1].Cause != "" {
			r.Changes = append(r.Changes, ScaleRow{Step: e.Step})
			n++
		}
		c := &r.Changes[n-1]
		c.Cause, c.Before, c.After = e.Cause, e.LossScaleBefore, e.LossScale
	}
}

// scalerConclusion sums up the path in a few sentences.
func scalerConclusion(r *ScalerResult) string {
	if r.Skipped == 0 {
		return fmt.Sprintf("No gradient overflowed in %d steps; the loss scale went from %s to %s.", r.Steps, Power(r.InitScale), Power(r.FinalScale))
	}
	var first ScaleRow
	grown := 0
	highest, lowest := r.InitScale, r.InitScale
	for _, c := range r.Changes {
		if c.Cause == "growth" {
			grown++
		} else if first.Step == 0 {
			first = c
		}
		highest, lowest = math.Max(highest, c.After), math.Min(lowest, c.After)
	}
	return fmt.Sprintf("%d of %d steps were skipped: their gradients overflowed, and nothing changed but the scale. The first was step %d at %s, where %s overflowed first. "+
		"The scale grew %d times, moved between %s and %s, and ended at %s.",
		r.Skipped, r.Steps, first.Step, Power(first.Before), first.FirstBadTensor, grown, Power(lowest), Power(highest), Power(r.FinalScale))
}

// Power writes powers of two as such: 2^16.
func Power(x float64) string {
	if mantissa, e := math.Frexp(x); mantissa == 0.5 {
		return fmt.Sprintf("2^%d", e-1)
	}
	return fmt.Sprintf("%g", x)
}
