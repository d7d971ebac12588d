package cpu

import (
	"fmt"
	"math"

	"halfstep/device"
	"halfstep/model/op/ref"
	"halfstep/program"
)

// normRows is the number of rows whose sums are one partial of a batch norm: fixed, so that sums do not depend on the
// workers.
const normRows = 512

// channels gives rows and channels of a batch norm's operand; a row must fit a chunk.
func channels(v *program.Value) (rows, c int, err error) {
	c = v.Shape[len(v.Shape)-1]
	if c > chunk {
		return 0, 0, fmt.Errorf("%d channels, at most %d: %w", c, chunk, errNoKernel)
	}
	return v.Elems() / c, c, nil
}

// columnSums runs f for blocks of normRows rows, each with its own zeroed float64 partial of width·c sums, and adds the
// partials in order into total.
func (b *builder) columnSums(rows, width int, partials, total []float64, f func(worker, from, to int, sums []float64)) func() {
	blocks := (rows + normRows - 1) / normRows
	body := func(worker, t int) {
		sums := partials[t*width:][:width]
		clear(sums)
		f(worker, t*normRows, min((t+1)*normRows, rows), sums)
	}
	return func() {
		b.pool.For(blocks, body)
		clear(total)
		for t := range blocks {
			for c, s := range partials[t*width:][:width] {
				total[c] += s
			}
		}
	}
}

// partialBytes is the workspace of columnSums with its total.
func partialBytes(rows, width int) int64 {
	return int64((rows+normRows-1)/normRows+1) * int64(width) * 8
}

func (b *builder) partials(i *program.Instr, rows, width int) (partials, total []float64) {
	w := device.View[float64](b.work(i.Work))
	n := (rows + normRows - 1) / normRows * width
	return w[:n], w[n : n+width]
}

// blocksOf calls f with the element ranges of rows from to to-1, as many whole rows at a time as fit a chunk.
func (b *builder) blocksOf(c, from, to int, f func(lo, hi int)) {
	per := chunk / c
	for r := from; r < to; r += per {
		f(r*c, min(r+per, to)*c)
	}
}

func buildBatchStats(b *builder, i *program.Instr, _ program.BatchStats) (func(), error) {
	rows, c, err := channels(i.In[0])
	if err != nil {
		return nil, err
	}
	x, mean, variance := b.view(i.In[0]), b.f32(i.Out[0]), b.f32(i.Out[1])
	if b.exact(i) {
		return func() { ref.BatchStats(mean, variance, x.f32, c, 0, c) }, nil
	}
	partials, total := b.partials(i, rows, c)
	sum := b.columnSums(rows, c, partials, total, func(worker, from, to int, sums []float64) {
		b.blocksOf(c, from, to, func(lo, hi int) { b.vec.ColumnSums(sums, x.load(lo, hi, b.scratch[worker].buf[0])) })
	})
	means := make([]float64, c)
	squares := b.columnSums(rows, c, partials, total, func(worker, from, to int, sums []float64) {
		b.blocksOf(c, from, to, func(lo, hi int) { b.vec.ColumnSquares(sums, x.load(lo, hi, b.scratch[worker].buf[0]), means) })
	})
	return func() {
		sum()
		for k, s := range total {
			means[k] = s / float64(rows)
			mean[k] = float32(means[k])
		}
		squares()
		for k, s := range total {
			variance[k] = float32(s / float64(rows))
		}
	}, nil
}

func buildBatchNorm(b *builder, i *program.Instr, o program.BatchNorm) (func(), error) {
	rows, c, err := channels(i.In[0])
	if err != nil {
		return nil, err
	}
	x, y := b.view(i.In[0]), b.view(i.Out[0])
	gamma, beta, mean, variance := b.f32(i.In[1]), b.f32(i.In[2]), b.f32(i.In[3]), b.f32(i.In[4])
	inverse := make([]float32, c)
	run := b.rowwise(rows, c, func(worker, from, to int) {
		s := b.scratch[worker]
		b.blocksOf(c, from, to, func(lo, hi int) {
			dst := y.target(lo, hi, s.buf[1])
			b.vec.BatchNorm(dst, x.load(lo, hi, s.buf[0]), mean, inverse, gamma, beta)
			y.store(dst, lo)
		})
	})
	return func() {
		inverseStd(inverse, variance, o.Eps)
		run()
	}, nil
}

// inverseStd is 1/sqrt(variance+eps) of each channel, in float64, rounded once.
func inverseStd(inverse, variance []float32, eps float32) {
	for k, v := range variance {
		inverse[k] = float32(1 / math.Sqrt(float64(v)+float64(eps)))
	}
}

func buildBatchNormGradGamma(b *builder, i *program.Instr, o program.BatchNormGradGamma) (func(), error) {
	rows, c, err := channels(i.In[0])
	if err != nil {
		return nil, err
	}
	x, mean, variance, dy, dgamma := b.view(i.In[0]), b.f32(i.In[1]), b.f32(i.In[2]), b.view(i.In[3]), b.f32(i.Out[0])
	if b.exact(i) {
		return func() { ref.BatchNormGradGamma(dgamma, x.f32, mean, variance, dy.f32, o.Eps, 0, c) }, nil
	}
	partials, total := b.partials(i, rows, c)
	run := b.columnSums(rows, c, partials, total, func(worker, from, to int, sums []float64) {
		s := b.scratch[worker]
		b.blocksOf(c, from, to, func(lo, hi int) {
			b.vec.ColumnProducts(sums, x.load(lo, hi, s.buf[0]), dy.load(lo, hi, s.buf[1]), mean)
		})
	})
	return func() {
		run()
		for k, s := range total {
			dgamma[k] = float32(s / math.Sqrt(float64(variance[k])+float64(o.Eps)))
		}
	}, nil
}

func buildBatchNormGradX(b *builder, i *program.Instr, o program.BatchNormGradX) (func(), error) {
	rows, c, err := channels(i.In[0])
	if err != nil {
		return nil, err
	}
	x, dy, dx := b.view(i.In[0]), b.view(i.In[4]), b.view(i.Out[0])
	gamma, mean, variance, dgamma, dbeta := b.f32(i.In[1]), b.f32(i.In[2]), b.f32(i.In[3]), b.f32(i.In[5]), b.f32(i.In[6])
	if b.exact(i) {
		return b.rowwise(rows, c, func(_, from, to int) {
			ref.BatchNormGradX(dx.f32[from*c:to*c], x.f32[from*c:to*c], gamma, mean, variance, dy.f32[from*c:to*c], dgamma, dbeta, o.Eps, rows)
		}), nil
	}
	scale, meanDy, slope := make([]float32, c), make([]float32, c), make([]float32, c)
	run := b.rowwise(rows, c, func(worker, from, to int) {
		s := b.scratch[worker]
		b.blocksOf(c, from, to, func(lo, hi int) {
			dst := dx.target(lo, hi, s.buf[2])
			b.vec.BatchNormGradX(dst, x.load(lo, hi, s.buf[0]), dy.load(lo, hi, s.buf[1]), mean, scale, meanDy, slope)
			dx.store(dst, lo)
		})
	})
	return func() {
		inverseStd(slope, variance, o.Eps)
		for k, inverse := range slope {
			scale[k] = gamma[k] * inverse
			meanDy[k] = dbeta[k] / float32(rows)
			slope[k] = inverse * dgamma[k] / float32(rows)
		}
		run()
	}, nil
}

func buildBiasGrad(b *builder, i *program.Instr, _ program.BiasGrad) (func(), error) {
	rows, c, err := channels(i.In[0])
	if err != nil {
		return nil, err
	}
	dy, db := b.view(i.In[0]), b.f32(i.Out[0])
	if b.exact(i) {
		return func() { ref.BiasGrad(db, dy.f32, c, 0, c) }, nil
	}
	partials, total := b.partials(i, rows, c)
	run := b.columnSums(rows, c, partials, total, func(worker, from, to int, sums []float64) {
		b.blocksOf(c, from, to, func(lo, hi int) { b.vec.ColumnSums(sums, dy.load(lo, hi, b.scratch[worker].buf[0])) })
	})
	return func() {
		run()
		for k, s := range total {
			db[k] = float32(s)
		}
	}, nil
}

func buildUpdateRunning(b *builder, i *program.Instr, o program.UpdateRunning) (func(), error) {
	mean, variance, runMean, runVar := b.f32(i.In[0]), b.f32(i.In[1]), b.f32(i.InOut[0]), b.f32(i.InOut[1])
	var control []float32
	if len(i.In) == 3 {
		control = b.f32(i.In[2])
	}
	return func() {
		if control != nil && control[program.ControlApply] == 0 {
			return
		}
		ref.UpdateRunning(runMean, runVar, mean, variance, o.Momentum, o.Count)
	}, nil
}

func buildCommitRunning(b *builder, i *program.Instr, _ program.CommitRunning) (func(), error) {
	control, running, shadow := b.f32(i.In[0]), b.f32(i.InOut[0]), b.f32(i.InOut[1])
	return func() {
		if control[program.ControlApply] != 0 {
			copy(running, shadow)
		} else {
			copy(shadow, running)
		}
	}, nil
}
