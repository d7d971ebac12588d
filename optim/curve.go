package optim

import (
	"fmt"
	"math"

	"halfstep/configs"
)

// curve is a schedule in closed form: learning rate and momentum (NaN when not cycled) at position t, from 0.
type curve func(t int) (lr, momentum float64)

// newCurve makes the configured curve over total positions.
func newCurve(c configs.Optim, total int) (curve, error) {
	sch, lr := c.Schedule, c.LR
	switch sch.Name {
	case "", "constant":
		return rate(func(int) float64 { return lr }), nil
	case "step":
		if sch.StepSize < 1 {
			return nil, fmt.Errorf("step_size %d, want at least 1", sch.StepSize)
		}
		return rate(func(t int) float64 { return lr * math.Pow(sch.Gamma, float64(t/sch.StepSize)) }), nil
	case "multistep":
		return rate(func(t int) float64 { return lr * math.Pow(sch.Gamma, float64(passed(sch.Milestones, t))) }), nil
	case "exponential":
		return rate(func(t int) float64 { return lr * math.Pow(sch.Gamma, float64(t)) }), nil
	case "cosine":
		return cosine(c, total)
	case "linear_warmup":
		return rate(func(t int) float64 { return lr * warmup(sch, t) }), nil
	case "one_cycle":
		return oneCycle(sch, total)
	}
	return nil, fmt.Errorf("unknown: want constant, step, multistep, exponential, cosine, linear_warmup, one_cycle or plateau")
}

// rate is a curve that leaves the momentum alone.
func rate(lr func(t int) float64) curve {
	return func(t int) (float64, float64) { return lr(t), math.NaN() }
}

// passed counts the milestones at or before t.
func passed(milestones []int, t int) int {
	n := 0
	for _, m := range milestones {
		if m <= t {
			n++
		}
	}
	return n
}

// warmup is the factor of torch's LinearLR: from WarmupFactor to 1 over Warmup positions, then 1.
func warmup(sch configs.Schedule, t int) float64 {
	if t >= sch.Warmup {
		return 1
	}
	return sch.WarmupFactor + (1-sch.WarmupFactor)*float64(t)/float64(sch.Warmup)
}

// cosine is torch's CosineAnnealingLR over what the warm-up leaves of total, from lr to EtaMin (Loshchilov and Hutter,
// "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017), after a linear warm-up, joined as SequentialLR joins them.
func cosine(c configs.Optim, total int) (curve, error) {
	sch, span := c.Schedule, total-c.Schedule.Warmup
	if span < 1 {
		return nil, fmt.Errorf("warmup %d leaves nothing of %d positions", sch.Warmup, total)
	}
	return rate(func(t int) float64 {
		if t < sch.Warmup {
			return c.LR * warmup(sch, t)
		}
		return cosineBetween(c.LR, sch.EtaMin, float64(t-sch.Warmup)/float64(span))
	}), nil
}

// oneCycle is torch's OneCycleLR in two phases: up from MaxLR/DivFactor to MaxLR until PctStart of total, then down to
// MaxLR/DivFactor/FinalDiv (Smith and Topin, "Super-Convergence", 2019). The momentum goes the other way.
func oneCycle(sch configs.Schedule, total int) (curve, error) {
	var between func(a, b, share float64) float64
	switch sch.Anneal {
	case "", "cos":
		between = cosineBetween
	case "linear":
		between = linearBetween
	default:
		return nil, fmt.Errorf("anneal: %q, want cos or linear", sch.Anneal)
	}
	if !(sch.DivFactor > 0 && sch.FinalDiv > 0) {
		return nil, fmt.Errorf("div_factor %v and final_div_factor %v, want both above 0", sch.DivFactor, sch.FinalDiv)
	}
	first := sch.MaxLR / sch.DivFactor
	last := first / sch.FinalDiv
	peak, end := sch.PctStart*float64(total)-1, float64(total-1) // positions where the phases end; peak need not be whole
	return func(t int) (float64, float64) {
		x := min(float64(t), end)
		lr, momentum := 0.0, math.NaN()
		if x <= peak {
			s := share(x, 0, peak)
			lr = between(first, sch.MaxLR, s)
			if sch.CycleMomentum {
				momentum = between(sch.MaxMomentum, sch.BaseMomentum, s)
			}
		} else {
			s := share(x, peak, end)
			lr = between(sch.MaxLR, last, s)
			if sch.CycleMomentum {
				momentum = between(sch.BaseMomentum, sch.MaxMomentum, s)
			}
		}
		return lr, momentum
	}, nil
}

// share is how much of [a,b] lies before x; an empty interval is behind.
func share(x, a, b float64) float64 {
	if a == b {
		return 1
	}
	return (x - a) / (b - a)
}

func linearBetween(a, b, share float64) float64 { return a + (b-a)*share }

func cosineBetween(a, b, share float64) float64 { return b + (a-b)/2*(1+math.Cos(math.Pi*share)) }
