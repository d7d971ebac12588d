package cpu

import (
	"unsafe"

	"halfstep/device"
	"halfstep/device/cpu/kernel"
	"halfstep/model/op/ref"
	"halfstep/program"
)

// buildGatherImages gathers image by image. Moved images go through the defining loop, plain ones through a vector kernel.
func buildGatherImages(b *builder, i *program.Instr, o program.GatherImages) (func(), error) {
	if o.Shift > 0 {
		return b.gatherMoved(i, o), nil
	}
	return b.byType(i.Out[0], gatherOf[float32](b, i, o), gatherOf[uint16](b, i, o)), nil
}

func gatherOf[T kernel.Elem](b *builder, i *program.Instr, o program.GatherImages) func(*kernel.Ops[T]) func() {
	return func(ops *kernel.Ops[T]) func() {
		x := typed[T](b, i.Out[0])
		elems := i.Out[0].Elems() / i.Out[0].Shape[0]
		return b.eachImage(i, func(_, n int, image []uint8) { ops.Normalize(x[n*elems:(n+1)*elems], image, o.Mean, o.Std) })
	}
}

// gatherMoved is a gather with random shifts. Half images are made in float32 in the worker's part of the workspace.
func (b *builder) gatherMoved(i *program.Instr, o program.GatherImages) func() {
	counters, x, s := b.i32(i.In[2]), b.view(i.Out[0]), i.In[0].Shape
	elems := s[1] * s[2] * s[3]
	table := ref.Normalized(o.Mean, o.Std)
	work := device.View[float32](b.work(i.Work))
	return b.eachImage(i, func(worker, n int, image []uint8) {
		var buf []float32
		if x.dtype.Half() {
			buf = work[worker*elems:][:elems]
		}
		dst := x.target(n*elems, (n+1)*elems, buf)
		epoch, position := uint32(counters[program.CounterEpoch]), uint32(counters[program.CounterPosition])
		ref.MovedImage(dst, image, table, o.Shift, o.Seed, epoch, position+uint32(n), s[1], s[2], s[3])
		x.store(dst, n*elems)
	})
}

// eachImage calls f for each image of the batch. The order is random, so images are asked for ahead: without that each one's
// first lines would be waited for.
func (b *builder) eachImage(i *program.Instr, f func(worker, n int, image []uint8)) func() {
	images, order, counters := b.u8(i.In[0]), b.i32(i.In[1]), b.i32(i.In[2])
	elems := i.In[0].Elems() / i.In[0].Shape[0]
	return b.rowwise(i.Out[0].Shape[0], elems, func(worker, from, to int) {
		position := int(counters[program.CounterPosition])
		for n := from; n < to; n++ {
			if ahead := position + n + prefetchImages; ahead < len(order) {
				kernel.Prefetch(unsafe.Pointer(&images[int(order[ahead])*elems]), elems)
			}
			f(worker, n, images[int(order[position+n])*elems:][:elems])
		}
	})
}

// prefetchImages is how many images ahead of the one at hand are asked for.
const prefetchImages = 6

func buildGatherRows(b *builder, i *program.Instr, _ program.GatherRows) (func(), error) {
	order, counters := b.i32(i.In[1]), b.i32(i.In[2])
	rows := i.Out[0].Shape[0]
	elems := i.Out[0].Elems() / rows
	if i.In[0].DType == program.Int32 {
		src, dst := b.i32(i.In[0]), b.i32(i.Out[0])
		return b.rowwise(rows, elems, func(_, from, to int) {
			position := int(counters[program.CounterPosition])
			for n := from; n < to; n++ {
				copy(dst[n*elems:(n+1)*elems], src[int(order[position+n])*elems:])
			}
		}), nil
	}
	src, dst := b.f32(i.In[0]), b.view(i.Out[0])
	return b.rowwise(rows, elems, func(_, from, to int) {
		position := int(counters[program.CounterPosition])
		for n := from; n < to; n++ {
			row := src[int(order[position+n])*elems:][:elems]
			if dst.dtype == program.Float32 {
				copy(dst.f32[n*elems:], row)
			} else {
				dst.store(row, n*elems)
			}
		}
	}), nil
}

func buildOneHot(b *builder, i *program.Instr, _ program.OneHot) (func(), error) {
	labels, y, c := b.i32(i.In[0]), b.f32(i.Out[0]), i.Out[0].Shape[1]
	return func() { ref.OneHot(y, labels, c) }, nil
}

func buildConstant(b *builder, i *program.Instr, o program.Constant) (func(), error) {
	y := b.f32(i.Out[0])
	return func() { y[0] = o.Value }, nil
}
