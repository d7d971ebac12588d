package program

import "math"

// GradScaler is dynamic loss scaling (Micikevicius et al., "Mixed Precision Training", 2018; rule and names of PyTorch's
// torch.cuda.amp.GradScaler, with bounds on the scale added). The zero value is disabled: the scale stays as it is.
type GradScaler struct {
	Enabled        bool
	GrowthFactor   float32
	BackoffFactor  float32
	GrowthInterval int32
	MinScale       float32 // the scale never falls below; 0: no bound
	MaxScale       float32 // the scale never grows above; 0: the largest finite float32 only
}

// Update is one step of the state machine: after a step with a gradient that was not finite the scale backs off and the
// tracker restarts; after GrowthInterval finite steps in a row it grows, unless the product is not finite or above
// MaxScale (the tracker restarts all the same).
func (s GradScaler) Update(scale float32, tracker int32, foundInf bool) (newScale float32, newTracker int32) {
	if !s.Enabled {
		return scale, tracker
	}
	if foundInf {
		// Below 2^-126 the inverse of the scale would overflow and no step could ever be finite again.
		floor := max(s.MinScale, 0x1p-126)
		return max(scale*s.BackoffFactor, min(scale, floor)), 0
	}
	tracker++
	if tracker < s.GrowthInterval {
		return scale, tracker
	}
	grown := scale * s.GrowthFactor
	if math.IsInf(float64(grown), 0) || (s.MaxScale > 0 && grown > s.MaxScale) {
		return scale, 0
	}
	return grown, 0
}

// InverseScale is the factor that unscales gradients: float32(1/float64(scale)).
func InverseScale(scale float32) float32 { return float32(1 / float64(scale)) }
