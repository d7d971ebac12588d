package amp

import (
	"errors"
	"fmt"
	"math"

	"halfstep/configs"
	"halfstep/program"
)

// ErrEmptyState says that a state to be loaded was saved by a disabled GradScaler: a run without loss scaling. Whoever
// resumes such a run with loss scaling starts it afresh.
var ErrEmptyState = errors.New("amp: the state is empty: it was saved with the gradient scaler disabled")

// GradScaler is the host's side of dynamic loss scaling, with PyTorch's names (torch.cuda.amp.GradScaler): the scale to
// start from, and the state of checkpoints. Within a step the device runs the same state machine, program.GradScaler.
// Disabled, its scale is 1, Update does nothing and its state is empty.
type GradScaler struct {
	rule    program.GradScaler
	scale   float32
	tracker int32 // finite steps since the scale last changed
}

// NewGradScaler makes a scaler as configured. With enabled: auto it is enabled where the half type is float16; bfloat16 has
// float32's range and needs no scaling.
func NewGradScaler(c configs.GradScaler, dtype program.DType) *GradScaler {
	enabled := dtype == program.Float16
	switch c.Enabled {
	case "true":
		enabled = true
	case "false":
		enabled = false
	}
	if !enabled {
		return &GradScaler{scale: 1}
	}
	return &GradScaler{
		rule: program.GradScaler{
			Enabled:        true,
			GrowthFactor:   c.GrowthFactor,
			BackoffFactor:  c.BackoffFactor,
			GrowthInterval: int32(c.GrowthInterval),
			MinScale:       c.MinScale,
			MaxScale:       c.MaxScale,
		},
		scale: c.InitScale,
	}
}

// IsEnabled reports whether gradients are scaled.
func (s *GradScaler) IsEnabled() bool { return s.rule.Enabled }

// Rule is the state machine that the device runs.
func (s *GradScaler) Rule() program.GradScaler { return s.rule }

// GetScale is the factor of the next step's loss.
func (s *GradScaler) GetScale() float32 { return s.scale }

// GetGrowthTracker is the number of finite steps since the scale last changed.
func (s *GradScaler) GetGrowthTracker() int32 { return s.tracker }

// AtMinScale reports whether the scale has fallen to its lower bound, so that further overflows cannot lower it. A model
// that keeps overflowing there needs a smaller min_scale.
func (s *GradScaler) AtMinScale() bool {
	return s.rule.Enabled && s.rule.MinScale > 0 && s.scale <= s.rule.MinScale
}

// Update adjusts the scale after a step, as torch's update() does.
func (s *GradScaler) Update(foundInf bool) {
	s.scale, s.tracker = s.rule.Update(s.scale, s.tracker, foundInf)
}

// SetScale sets the scale and leaves the growth tracker alone, as torch's update(new_scale) does. Disabled, it does nothing.
func (s *GradScaler) SetScale(scale float32) {
	if s.rule.Enabled {
		s.scale = scale
	}
}

// Sync takes over what the device holds: the loss scale and counter program.CounterGrowthTracker.
func (s *GradScaler) Sync(scale float32, growthTracker int32) {
	if s.rule.Enabled {
		s.scale, s.tracker = scale, growthTracker
	}
}

// The keys of the state.
const (
	keyScale          = "scale"
	keyGrowthFactor   = "growth_factor"
	keyBackoffFactor  = "backoff_factor"
	keyGrowthInterval = "growth_interval"
	keyGrowthTracker  = "_growth_tracker"
)

// StateDict is the state by PyTorch's keys: scale, growth_factor, backoff_factor, growth_interval, _growth_tracker. Every
// value is exact as a float64. Disabled, it is empty.
func (s *GradScaler) StateDict() map[string]float64 {
	if !s.rule.Enabled {
		return map[string]float64{}
	}
	return map[string]float64{
		keyScale:          float64(s.scale),
		keyGrowthFactor:   float64(s.rule.GrowthFactor),
		keyBackoffFactor:  float64(s.rule.BackoffFactor),
		keyGrowthInterval: float64(s.rule.GrowthInterval),
		keyGrowthTracker:  float64(s.tracker),
	}
}

// LoadStateDict restores a state; as in PyTorch the factors and the interval come from it too, while the bounds stay as
// configured. Disabled, it does nothing. An empty state is ErrEmptyState; a missing key or an impossible value is an error
// that names it. After an error the scaler is as before.
func (s *GradScaler) LoadStateDict(state map[string]float64) error {
	if !s.rule.Enabled {
		return nil
	}
	if len(state) == 0 {
		return ErrEmptyState
	}
	for _, k := range []struct {
		key               string
		smallest, largest float64
	}{
		{keyScale, math.SmallestNonzeroFloat32, math.MaxFloat32},
		{keyGrowthFactor, math.SmallestNonzeroFloat32, math.MaxFloat32},
		{keyBackoffFactor, math.SmallestNonzeroFloat32, math.MaxFloat32},
		{keyGrowthInterval, 1, math.MaxInt32},
		{keyGrowthTracker, 0, math.MaxInt32},
	} {
		v, ok := state[k.key]
		if !ok {
			return fmt.Errorf("amp: gradient scaler's state: %s is missing", k.key)
		}
		if !(v >= k.smallest && v <= k.largest) { // NaN is neither
			return fmt.Errorf("amp: gradient scaler's state: %s is %v, want %v to %v", k.key, v, k.smallest, k.largest)
		}
	}
	s.scale, s.tracker = float32(state[keyScale]), int32(state[keyGrowthTracker])
	s.rule.GrowthFactor = float32(state[keyGrowthFactor])
	s.rule.BackoffFactor = float32(state[keyBackoffFactor])
	s.rule.GrowthInterval = int32(state[keyGrowthInterval])
	return nil
}
