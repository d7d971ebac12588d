package conformance

import (
	"fmt"
	"math"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// normEps is PyTorch's default.
const normEps = 1e-5

// statsOf are the batch's mean and variance in float64.
func statsOf(x []float64, c int) (mean, variance []float64) {
	mean, variance = make([]float64, c), make([]float64, c)
	ref.BatchStats(mean, variance, x, c, 0, c)
	return mean, variance
}

// shifted draws numbers whose mean is far from zero: a variance as a difference of sums of squares would cancel.
func (m *maker) shifted(mean float64, shape ...int) *tensor {
	return newTensor(m.d, shape...).fill(func() float64 { return mean + m.r.NormFloat64() })
}

func batchStatsCases(m *maker) []testCase {
	var cs []testCase
	for n, s := range m.channelShapes() {
		c := s[len(s)-1]
		x := m.shifted([]float64{0, 0.5, 30}[n%3], s...)
		mean, variance := statsOf(x.v, c)
		size, _ := statsOf(magnitude(x.v), c)
		rows := len(x.v) / c
		meanErr := sumError(rows, size)
		varErr := sumError(rows+4, variance)
		for k, e := range meanErr { // a mean that is off by e adds e²
			varErr[k] += e * e
		}
		cs = append(cs, testCase{
			name: fmt.Sprint(s), op: program.BatchStats{}, in: []*tensor{x},
			out: []expect{within(m.acc(), mean, meanErr, c), within(m.acc(), variance, varErr, c)},
		})
	}
	return cs
}

// norm is a batch norm's operands.
type norm struct {
	x, gamma, beta, mean, variance *tensor
	shape                          []int
	rows, c                        int
}

func (m *maker) norm(shape []int) norm {
	c := shape[len(shape)-1]
	n := norm{x: m.shifted(0.5, shape...), gamma: m.normal32(1, c), beta: m.normal32(1, c), shape: shape, c: c}
	n.rows = len(n.x.v) / c
	mean, variance := statsOf(n.x.v, c)
	n.mean, n.variance = tensorOf(m.acc(), mean, c), tensorOf(m.acc(), variance, c)
	return n
}

func (n norm) inverseStd(c int) float64 {
	return 1 / math.Sqrt(n.variance.v[c]+float64(float32(normEps)))
}

// forward is batch norm of x with the batch's own statistics, in float64.
func (n norm) forward(x, gamma, beta []float64) []float64 {
	mean, variance := statsOf(x, n.c)
	y := make([]float64, len(x))
	ref.BatchNorm(y, x, gamma, beta, mean, variance, normEps)
	return y
}

// spread is (|x|+|mean|)/std: what (x-mean)/std is a difference of. A device may fold the mean into one multiply-add.
func (n norm) spread(i int) float64 {
	c := i % n.c
	return (math.Abs(n.x.v[i]) + math.Abs(n.mean.v[c])) * n.inverseStd(c)
}

func batchNormCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.channelShapes() {
		n := m.norm(s)
		y, err := make([]float64, len(n.x.v)), make([]float64, len(n.x.v))
		ref.BatchNorm(y, n.x.v, n.gamma.v, n.beta.v, n.mean.v, n.variance.v, normEps)
		for i := range err {
			err[i] = functionError * (n.spread(i)*math.Abs(n.gamma.v[i%n.c]) + math.Abs(n.beta.v[i%n.c]))
		}
		cs = append(cs, testCase{
			name: fmt.Sprint(s), op: program.BatchNorm{Eps: normEps}, in: []*tensor{n.x, n.gamma, n.beta, n.mean, n.variance},
			out: []expect{within(m.d, y, err, s...)},
		})
	}
	return cs
}

// gradGamma is dgamma, and the sum of the magnitudes of its terms.
func (n norm) gradGamma(dy []float64) (dgamma, size []float64) {
	dgamma, size = make([]float64, n.c), make([]float64, n.c)
	ref.BatchNormGradGamma(dgamma, n.x.v, n.mean.v, n.variance.v, dy, normEps, 0, n.c)
	for i, g := range dy {
		size[i%n.c] += n.spread(i) * math.Abs(g)
	}
	return dgamma, size
}

func batchNormGradGammaCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.channelShapes() {
		n, dy := m.norm(s), m.normal(1, s...)
		dgamma, size := n.gradGamma(dy.v)
		cs = append(cs, testCase{
			name: fmt.Sprint(s), op: program.BatchNormGradGamma{Eps: normEps}, in: []*tensor{n.x, n.mean, n.variance, dy},
			out: []expect{within(m.acc(), dgamma, sumError(n.rows+4, size), n.c)},
			numeric: &derivative{
				f:    func(a [][]float64) []float64 { return n.forward(n.x.v, a[0], n.beta.v) },
				args: [][]float64{n.gamma.v}, dy: dy.v, wrt: []int{0},
			},
		})
	}
	return cs
}

func batchNormGradXCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.channelShapes() {
		n, dy := m.norm(s), m.normal(1, s...)
		if n.rows < 3 {
			continue // with two rows dx is zero but for eps: nothing to compare with numerical derivatives
		}
		g, _ := n.gradGamma(dy.v)
		dgamma, dbeta := tensorOf(m.acc(), g, n.c), tensorOf(m.acc(), biasGrad(dy.v, n.c), n.c)
		dx, err := make([]float64, len(dy.v)), make([]float64, len(dy.v))
		ref.BatchNormGradX(dx, n.x.v, n.gamma.v, n.mean.v, n.variance.v, dy.v, dgamma.v, dbeta.v, normEps, n.rows)
		for i := range err {
			c, rows := i%n.c, float64(n.rows)
			err[i] = functionError * math.Abs(n.gamma.v[c]) * n.inverseStd(c) *
				(math.Abs(dy.v[i]) + math.Abs(dbeta.v[c])/rows + n.spread(i)*math.Abs(dgamma.v[c])/rows)
		}
		cs = append(cs, testCase{
			name: fmt.Sprint(s), op: program.BatchNormGradX{Eps: normEps},
			in:  []*tensor{n.x, n.gamma, n.mean, n.variance, dy, dgamma, dbeta},
			out: []expect{within(m.d, dx, err, s...)},
			numeric: &derivative{
				f:    func(a [][]float64) []float64 { return n.forward(a[0], n.gamma.v, n.beta.v) },
				args: [][]float64{n.x.v}, dy: dy.v, wrt: []int{0},
			},
		})
	}
	return cs
}

// control is the value that StepControl writes, for an update that is applied or skipped.
func control(apply float32, gradScale, lr, momentum float32) *tensor {
	c := make([]float32, program.NumControls)
	c[program.ControlApply], c[program.ControlGradScale], c[program.ControlLR], c[program.ControlMomentum] = apply, gradScale, lr, momentum
	return floats(c...)
}

func updateRunningCases(m *maker) []testCase {
	var cs []testCase
	op := program.UpdateRunning{Momentum: 0.1, Count: 37}
	for _, c := range []int{1, 13, 64, 257} {
		mean, variance := m.normalOf(program.Float32, 1, c), m.normalOf(program.Float32, 1, c)
		runMean, runVar := m.normalOf(program.Float32, 1, c), m.normalOf(program.Float32, 1, c)
		wantMean, wantVar := runMean.float32s(), runVar.float32s()
		ref.UpdateRunning(wantMean, wantVar, mean.float32s(), variance.float32s(), op.Momentum, op.Count)
		// a multiply-add may be contracted: three roundings of terms no larger than these
		meanTol := scaled(2*eps32, plus(magnitude(runMean.v), magnitude(mean.v)))
		varTol := scaled(2*eps32, plus(magnitude(runVar.v), magnitude(variance.v)))
		moved := []change{{runMean, fromFloat32s(wantMean), meanTol}, {runVar, fromFloat32s(wantVar), varTol}}
		in := []*tensor{mean, variance}
		cs = append(cs,
			testCase{name: fmt.Sprintf("%d micro-batch", c), op: op, in: in, inout: moved},
			testCase{name: fmt.Sprintf("%d applied", c), op: op, in: append(in, control(1, 1, 1, 0)), inout: moved},
			testCase{name: fmt.Sprintf("%d skipped", c), op: op, in: append(in, control(0, 1, 1, 0)), inout: []change{unchanged(runMean), unchanged(runVar)}})
	}
	return cs
}

func commitRunningCases(m *maker) []testCase {
	var cs []testCase
	for _, c := range []int{1, 13, 257} {
		running, shadow := m.normalOf(program.Float32, 1, c), m.normalOf(program.Float32, 1, c)
		cs = append(cs,
			testCase{
				name: fmt.Sprintf("%d applied", c), op: program.CommitRunning{}, in: []*tensor{control(1, 1, 1, 0)},
				inout: []change{{before: running, want: shadow.v}, unchanged(shadow)},
			},
			testCase{
				name: fmt.Sprintf("%d skipped", c), op: program.CommitRunning{}, in: []*tensor{control(0, 1, 1, 0)},
				inout: []change{unchanged(running), {before: shadow, want: running.v}},
			})
	}
	return cs
}
