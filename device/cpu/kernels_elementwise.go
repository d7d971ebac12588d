package cpu

import (
	"halfstep/device/cpu/kernel"
	"halfstep/model/op/ref"
	"halfstep/philox"
	"halfstep/program"
)

func buildCast(b *builder, i *program.Instr, _ program.Cast) (func(), error) {
	in, out := b.view(i.In[0]), b.view(i.Out[0])
	return b.each(i.In[0].Elems(), func(worker, from, to int) {
		x := in.load(from, to, b.scratch[worker].buf[0])
		copy(out.target(from, to, x), x)
		out.store(x, from)
	}), nil
}

func buildActivation(b *builder, i *program.Instr, o program.Activation) (func(), error) {
	if o.Kind == ref.ReLU {
		return b.byType(i.In[0], reluOf[float32](b, i), reluOf[uint16](b, i)), nil
	}
	return b.elementwise(i.Out[0], i.In, func(y []float32, in [][]float32) { b.vec.Activate(o.Kind, y, in[0]) }), nil
}

func reluOf[T kernel.Elem](b *builder, i *program.Instr) func(*kernel.Ops[T]) func() {
	return func(ops *kernel.Ops[T]) func() {
		x, y := typed[T](b, i.In[0]), typed[T](b, i.Out[0])
		return b.each(i.In[0].Elems(), func(_, from, to int) { ops.ReLU(y[from:to], x[from:to]) })
	}
}

func buildActivationGrad(b *builder, i *program.Instr, o program.ActivationGrad) (func(), error) {
	if o.Kind == ref.ReLU {
		return b.byType(i.In[0], reluGradOf[float32](b, i), reluGradOf[uint16](b, i)), nil
	}
	return b.elementwise(i.Out[0], i.In, func(dx []float32, in [][]float32) { b.vec.ActivateGrad(o.Kind, dx, in[0], in[1]) }), nil
}

func reluGradOf[T kernel.Elem](b *builder, i *program.Instr) func(*kernel.Ops[T]) func() {
	return func(ops *kernel.Ops[T]) func() {
		y, dy, dx := typed[T](b, i.In[0]), typed[T](b, i.In[1]), typed[T](b, i.Out[0])
		return b.each(i.In[0].Elems(), func(_, from, to int) { ops.ReLUGrad(dx[from:to], y[from:to], dy[from:to]) })
	}
}

func buildAdd(b *builder, i *program.Instr, _ program.Add) (func(), error) {
	return b.byType(i.In[0], addOf[float32](b, i), addOf[uint16](b, i)), nil
}

func addOf[T kernel.Elem](b *builder, i *program.Instr) func(*kernel.Ops[T]) func() {
	return func(ops *kernel.Ops[T]) func() {
		x, z, y := typed[T](b, i.In[0]), typed[T](b, i.In[1]), typed[T](b, i.Out[0])
		return b.each(i.In[0].Elems(), func(_, from, to int) { ops.Add(y[from:to], x[from:to], z[from:to]) })
	}
}

// buildReshape does nothing: the result is the operand's memory.
func buildReshape(*builder, *program.Instr, program.Reshape) (func(), error) { return func() {}, nil }

// softmaxCost is how many elementwise steps an element of a softmax is worth when work is cut into tasks.
const softmaxCost = 8

func buildSoftmax(b *builder, i *program.Instr, _ program.Softmax) (func(), error) {
	x, y, c := b.f32(i.In[0]), b.f32(i.Out[0]), i.In[0].Shape[1]
	return b.rowwise(i.In[0].Shape[0], c*softmaxCost, func(_, from, to int) { b.vec.Softmax(y[from*c:to*c], x[from*c:to*c], c) }), nil
}

func buildSoftmaxGrad(b *builder, i *program.Instr, _ program.SoftmaxGrad) (func(), error) {
	y, dy, dx, c := b.f32(i.In[0]), b.f32(i.In[1]), b.f32(i.Out[0]), i.In[0].Shape[1]
	return b.rowwise(i.In[0].Shape[0], c*lossCost, func(_, from, to int) {
		ref.SoftmaxGrad(dx[from*c:to*c], y[from*c:to*c], dy[from*c:to*c], c)
	}), nil
}

// buildDropout draws the mask and applies it, sample by sample.
func buildDropout(b *builder, i *program.Instr, o program.Dropout) (func(), error) {
	return b.byType(i.In[0], dropoutOf[float32](b, i, o), dropoutOf[uint16](b, i, o)), nil
}

func dropoutOf[T kernel.Elem](b *builder, i *program.Instr, o program.Dropout) func(*kernel.Ops[T]) func() {
	return func(ops *kernel.Ops[T]) func() {
		x, y, mask, counters := typed[T](b, i.In[0]), typed[T](b, i.Out[0]), b.u8(i.Out[1]), b.i32(i.In[1])
		samples := i.In[0].Shape[0]
		elems := i.In[0].Elems() / samples
		stream := kernel.NewDropoutStream(o.Seed, philox.Dropout+uint32(o.Layer), o.Rate)
		scale := ref.DropoutScale(o.Rate)
		return b.rowwise(samples, elems, func(_, from, to int) {
			epoch, position := uint32(counters[program.CounterEpoch]), uint32(counters[program.CounterPosition])
			for n := from; n < to; n++ {
				m := mask[n*elems : (n+1)*elems]
				b.vec.DropoutMask(m, stream, epoch, position+uint32(n))
				ops.ApplyMask(y[n*elems:(n+1)*elems], x[n*elems:(n+1)*elems], m, scale)
			}
		})
	}
}

func buildApplyMask(b *builder, i *program.Instr, o program.ApplyMask) (func(), error) {
	return b.byType(i.In[0], applyMaskOf[float32](b, i, o), applyMaskOf[uint16](b, i, o)), nil
}

func applyMaskOf[T kernel.Elem](b *builder, i *program.Instr, o program.ApplyMask) func(*kernel.Ops[T]) func() {
	return func(ops *kernel.Ops[T]) func() {
		dy, dx, mask := typed[T](b, i.In[0]), typed[T](b, i.Out[0]), b.u8(i.In[1])
		scale := ref.DropoutScale(o.Rate)
		return b.each(i.In[0].Elems(), func(_, from, to int) { ops.ApplyMask(dx[from:to], dy[from:to], mask[from:to], scale) })
	}
}
