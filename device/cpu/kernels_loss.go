package cpu

import (
	"fmt"

	"halfstep/device"
	"halfstep/model/op/ref"
	"halfstep/program"
)

// rowsOf checks that rows of C elements fit a chunk, for kernels that convert row by row.
func rowsOf(v *program.Value) (rows, c int, err error) {
	rows, c = v.Shape[0], v.Shape[1]
	if c > chunk {
		return 0, 0, fmt.Errorf("%d classes, at most %d: %w", c, chunk, errNoKernel)
	}
	return rows, c, nil
}

func buildCrossEntropy(b *builder, i *program.Instr, o program.CrossEntropy) (func(), error) {
	rows, c, err := rowsOf(i.In[0])
	if err != nil {
		return nil, err
	}
	x, labels, loss := b.view(i.In[0]), b.i32(i.In[1]), b.f32(i.Out[0])
	each := device.View[float64](b.work(i.Work))
	run := b.rowwise(rows, c*lossCost, func(worker, from, to int) {
		for n := from; n < to; n++ {
			ref.CrossEntropy(each[n:n+1], x.load(n*c, (n+1)*c, b.scratch[worker].buf[0]), labels[n:n+1], c, o.Smoothing)
		}
	})
	return func() {
		run()
		loss[0] = float32(ref.Sum64(each[:rows]) / float64(rows))
	}, nil
}

// lossCost is how many elementwise steps one exponential is worth when work is cut into tasks.
const lossCost = 32

func buildCrossEntropyGrad(b *builder, i *program.Instr, o program.CrossEntropyGrad) (func(), error) {
	rows, c, err := rowsOf(i.In[0])
	if err != nil {
		return nil, err
	}
	x, labels, dloss, dx := b.view(i.In[0]), b.i32(i.In[1]), b.f32(i.In[2]), b.view(i.Out[0])
	return b.rowwise(rows, c*lossCost, func(worker, from, to int) {
		s := b.scratch[worker]
		for n := from; n < to; n++ {
			dst := dx.target(n*c, (n+1)*c, s.buf[1])
			ref.CrossEntropyGrad(dst, x.load(n*c, (n+1)*c, s.buf[0]), labels[n:n+1], dloss[0], rows, c, o.Smoothing)
			dx.store(dst, n*c)
		}
	}), nil
}

func buildPointwiseLoss(b *builder, i *program.Instr, o program.PointwiseLoss) (func(), error) {
	y, t, loss, n := b.view(i.In[0]), b.view(i.In[1]), b.f32(i.Out[0]), i.In[0].Elems()
	sums := device.View[float64](b.work(i.Work))[:(n+chunk-1)/chunk]
	run := b.each(n, func(worker, from, to int) {
		s := b.scratch[worker]
		sums[from/chunk] = ref.PointwiseLoss(o.Loss, y.load(from, to, s.buf[0]), t.load(from, to, s.buf[1]))
	})
	div := float64(o.Reduction.Divisor(i.In[0].Elems(), i.In[0].Shape[0]))
	return func() {
		run()
		var total float64
		for _, s := range sums {
			total += s
		}
		loss[0] = float32(total / div)
	}, nil
}

func buildPointwiseLossGrad(b *builder, i *program.Instr, o program.PointwiseLossGrad) (func(), error) {
	y, t, dloss, dy := b.view(i.In[0]), b.view(i.In[1]), b.f32(i.In[2]), b.view(i.Out[0])
	div := float64(o.Reduction.Divisor(i.In[0].Elems(), i.In[0].Shape[0]))
	return b.each(i.In[0].Elems(), func(worker, from, to int) {
		s := b.scratch[worker]
		dst := dy.target(from, to, s.buf[2])
		ref.PointwiseLossGrad(o.Loss, dst, y.load(from, to, s.buf[0]), t.load(from, to, s.buf[1]), float64(dloss[0])/div)
		dy.store(dst, from)
	}), nil
}

func buildCountCorrect(b *builder, i *program.Instr, _ program.CountCorrect) (func(), error) {
	rows, c, err := rowsOf(i.In[0])
	if err != nil {
		return nil, err
	}
	x, labels, out := b.view(i.In[0]), b.i32(i.In[1]), b.i32(i.Out[0])
	return func() {
		count := 0
		for n := range rows {
			count += ref.CountCorrect(x.load(n*c, (n+1)*c, b.scratch[0].buf[0]), labels[n:n+1], c)
		}
		out[0] = int32(count)
	}, nil
}
