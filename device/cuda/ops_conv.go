//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"halfstep/model/op/ref"
	"halfstep/program"
)

// tilePart is how many rows of a tile end together: PART in kernels/matmul.h.
const tilePart = 64

// poolsInTile reports whether a max pool can be fused into the convolution's kernel: windows side by side, of as many
// pixels as divide a tile's part.
func poolsInTile(p ref.Pool) bool { return p.Size == p.Stride && tilePart%(p.Size*p.Size) == 0 }

// convKernel is what computes a convolution or one of its gradients.
type convKernel int

const (
	byGemm  convKernel = iota // any shape; of gradients, only from the gradient at the convolution's own output
	byRows                    // rows stay in shared memory
	byThin                    // few input channels
	byParts                   // the convolution, and its pool apart
)

func (d *Device) forwardKernel(i *program.Instr, o program.Conv2D, v conv) convKernel {
	same := i.In[0].DType == i.Out[0].DType // else float32 is wanted of half operands
	switch {
	case same && v.thinForward(o.Pool):
		return byThin
	case same && d.rowsForward(v, i.In[0].DType, o.Pool).rows > 0:
		return byRows
	case o.Pool.Size == 0 || poolsInTile(o.Pool):
		return byGemm
	}
	return byParts
}

// conv2DWork is the workspace of the forward product.
func (d *Device) conv2DWork(i *program.Instr, o program.Conv2D) int64 {
	v := newConv(o.Conv, i.In[0], i.In[1])
	switch d.forwardKernel(i, o, v) {
	case byGemm:
		if o.Pool.Size == 0 {
			return v.fwd().work()
		}
	case byParts:
		return d.conv2DWork(unpooled(i, o, v)) + v.outputBytes(i.Out[0].DType)
	}
	return 0
}

// unpooled is the instruction without its pool.
func unpooled(i *program.Instr, o program.Conv2D, v conv) (*program.Instr, program.Conv2D) {
	o.Pool = ref.Pool{}
	return &program.Instr{Op: o, In: i.In, Out: []*program.Value{v.output(i.Out[0].DType)}}, o
}

// outputBytes is the size of the convolution's own output.
func (v conv) outputBytes(d program.DType) int64 {
	return alignUp(int64(v.pixels()) * int64(v.oc) * int64(d.Size()))
}

// takeOutput is room for it in the workspace.
func (b *builder) takeOutput(v conv, d program.DType) ptr {
	if n := v.pixels() * v.oc; n > maxElems {
		b.failf("the convolution has %d outputs before its pool, at most %d: %w", n, maxElems, errNoKernel)
	}
	return b.take(v.outputBytes(d))
}

func conv2D(b *builder, i *program.Instr, o program.Conv2D) {
	v := newConv(o.Conv, i.In[0], i.In[1])
	y := i.Out[0]
	e := epilogue{c: b.ptr(y), relu: int32of(o.ReLU)}
	if o.Bias {
		e.bias = b.ptr(i.In[2])
	}
	if o.Pool.Size > 0 {
		e.argmax, e.pool = b.ptr(i.Out[1]), int32(o.Pool.Size*o.Pool.Size)
	}
	b.convForward(i, o, v, e)
}

func (b *builder) convForward(i *program.Instr, o program.Conv2D, v conv, e epilogue) {
	x, w, y := i.In[0], i.In[1], i.Out[0]
	switch b.d.forwardKernel(i, o, v) {
	case byThin:
		b.convThin(v, e, o.Pool, x, w)
	case byRows:
		var g outputGrad
		g.setPool(o.Pool, v)
		b.convRows(b.d.rowsForward(v, x.DType, o.Pool), v, e, b.ptr(x), b.ptr(w), g, v.oc)
	case byGemm:
		b.convGemm(i, o, v, e)
	case byParts:
		e.c, e.argmax, e.pool = b.takeOutput(v, y.DType), 0, 0
		alone, op := unpooled(i, o, v)
		b.convForward(alone, op, v, e)
		b.pool("max_pool2d", o.Pool, b.ptr(y), b.ptr(i.Out[1]), e.c, y.Elems(), y.DType, []int{v.batch, v.oh, v.ow, v.oc}, o.ReLU)
	}
}

// convGemm appends the product for any shape, with a pool whose windows fit into its tiles.
func (b *builder) convGemm(i *program.Instr, o program.Conv2D, v conv, e epilogue) {
	x, w, p := i.In[0], i.In[1], v.fwd()
	var pool, ph, pw int
	if o.Pool.Size > 0 {
		pool = o.Pool.Size
		ph, pw = o.Pool.Out(v.oh, v.ow)
		p.m = v.batch * ph * pw * pool * pool // the pixels of whole windows only
	}
	multiply(b, "conv2d", p, x.DType, i.Out[0].DType, e, func(e epilogue) convArgs {
		a := v.args(e, b.ptr(x), b.ptr(w))
		a.pool, a.ph, a.pw = int32(pool), int32(ph), int32(pw)
		a.vecA, a.vecB = vectors(v.c, x.DType), vectors(v.oc, x.DType)
		return a
	})
}

// The gradients of a convolution alone are a backward pass of one of them.

func conv2DGradX(b *builder, i *program.Instr, o program.Conv2DGradX) {
	w, dy, dx := i.In[0], i.In[1], i.Out[0]
	b.convGradX(newConv(o.Conv, dx, w), dx, w, 0, outputGrad{dy: b.ptr(dy)}, ref.Pool{})
}

func conv2DGradW(b *builder, i *program.Instr, o program.Conv2DGradW) {
	x, dy, dw := i.In[0], i.In[1], i.Out[0]
	b.convGradW(newConv(o.Conv, x, dw), x, dw, 0, outputGrad{dy: b.ptr(dy)}, ref.Pool{})
}

// gradXKernel: the operands are of type t, dx of type out.
func (d *Device) gradXKernel(v conv, t, out program.DType, p ref.Pool) convKernel {
	if out == t && d.rowsGradX(v, t, p).rows > 0 {
		return byRows
	}
	return byGemm
}

// gradWKernel: dw may be float32 beside half operands.
func (d *Device) gradWKernel(v conv, t program.DType, p ref.Pool) convKernel {
	k, _ := d.rowsGradW(v, t, p)
	switch {
	case v.thinGradW(p):
		return byThin
	case k.rows > 0:
		return byRows
	}
	return byGemm
}

// gradWWork is the workspace of the weights' and, with bias, the bias's gradient.
func (d *Device) gradWWork(v conv, t program.DType, p ref.Pool, bias bool) int64 {
	switch d.gradWKernel(v, t, p) {
	case byThin:
		return v.thinGradWWork()
	case byRows:
		_, images := d.rowsGradW(v, t, p)
		return v.rowsGradWWork(images)
	}
	bytes := v.gradW().work()
	if bias {
		bytes += columnWork(v.output(t))
	}
	return bytes
}

func (d *Device) gradXWork(v conv, t, out program.DType, p ref.Pool) int64 {
	if d.gradXKernel(v, t, out, p) == byRows {
		return 0
	}
	return v.gradX().work()
}

// convGradX appends the input's gradient; with a mask it is 0 where that is not above 0.
func (b *builder) convGradX(v conv, dx, w *program.Value, mask ptr, g outputGrad, p ref.Pool) {
	e := epilogue{c: b.ptr(dx), mask: mask}
	if b.d.gradXKernel(v, w.DType, dx.DType, p) == byRows {
		b.convRows(b.d.rowsGradX(v, w.DType, p), v, e, 0, b.ptr(w), g, v.c)
		return
	}
	multiply(b, "conv2d_grad_x", v.gradX(), w.DType, dx.DType, e, func(e epilogue) convArgs {
		a := v.args(e, g.dy, b.ptr(w))
		a.vecA, a.vecB = vectors(v.oc, w.DType), vectors(v.oc, w.DType)
		return a
	})
}

// convGradW appends the weights' gradient and, unless db is 0, the bias's.
func (b *builder) convGradW(v conv, x, dw *program.Value, db ptr, g outputGrad, p ref.Pool) {
	switch b.d.gradWKernel(v, x.DType, p) {
	case byThin:
		b.convThinGradW(v, x, g, dw, db)
	case byRows:
		k, images := b.d.rowsGradW(v, x.DType, p)
		b.convRowsGradW(k, images, v, b.ptr(x), g, dw, db)
	default:
		multiply(b, "conv2d_grad_w", v.gradW(), x.DType, dw.DType, epilogue{c: b.ptr(dw)}, func(e epilogue) convArgs {
			a := v.args(e, b.ptr(x), g.dy)
			a.vecA, a.vecB = vectors(v.c, x.DType), vectors(v.oc, x.DType)
			return a
		})
		if db != 0 {
			b.biasGrad(v.output(x.DType), g.dy, db)
		}
	}
}

// undoes tells whether the gradient at the convolution's own output must be made in memory: where a pool or ReLU was fused,
// and a kernel that reads it cannot undo them.
func (d *Device) undoes(i *program.Instr, o program.Conv2DBackward, v conv) bool {
	fused, t := o.Pool.Size > 0 || o.ReLU, i.In[0].DType
	return fused && (d.gradWKernel(v, t, o.Pool) == byGemm || o.NeedX && d.gradXKernel(v, t, last(i.Out).DType, o.Pool) == byGemm)
}

func last(vs []*program.Value) *program.Value { return vs[len(vs)-1] }

// lends tells whether dx, which is written last, has room for the partial sums of the other gradients until then.
func lends(i *program.Instr, o program.Conv2DBackward, sums int64) bool {
	return o.NeedX && last(i.Out).Bytes >= sums
}

// conv2DBackwardWork has room for the gradient at the convolution's own output, and for partial sums.
func (d *Device) conv2DBackwardWork(i *program.Instr, o program.Conv2DBackward) int64 {
	v, t, p := newConv(o.Conv, i.In[0], i.In[1]), i.In[0].DType, o.Pool
	var bytes int64
	if d.undoes(i, o, v) {
		bytes, p = v.outputBytes(t), ref.Pool{}
	}
	if sums := d.gradWWork(v, t, p, o.Bias); !lends(i, o, sums) {
		bytes += sums
	}
	if o.NeedX {
		bytes += d.gradXWork(v, t, last(i.Out).DType, p)
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
	var g outputGrad
	var p ref.Pool
	if b.d.undoes(i, o, v) {
		g.dy = b.undone(i, o, v)
	} else {
		g, p = b.newOutputGrad(i, o, v), o.Pool
	}
	var db ptr
	if o.Bias {
		db = b.ptr(i.Out[1])
	}
	work := b.work
	borrowed := lends(i, o, b.d.gradWWork(v, x.DType, p, o.Bias))
	if borrowed {
		b.work = b.ptr(last(i.Out))
	}
	b.convGradW(v, x, i.Out[0], db, g, p)
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
	b.convGradX(v, last(i.Out), i.In[1], mask, g, p)
}

// undone makes the gradient at the convolution's own output in the workspace: dy with the pool or ReLU undone.
func (b *builder) undone(i *program.Instr, o program.Conv2DBackward, v conv) ptr {
	d, dy := i.In[0].DType, b.ptr(i.In[2])
	dz := b.takeOutput(v, d)
	if o.Pool.Size == 0 {
		b.activationGrad(dz, i.In[3], dy, ref.ReLU)
		return dz
	}
	like := v.output(d) // a window that ReLU removed is marked by a position outside
	b.pool("max_pool2d_grad", o.Pool, dz, b.ptr(i.In[3]), dy, like.Elems(), d, like.Shape, false)
	return dz
}
