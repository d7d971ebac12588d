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

// conv2DBackwardWork has room for the gradient at the convolution's own output, and each product's partials.
func conv2DBackwardWork(i *program.Instr, o program.Conv2DBackward) int64 {
	v := newConv(o.Conv, i.In[0], i.In[1])
	d := i.In[0].DType
	bytes := v.gradW().work()
	if o.Pool.Size > 0 || o.ReLU {
		bytes += v.outputBytes(d)
	}
	if o.Bias {
		bytes += columnWork(v.output(d))
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

// conv2DBackward undoes the pool and the ReLU in the workspace, then computes the gradients.
func conv2DBackward(b *builder, i *program.Instr, o program.Conv2DBackward) {
	x, w, dy := i.In[0], i.In[1], b.ptr(i.In[2])
	v := newConv(o.Conv, x, w)
	dz := v.output(x.DType)
	switch {
	case o.Pool.Size > 0: // a window that ReLU removed is marked by a position outside
		unpooled := b.take(v.outputBytes(x.DType))
		b.pool("max_pool2d_grad", o.Pool, unpooled, b.ptr(i.In[3]), dy, dz.Elems(), x.DType, dz.Shape, false)
		dy = unpooled
	case o.ReLU:
		masked := b.take(v.outputBytes(x.DType))
		b.activationGrad(masked, i.In[3], dy, ref.ReLU)
		dy = masked
	}
	b.convGradW(v, x, i.Out[0], dy)
	next := 1
	if o.Bias {
		b.biasGrad(dz, dy, b.ptr(i.Out[next]))
		next++
	}
	if !o.NeedX {
		return
	}
	var mask ptr
	if o.MaskX {
		mask = b.ptr(x)
	}
	b.convGradX(v, i.Out[next], w, dy, mask)
}
