package cpu

import (
	"halfstep/device"
	"halfstep/model/op/ref"
	"halfstep/program"
)

// pooled runs a float32 loop over one image at a time: in reads v's image n as float32, out is written. Half images are
// converted in the worker's part of the workspace.
func (b *builder) pooled(i *program.Instr, in, out *program.Value, f func(n int, dst, src []float32)) func() {
	src, dst := b.view(in), b.view(out)
	inElems, outElems := in.Elems()/in.Shape[0], out.Elems()/out.Shape[0]
	work := device.View[float32](b.work(i.Work))
	return b.rowwise(in.Shape[0], max(inElems, outElems), func(worker, from, to int) {
		var x, y []float32
		if in.DType != program.Float32 {
			x = work[worker*(inElems+outElems):][:inElems]
			y = work[worker*(inElems+outElems)+inElems:][:outElems]
		}
		for n := from; n < to; n++ {
			d := dst.target(n*outElems, (n+1)*outElems, y)
			f(n, d, src.load(n*inElems, (n+1)*inElems, x))
			dst.store(d, n*outElems)
		}
	})
}

// poolWork is the workspace of pooled.
func poolWork(in, out *program.Value, workers int) int64 {
	if in.DType == program.Float32 {
		return 0
	}
	return int64(in.Elems()/in.Shape[0]+out.Elems()/out.Shape[0]) * 4 * int64(workers)
}

func buildMaxPool2D(b *builder, i *program.Instr, o program.MaxPool2D) (func(), error) {
	s := i.In[0].Shape
	elems := i.Out[0].Elems() / s[0]
	var idx []uint8
	if len(i.Out) == 2 {
		idx = b.u8(i.Out[1])
	}
	return b.pooled(i, i.In[0], i.Out[0], func(n int, y, x []float32) {
		var at []uint8
		if idx != nil {
			at = idx[n*elems : (n+1)*elems]
		}
		b.vec.MaxPool2D(o.Pool, y, at, x, s[1], s[2], s[3])
	}), nil
}

func buildMaxPool2DGrad(b *builder, i *program.Instr, o program.MaxPool2DGrad) (func(), error) {
	s, idx := i.Out[0].Shape, b.u8(i.In[0])
	elems := i.In[1].Elems() / s[0]
	return b.pooled(i, i.In[1], i.Out[0], func(n int, dx, dy []float32) {
		b.vec.MaxPool2DGrad(o.Pool, dx, idx[n*elems:(n+1)*elems], dy, s[1], s[2], s[3])
	}), nil
}

func buildAvgPool2D(b *builder, i *program.Instr, o program.AvgPool2D) (func(), error) {
	s := i.In[0].Shape
	return b.pooled(i, i.In[0], i.Out[0], func(_ int, y, x []float32) {
		ref.AvgPool2D(o.Pool, y, x, s[1], s[2], s[3], 0, 1)
	}), nil
}

func buildAvgPool2DGrad(b *builder, i *program.Instr, o program.AvgPool2DGrad) (func(), error) {
	s := i.Out[0].Shape
	return b.pooled(i, i.In[0], i.Out[0], func(_ int, dx, dy []float32) {
		ref.AvgPool2DGrad(o.Pool, dx, dy, s[1], s[2], s[3], 0, 1)
	}), nil
}
