package program

// AdadeltaStep is Adadelta (torch.optim.Adadelta; Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012). For each
// element, with the coefficients' names:
//
//	g = g + WeightDecay·p
//	square_avg = Rho·square_avg + (Grad·g)·g
//	delta = sqrt(acc_delta + Eps) / sqrt(square_avg + Eps) · g
//	acc_delta = Rho·acc_delta + (Grad·delta)·delta
//	p = p - LR·delta
type AdadeltaStep struct{ Rho, Eps, WeightDecay float64 }

// AdadeltaCoefficients are the numbers of one update by AdadeltaStep.
type AdadeltaCoefficients struct {
	LR, WeightDecay, Eps float32
	Rho, Grad            float32 // Grad = 1 - Rho
}

// Name implements Op.
func (AdadeltaStep) Name() string { return "adadelta_step" }

// Check implements Op.
func (o AdadeltaStep) Check(in, out, inout []*Value) error { return checkStep(o, in, out, inout) }

// States implements OptimizerStep.
func (AdadeltaStep) States() []string { return []string{"square_avg", "acc_delta"} }

// Coefficients are the numbers of update s.
func (o AdadeltaStep) Coefficients(s StepScalars) AdadeltaCoefficients {
	return AdadeltaCoefficients{
		LR: s.LR, WeightDecay: float32(o.WeightDecay), Eps: float32(o.Eps),
		Rho: float32(o.Rho), Grad: float32(1 - o.Rho),
	}
}

// Step implements OptimizerStep.
func (o AdadeltaStep) Step(p, g []float32, state [][]float32, s StepScalars) {
	c := o.Coefficients(s)
	square, acc := state[0], state[1]
	for i := range p {
		grad := g[i] + float32(c.WeightDecay*p[i])
		square[i] = float32(c.Rho*square[i]) + float32(c.Grad*grad*grad)
		delta := sqrt32(acc[i]+c.Eps) / sqrt32(square[i]+c.Eps) * grad
		acc[i] = float32(c.Rho*acc[i]) + float32(c.Grad*delta*delta)
		p[i] -= float32(c.LR * delta)
	}
}

// RMSPropStep is RMSprop (torch.optim.RMSprop; Tieleman and Hinton, lecture 6.5 of "Neural Networks for Machine Learning",
// 2012; centred as in Graves, "Generating Sequences With Recurrent Neural Networks", 2013). For each element, with the
// coefficients' names:
//
//	g = g + WeightDecay·p
//	square_avg = Alpha·square_avg + (Grad·g)·g
//	avg = square_avg
//	grad_avg = Alpha·grad_avg + Grad·g                // Centered
//	avg = max(square_avg - grad_avg·grad_avg, 0)      // Centered
//	avg = sqrt(avg) + Eps
//	p = p - (LR·g)/avg                                // without momentum
//	buf = Momentum·buf + g/avg; p = p - LR·buf        // with momentum
//
// PyTorch has no max: with a steady gradient its difference rounds below zero and the parameter becomes NaN.
type RMSPropStep struct {
	Alpha, Eps, WeightDecay, Momentum float64
	Centered                          bool
}

// RMSPropCoefficients are the numbers of one update by RMSPropStep.
type RMSPropCoefficients struct {
	LR, WeightDecay, Eps, Momentum float32
	Alpha, Grad                    float32 // Grad = 1 - Alpha
}

// Name implements Op.
func (RMSPropStep) Name() string { return "rmsprop_step" }

// Check implements Op.
func (o RMSPropStep) Check(in, out, inout []*Value) error { return checkStep(o, in, out, inout) }

// States implements OptimizerStep: square_avg, then momentum_buffer with momentum, then grad_avg when centred.
func (o RMSPropStep) States() []string {
	states := []string{"square_avg"}
	if o.Momentum != 0 {
		states = append(states, "momentum_buffer")
	}
	if o.Centered {
		states = append(states, "grad_avg")
	}
	return states
}

// Coefficients are the numbers of update s.
func (o RMSPropStep) Coefficients(s StepScalars) RMSPropCoefficients {
	return RMSPropCoefficients{
		LR: s.LR, WeightDecay: float32(o.WeightDecay), Eps: float32(o.Eps),
		Momentum: float32(s.momentumOr(o.Momentum)),
		Alpha:    float32(o.Alpha), Grad: float32(1 - o.Alpha),
	}
}

// Step implements OptimizerStep.
func (o RMSPropStep) Step(p, g []float32, state [][]float32, s StepScalars) {
	c := o.Coefficients(s)
	square, gradAvg := state[0], state[len(state)-1] // the latter only when centred
	for i := range p {
		grad := g[i] + float32(c.WeightDecay*p[i])
		square[i] = float32(c.Alpha*square[i]) + float32(c.Grad*grad*grad)
		avg := square[i]
		if o.Centered {
			gradAvg[i] = float32(c.Alpha*gradAvg[i]) + float32(c.Grad*grad)
			avg = max(avg-float32(gradAvg[i]*gradAvg[i]), 0)
		}
		avg = sqrt32(avg) + c.Eps
		if o.Momentum == 0 {
			p[i] -= c.LR * grad / avg
			continue
		}
		buf := state[1]
		buf[i] = float32(c.Momentum*buf[i]) + grad/avg
		p[i] -= float32(c.LR * buf[i])
	}
}

// AdagradStep is Adagrad (torch.optim.Adagrad; Duchi, Hazan, Singer, "Adaptive Subgradient Methods for Online Learning and
// Stochastic Optimization", 2011). For each element, with the coefficients' names:
//
//	g = g + WeightDecay·p
//	sum = sum + g·g
//	p = p - (Rate·g) / (sqrt(sum) + Eps)
type AdagradStep struct{ LRDecay, Eps, WeightDecay float64 }

// AdagradCoefficients are the numbers of one update by AdagradStep.
type AdagradCoefficients struct {
	Rate             float32 // LR / (1 + (T-1)·LRDecay)
	WeightDecay, Eps float32
}

// Name implements Op.
func (AdagradStep) Name() string { return "adagrad_step" }

// Check implements Op.
func (o AdagradStep) Check(in, out, inout []*Value) error { return checkStep(o, in, out, inout) }

// States implements OptimizerStep.
func (AdagradStep) States() []string { return []string{"sum"} }

// Coefficients are the numbers of update s.
func (o AdagradStep) Coefficients(s StepScalars) AdagradCoefficients {
	return AdagradCoefficients{
		Rate:        float32(float64(s.LR) / (1 + float64(float64(s.T-1)*o.LRDecay))),
		WeightDecay: float32(o.WeightDecay), Eps: float32(o.Eps),
	}
}

// Step implements OptimizerStep.
func (o AdagradStep) Step(p, g []float32, state [][]float32, s StepScalars) {
	c := o.Coefficients(s)
	sum := state[0]
	for i := range p {
		grad := g[i] + float32(c.WeightDecay*p[i])
		sum[i] += float32(grad * grad)
		p[i] -= c.Rate * grad / (sqrt32(sum[i]) + c.Eps)
	}
}
