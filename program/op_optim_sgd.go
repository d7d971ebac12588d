package program

// SGDStep is stochastic gradient descent with momentum (torch.optim.SGD; Sutskever et al., "On the importance of
// initialization and momentum in deep learning", 2013). The learning rate multiplies the buffer, as in PyTorch, not the
// gradient that enters it. For each element, with the coefficients' names:
//
//	d = g + WeightDecay·p
//	buf = Buffer·buf + Grad·d          // with momentum
//	d = buf, or d + Momentum·buf       // with momentum; the latter when Nesterov
//	p = p - LR·d
//
// The first applied update sets the buffer to d, without dampening.
type SGDStep struct {
	Momentum, Dampening, WeightDecay float64
	Nesterov                         bool
}

// SGDCoefficients are the numbers of one update by SGDStep.
type SGDCoefficients struct {
	LR, WeightDecay float32
	Momentum        float32
	Buffer, Grad    float32 // momentum and 1-dampening; 0 and 1 at the first update
}

// Name implements Op.
func (SGDStep) Name() string { return "sgd_step" }

// Check implements Op.
func (o SGDStep) Check(in, out, inout []*Value) error { return checkStep(o, in, out, inout) }

// States implements OptimizerStep: momentum_buffer when there is momentum.
func (o SGDStep) States() []string {
	if o.Momentum == 0 {
		return nil
	}
	return []string{"momentum_buffer"}
}

// Coefficients are the numbers of update s.
func (o SGDStep) Coefficients(s StepScalars) SGDCoefficients {
	m := s.momentumOr(o.Momentum)
	c := SGDCoefficients{LR: s.LR, WeightDecay: float32(o.WeightDecay), Momentum: float32(m)}
	if c.Buffer, c.Grad = c.Momentum, float32(1-o.Dampening); s.T == 1 {
		c.Buffer, c.Grad = 0, 1
	}
	return c
}

// Step implements OptimizerStep.
func (o SGDStep) Step(p, g []float32, state [][]float32, s StepScalars) {
	c := o.Coefficients(s)
	if o.Momentum == 0 {
		for i := range p {
			d := g[i] + float32(c.WeightDecay*p[i])
			p[i] -= float32(c.LR * d)
		}
		return
	}
	buf := state[0]
	for i := range p {
		d := g[i] + float32(c.WeightDecay*p[i])
		buf[i] = float32(c.Buffer*buf[i]) + float32(c.Grad*d)
		if o.Nesterov {
			d += float32(c.Momentum * buf[i])
		} else {
			d = buf[i]
		}
		p[i] -= float32(c.LR * d)
	}
}
