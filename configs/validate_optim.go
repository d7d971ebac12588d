package configs

import "reflect"

func (v *validator) optim(o *Optim) {
	if !v.variant("optim.name", o.Name, reflect.TypeFor[Optim]()) {
		return
	}
	positive(v, "optim.lr", o.LR)
	atLeast(v, "optim.weight_decay", o.WeightDecay, 0)
	atLeast(v, "optim.clip_grad_norm", o.ClipGradNorm, 0)
	atLeast(v, "optim.accumulate", o.Accumulate, 1)
	atLeast(v, "optim.eps", o.Eps, 0)
	switch o.Name {
	case "sgd":
		within(v, "optim.momentum", o.Momentum, 0, 1)
		within(v, "optim.dampening", o.Dampening, 0, 1)
		if o.Nesterov && (o.Momentum == 0 || o.Dampening != 0) {
			v.problem("optim.nesterov", "needs momentum above 0 and dampening 0")
		}
	case "adam", "adamw":
		below(v, "optim.beta1", o.Beta1, 0, 1)
		below(v, "optim.beta2", o.Beta2, 0, 1)
	case "adadelta":
		within(v, "optim.rho", o.Rho, 0, 1)
	case "rmsprop":
		within(v, "optim.alpha", o.Alpha, 0, 1)
		within(v, "optim.momentum", o.Momentum, 0, 1)
	case "adagrad":
		atLeast(v, "optim.lr_decay", o.LRDecay, 0)
	}
}

func (v *validator) schedule(c *Config) {
	s, key := &c.Optim.Schedule, "optim.schedule."
	if !v.variant(key+"name", s.Name, reflect.TypeFor[Schedule]()) {
		return
	}
	v.oneOf(key+"per", s.Per, "epoch", "update")
	switch s.Name {
	case "step":
		v.needed(key+"step_size", s.StepSize, s.Name)
		positive(v, key+"gamma", s.Gamma)
	case "multistep":
		v.milestones(key+"milestones", s.Milestones)
		positive(v, key+"gamma", s.Gamma)
	case "exponential":
		v.neededRate(key+"gamma", s.Gamma, s.Name)
	case "cosine":
		atLeast(v, key+"eta_min", s.EtaMin, 0)
		atLeast(v, key+"warmup", s.Warmup, 0)
		v.warmupFactor(key+"warmup_factor", s.WarmupFactor)
	case "linear_warmup":
		atLeast(v, key+"warmup", s.Warmup, 1)
		v.warmupFactor(key+"warmup_factor", s.WarmupFactor)
	case "one_cycle":
		v.oneCycle(&c.Optim, key)
	case "plateau":
		v.plateau(c, key)
	}
}

func (v *validator) milestones(key string, m []int) {
	if len(m) == 0 {
		v.problem(key, "multistep needs them, such as [30, 80]")
	}
	for i, position := range m {
		if position < 1 || i > 0 && position <= m[i-1] {
			v.problem(key, "want them ascending from 1 on, got %v", m)
			return
		}
	}
}

// neededRate checks a positive number that has no default.
func (v *validator) neededRate(key string, got float64, owner string) {
	if _, written := v.at[key]; got == 0 && !written {
		v.problem(key, "%s needs it, more than 0", owner)
		return
	}
	positive(v, key, got)
}

func (v *validator) warmupFactor(key string, got float64) {
	if got <= 0 || got > 1 {
		v.problem(key, "want more than 0 and at most 1, got %v", got)
	}
}

func (v *validator) oneCycle(o *Optim, key string) {
	s := &o.Schedule
	v.neededRate(key+"max_lr", s.MaxLR, s.Name)
	if s.PctStart <= 0 || s.PctStart >= 1 {
		v.problem(key+"pct_start", "want more than 0 and less than 1, got %v", s.PctStart)
	}
	v.oneOf(key+"anneal", s.Anneal, "cos", "linear")
	positive(v, key+"div_factor", s.DivFactor)
	positive(v, key+"final_div_factor", s.FinalDiv)
	below(v, key+"base_momentum", s.BaseMomentum, 0, 1)
	below(v, key+"max_momentum", s.MaxMomentum, 0, 1)
	if s.BaseMomentum > s.MaxMomentum {
		v.problem(key+"base_momentum", "is %v, above max_momentum %v", s.BaseMomentum, s.MaxMomentum)
	}
	if s.CycleMomentum && (o.Name == "adadelta" || o.Name == "adagrad") {
		v.problem(key+"cycle_momentum", "%s has no momentum to cycle; set it to false", o.Name)
	}
}

func (v *validator) plateau(c *Config, key string) {
	s := &c.Optim.Schedule
	v.needsValidation(key+"name", c)
	v.oneOf(key+"monitor", s.Monitor, "val_loss", "val_accuracy")
	if s.Monitor == "val_accuracy" && c.Data.Name == "random" {
		v.problem(key+"monitor", "random targets have no accuracy; use val_loss")
	}
	if s.Factor <= 0 || s.Factor >= 1 {
		v.problem(key+"factor", "want more than 0 and less than 1, got %v", s.Factor)
	}
	atLeast(v, key+"patience", s.Patience, 0)
	atLeast(v, key+"threshold", s.Threshold, 0)
	v.oneOf(key+"threshold_mode", s.ThresholdMode, "rel", "abs")
	atLeast(v, key+"cooldown", s.Cooldown, 0)
	atLeast(v, key+"min_lr", s.MinLR, 0)
}
