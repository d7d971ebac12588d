//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"halfstep/model/op/ref"
	"halfstep/program"
)

// poolsInTile reports whether a max pool can be fused into the convolution's kernel: windows side by side, of as many
// pixels as divide a tile's rows.
func poolsInTile(p ref.Pool) bool { return p.Size == p.Stride && tileM%(p.Size*p.Size) == 0 }

// conv2DWork has room for the unpooled output where the pool is a kernel of its own.
func conv2DWork(i *program.Instr, o program.Conv2D) int64 {
	v := newConv(o.Conv, i.In[0], i.In[1])
	switch {
	case o.Pool.Size == 0:
		return v.fwd().work()
	case poolsInTile(o.Pool):
		return 0
	}
	return v.fwd().work() + v.outputBytes(i.Out[0].DType)
}

// outputBytes is the size of the convolution's own output.
func (v conv) outputBytes(d program.DType) int64 {
	return alignUp(int64(v.pixels()) * int64(v.oc) * int64(d.Size()))
}

func conv2D(b *builder, i *program.Instr, o program.Conv2D) {
	v := newConv(o.Conv, i.In[0], i.In[1])
	y := i.Out[0]
	e := epilogue{c: b.ptr(y), relu: int32of(o.ReLU)}
	if o.Bias {
		e.bias = b.ptr(i.In[2])
	}
	switch {
	case o.Pool.Size == 0:
		b.convForward(i, v, v.fwd(), e, ref.Pool{})
	case poolsInTile(o.Pool):
		ph, pw := o.Pool.Out(v.oh, v.ow)
		p := v.fwd()
		p.m = v.batch * ph * pw * o.Pool.Size * o.Pool.Size // the pixels of whole windows only
		e.argmax, e.pool = b.ptr(i.Out[1]), int32(o.Pool.Size*o.Pool.Size)
		b.convForward(i, v, p, e, o.Pool)
	default:
		e.c = b.take(v.outputBytes(y.DType))
		b.convForward(i, v, v.fwd(), e, ref.Pool{})
		b.pool("max_pool2d", o.Pool, b.ptr(y), b.ptr(i.Out[1]), e.c, y.Elems(), y.DType, []int{v.batch, v.oh, v.ow, v.oc}, o.ReLU)
	}
}

func (b *builder) convForward(i *program.Instr, v conv, p product, e epilogue, pool ref.Pool) {
	x, w := i.In[0], i.In[1]
	multiply(b, "conv2d", p, x.DType, i.Out[0].DType, e, func(e epilogue) convArgs {
		a := v.args(e, b.ptr(x), b.ptr(w))
		if pool.Size > 0 {
			ph, pw := pool.Out(v.oh, v.ow)
			a.pool, a.ph, a.pw = int32(pool.Size), int32(ph), int32(pw)
		}
		a.vecA, a.vecB = vectors(v.c, x.DType), vectors(v.oc, x.DType)
		return a
	})
}

func conv2DGradX(b *builder, i *program.Instr, o program.Conv2DGradX) {
	w, dy, dx := i.In[0], i.In[1], i.Out[0]
	b.convGradX(newConv(o.Conv, dx, w), dx, w, b.ptr(dy), 0)
}

// convGradX appends the input's gradient; with a mask it is 0 where that is not above 0.
func (b *builder) convGradX(v conv, dx, w *program.Value, dy, mask ptr) {
	multiply(b, "conv2d_grad_x", v.gradX(), w.DType, dx.DType, epilogue{c: b.ptr(dx), mask: mask}, func(e epilogue) convArgs {
		a := v.args(e, dy, b.ptr(w))
		a.vecA, a.vecB = vectors(v.oc, w.DType), vectors(v.oc, w.DType)
		return a
	})
}

func conv2DGradW(b *builder, i *program.Instr, o program.Conv2DGradW) {
	x, dy, dw := i.In[0], i.In[1], i.Out[0]
	b.convGradW(newConv(o.Conv, x, dw), x, dw, b.ptr(dy))
}

func (b *builder) convGradW(v conv, x, dw *program.Value, dy ptr) {
	multiply(b, "conv2d_grad_w", v.gradW(), x.DType, dw.DType, epilogue{c: b.ptr(dw)}, func(e epilogue) convArgs {
		a := v.args(e, b.ptr(x), dy)
		a.vecA, a.vecB = vectors(v.c, x.DType), vectors(v.oc, x.DType)
		return a
	})
}

// sumsWork is the workspace of the weights' and the bias's gradients.
func (v conv) sumsWork(o program.Conv2DBackward, d program.DType) int64 {
	bytes := v.gradW().work()
	if o.Bias {
		bytes += columnWork(v.output(d))
	}
	return bytes
}

// lends tells whether dx, which is written last, has room for the partial sums of the other gradients until then.
func lends(i *program.Instr, o program.Conv2DBackward, sums int64) bool {
	return o.NeedX && i.Out[len(i.Out)-1].Bytes >= sums
}

// conv2DBackwardWork has room for the gradient at the convolution's own output, and for partial sums.
func conv2DBackwardWork(i *program.Instr, o program.Conv2DBackward) int64 {
	v := newConv(o.Conv, i.In[0], i.In[1])
	d := i.In[0].DType
	var bytes int64
	if o.Pool.Size > 0 || o.ReLU {
		bytes = v.outputBytes(d)
	}
	if sums := v.sumsWork(o, d); !lends(i, o, sums) {
		bytes += sums
	}
	if o.NeedX {
		bytes += v.gradX().work()
	}
	return bytes
}

// output is a value like the convolution's own output, which is in no program once a pool is fused.
func (v conv) output(d program.DType) *program.Value {
	return &program.Value{Name: "dz", Shape: []int{v.batch, v.oh, v.ow, v.oc}, DType: d}
}

func conv2DBackward(b *builder, i *program.Instr, o program.Conv2DBackward) {
	x := i.In[0]
	v := newConv(o.Conv, x, i.In[1])
	dz := b.outputGrad(i, o, v)
	work := b.work
	borrowed := lends(i, o, v.sumsWork(o, x.DType))
	if borrowed {
		b.work = b.ptr(i.Out[len(i.Out)-1])
	}
	b.convGradW(v, x, i.Out[0], dz)
	if o.Bias {
		b.biasGrad(v.output(x.DType), dz, b.ptr(i.Out[1]))
	}
	if borrowed {
		b.work = work
	}
	if !o.NeedX {
		return
	}
	var mask ptr
	if o.MaskX {
		mask = b.ptr(x)
	}
	b.convGradX(v, i.Out[len(i.Out)-1], i.In[1], dz, mask)
}

// outputGrad is the gradient at the convolution's own output: dy, or in the workspace dy with the pool and ReLU undone.
func (b *builder) outputGrad(i *program.Instr, o program.Conv2DBackward, v conv) ptr {
	d, dy := i.In[0].DType, b.ptr(i.In[2])
	switch {
	case o.Pool.Size > 0: // a window that ReLU removed is marked by a position outside
		dz := b.take(v.outputBytes(d))
		like := v.output(d)
		b.pool("max_pool2d_grad", o.Pool, dz, b.ptr(i.In[3]), dy, like.Elems(), d, like.Shape, false)
		return dz
	case o.ReLU:
		dz := b.take(v.outputBytes(d))
		b.activationGrad(dz, i.In[3], dy, ref.ReLU)
		return dz
	}
	return dy
}
