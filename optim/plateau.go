package optim

import (
	"fmt"
	"math"

	"halfstep/configs"
)

// minDecay is torch's default eps: a smaller change of the learning rate is not made.
const minDecay = 1e-8

// PlateauState is the state of plateau.
type PlateauState struct {
	LR        float64  `json:"lr"`
	Best      *float64 `json:"best"` // null before the first epoch
	BadEpochs int      `json:"bad_epochs"`
	Cooldown  int      `json:"cooldown"` // epochs left in which bad ones do not count
}

// plateau is torch's ReduceLROnPlateau: the rate is multiplied by Factor when the metric has not improved for more than
// Patience epochs.
type plateau struct {
	PlateauState
	schedule configs.Schedule
	better   func(metric, best float64) bool
}

func newPlateau(c configs.Optim) (*plateau, error) {
	sch := c.Schedule
	var sign float64 // of improvement
	switch sch.Monitor {
	case "val_loss":
		sign = -1
	case "val_accuracy":
		sign = 1
	default:
		return nil, fmt.Errorf("monitor: %q, want val_loss or val_accuracy", sch.Monitor)
	}
	p := &plateau{PlateauState: PlateauState{LR: c.LR}, schedule: sch}
	switch sch.ThresholdMode {
	case "", "rel":
		p.better = func(metric, best float64) bool { return sign*metric > sign*(best*(1+sign*sch.Threshold)) }
	case "abs":
		p.better = func(metric, best float64) bool { return sign*metric > sign*(best+sign*sch.Threshold) }
	default:
		return nil, fmt.Errorf("threshold_mode: %q, want rel or abs", sch.ThresholdMode)
	}
	return p, nil
}

// step ends an epoch. A metric that is not finite is no improvement.
func (p *plateau) step(metric float64) {
	finite := !math.IsNaN(metric) && !math.IsInf(metric, 0)
	if finite && (p.Best == nil || p.better(metric, *p.Best)) {
		p.Best = &metric
		p.BadEpochs = 0
	} else {
		p.BadEpochs++
	}
	if p.Cooldown > 0 {
		p.Cooldown--
		p.BadEpochs = 0
	}
	if p.BadEpochs <= p.schedule.Patience {
		return
	}
	p.Cooldown, p.BadEpochs = p.schedule.Cooldown, 0
	if lr := max(p.LR*p.schedule.Factor, p.schedule.MinLR); p.LR-lr > minDecay {
		p.LR = lr
	}
}
