package cpu

import (
	"unsafe"

	"halfstep/device"
	"halfstep/device/cpu/kernel"
	"halfstep/model/op/ref"
	"halfstep/program"
)

func buildGatherImages(b *builder, i *program.Instr, o program.GatherImages) (func(), error) {
	images, order, counters, x := b.u8(i.In[0]), b.i32(i.In[1]), b.i32(i.In[2]), b.view(i.Out[0])
	s := i.In[0].Shape
	h, w, c, batch := s[1], s[2], s[3], i.Out[0].Shape[0]
	elems := h * w * c
	table := ref.Normalized(o.Mean, o.Std)
	work := device.View[float32](b.work(i.Work)) // a sample in float32 per worker, when x is half
	return b.rowwise(batch, elems, func(worker, from, to int) {
		epoch, position := uint32(counters[program.CounterEpoch]), uint32(counters[program.CounterPosition])
		gather := func(dst []float32, n int) {
			ref.GatherImages(dst, images, order, table, o.Shift, o.Seed, epoch, position+uint32(n), h, w, c, 0, 1)
		}
		for n := from; n < to; n++ {
			// The order is random: without help each image's first lines are waited for.
			if ahead := int(position) + n + prefetchImages; ahead < len(order) {
				kernel.Prefetch(unsafe.Pointer(&images[int(order[ahead])*elems]), elems)
			}
			if x.dtype == program.Float32 {
				gather(x.f32[n*elems:(n+1)*elems], n)
				continue
			}
			buf := work[worker*elems:][:elems]
			gather(buf, n)
			x.store(buf, n*elems)
		}
	}), nil
}

// prefetchImages is how many images ahead of the one at hand are asked for.
const prefetchImages = 3

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
