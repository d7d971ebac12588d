package program

// BatchStats are the mean and the biased variance over all but the last dimension, summed in float32 or better.
//
// In: x [...,C]. Out: mean, variance Float32 [C].
type BatchStats struct{}

// Name implements Op.
func (BatchStats) Name() string { return "batch_stats" }

// Check implements Op.
func (o BatchStats) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(1), n(2), n(0))
	if c.ok() {
		c.float(in[0]).vectors(lastDim(in[0]), out...)
	}
	return c.err
}

func (c *checker) vectors(size int, vs ...*Value) *checker {
	for _, v := range vs {
		c.shape(v, size).dtype(v, Float32)
	}
	return c
}

// BatchNorm is y = (x-mean)/sqrt(variance+Eps)·gamma + beta, by the batch's statistics in training and the running ones
// in evaluation.
//
// In: x [...,C], gamma, beta, mean, variance Float32 [C]. Out: y of x's shape and dtype.
type BatchNorm struct{ Eps float32 }

// Name implements Op.
func (BatchNorm) Name() string { return "batch_norm" }

// Check implements Op.
func (o BatchNorm) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(5), n(1), n(0))
	if c.ok() {
		c.float(in[0]).vectors(lastDim(in[0]), in[1:]...).same(in[0], out[0]).shape(out[0], in[0].Shape...)
	}
	return c.err
}

// BatchNormGradGamma is the sum of dy·(x-mean)/sqrt(variance+Eps) over all but the last dimension.
//
// In: x [...,C], mean, variance Float32 [C], dy of x's shape. Out: dgamma Float32 [C].
type BatchNormGradGamma struct{ Eps float32 }

// Name implements Op.
func (BatchNormGradGamma) Name() string { return "batch_norm_grad_gamma" }

// Check implements Op.
func (o BatchNormGradGamma) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(4), n(1), n(0))
	if c.ok() {
		c.float(in[0]).vectors(lastDim(in[0]), in[1], in[2], out[0]).same(in[0], in[3]).shape(in[3], in[0].Shape...)
	}
	return c.err
}

// BatchNormGradX is the gradient of BatchNorm by x, through the batch's statistics.
//
// In: x [...,C], gamma, mean, variance Float32 [C], dy of x's shape, dgamma, dbeta Float32 [C]. Out: dx.
type BatchNormGradX struct{ Eps float32 }

// Name implements Op.
func (BatchNormGradX) Name() string { return "batch_norm_grad_x" }

// Check implements Op.
func (o BatchNormGradX) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(7), n(1), n(0))
	if c.ok() {
		c.float(in[0]).vectors(lastDim(in[0]), in[1], in[2], in[3], in[5], in[6]).
			same(in[0], in[4], out[0]).shape(in[4], in[0].Shape...).shape(out[0], in[0].Shape...)
	}
	return c.err
}

// UpdateRunning moves the running statistics: running = (1-Momentum)·running + Momentum·batch, with the unbiased
// variance over Count elements. A skipped step (control) changes nothing; a micro-batch has no control.
//
// In: mean, variance Float32 [C], control unless in a micro-batch. InOut: running mean, running variance Float32 [C].
type UpdateRunning struct {
	Momentum float32
	Count    int
}

// Name implements Op.
func (UpdateRunning) Name() string { return "update_running" }

// Check implements Op.
func (o UpdateRunning) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count([2]int{2, 3}, n(0), n(2))
	if c.ok() {
		c.vectors(lastDim(in[0]), in[0], in[1], inout[0], inout[1])
	}
	if c.ok() && len(in) == 3 {
		c.control(in[2])
	}
	return c.err
}

// CommitRunning ends a group of accumulated micro-batches, whose UpdateRunning went to shadows: an applied step copies the
// shadow to the running statistic, a skipped one puts the shadow back.
//
// In: control. InOut: running, shadow Float32 [C].
type CommitRunning struct{}

// Name implements Op.
func (CommitRunning) Name() string { return "commit_running" }

// Check implements Op.
func (o CommitRunning) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(1), n(0), n(2))
	if c.ok() {
		c.control(in[0]).vectors(lastDim(inout[0]), inout...)
	}
	return c.err
}
