package program

import "math"

// AdamStep is Adam (torch.optim.Adam; Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015) or, with
// Decoupled, AdamW (torch.optim.AdamW; Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019). For each
// element, with the coefficients' names:
//
//	p = Decay·p
//	g = g + WeightDecay·p
//	exp_avg = Beta1·exp_avg + Grad1·g
//	exp_avg_sq = Beta2·exp_avg_sq + (Grad2·g)·g
//	max_exp_avg_sq = max(max_exp_avg_sq, exp_avg_sq)                  // AMSGrad; it takes the place of exp_avg_sq below
//	p = p - (StepSize·exp_avg) / (sqrt(exp_avg_sq)/Correction + Eps)
//
// A schedule that cycles momentum replaces Beta1, in the bias correction too, as in PyTorch.
type AdamStep struct {
	Beta1, Beta2, Eps, WeightDecay float64
	Decoupled                      bool
	AMSGrad                        bool // Reddi, Kale, Kumar, "On the Convergence of Adam and Beyond", 2018
}

// AdamCoefficients are the numbers of one update by AdamStep.
type AdamCoefficients struct {
	Decay        float32 // 1 - LR·weight decay when decoupled, else 1
	WeightDecay  float32 // 0 when decoupled
	Beta1, Grad1 float32 // Grad1 = 1 - Beta1
	Beta2, Grad2 float32 // Grad2 = 1 - Beta2
	StepSize     float32 // LR / (1 - Beta1^T)
	Correction   float32 // sqrt(1 - Beta2^T)
	Eps          float32
}

// Name implements Op.
func (o AdamStep) Name() string {
	if o.Decoupled {
		return "adamw_step"
	}
	return "adam_step"
}

// Check implements Op.
func (o AdamStep) Check(in, out, inout []*Value) error { return checkStep(o, in, out, inout) }

// States implements OptimizerStep.
func (o AdamStep) States() []string {
	if o.AMSGrad {
		return []string{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
	}
	return []string{"exp_avg", "exp_avg_sq"}
}

// Coefficients are the numbers of update s.
func (o AdamStep) Coefficients(s StepScalars) AdamCoefficients {
	lr, t, beta1 := float64(s.LR), float64(s.T), s.momentumOr(o.Beta1)
	c := AdamCoefficients{
		Decay: 1, WeightDecay: float32(o.WeightDecay),
		Beta1: float32(beta1), Grad1: float32(1 - beta1),
		Beta2: float32(o.Beta2), Grad2: float32(1 - o.Beta2),
		StepSize:   float32(lr / (1 - math.Pow(beta1, t))),
		Correction: float32(math.Sqrt(1 - math.Pow(o.Beta2, t))),
		Eps:        float32(o.Eps),
	}
	if o.Decoupled {
		c.Decay, c.WeightDecay = float32(1-float64(lr*o.WeightDecay)), 0
	}
	return c
}

// Step implements OptimizerStep.
func (o AdamStep) Step(p, g []float32, state [][]float32, s StepScalars) {
	c := o.Coefficients(s)
	m, v := state[0], state[1]
	for i := range p {
		p[i] *= c.Decay
		grad := g[i] + float32(c.WeightDecay*p[i])
		m[i] = float32(c.Beta1*m[i]) + float32(c.Grad1*grad)
		v[i] = float32(c.Beta2*v[i]) + float32(c.Grad2*grad*grad)
		second := v[i]
		if o.AMSGrad {
			state[2][i] = max(state[2][i], second)
			second = state[2][i]
		}
		p[i] -= c.StepSize * m[i] / (sqrt32(second)/c.Correction + c.Eps)
	}
}
