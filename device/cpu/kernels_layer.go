package cpu

import (
	"unsafe"

	"halfstep/device/cpu/kernel"
	"halfstep/model/op/ref"
	"halfstep/program"
)

// convChunks is the number of groups of images whose weight gradients are summed separately: fixed, so that sums do not
// depend on the workers.
const convChunks = 32

func convShape(a ref.Conv, x, w *program.Value) kernel.ConvShape {
	return kernel.ConvShape{Conv: a, H: x.Shape[1], W: x.Shape[2], C: x.Shape[3], OC: w.Shape[3], DType: x.DType}
}

// imageBytes is the size of one sample.
func imageBytes(v *program.Value) uintptr { return uintptr(v.Bytes) / uintptr(v.Shape[0]) }

// convForward is the kernel of a Conv2D with the parts of its workspace.
type convForward struct {
	*kernel.ConvForward
	packed, scratch int64 // bytes, the latter per worker
}

func newConvForward(level kernel.Level, i *program.Instr, o program.Conv2D) (convForward, error) {
	f, err := kernel.NewConvForward(level, convShape(o.Conv, i.In[0], i.In[1]), o.Bias, o.ReLU, o.Pool)
	if err != nil {
		return convForward{}, err
	}
	return convForward{f, aligned(f.PackedBytes()), aligned(f.ScratchBytes())}, nil
}

func (f convForward) work(workers int) int64 { return f.packed + f.scratch*int64(workers) }

// aligned rounds up to whole cache lines.
func aligned(n int) int64 { return (int64(n) + cacheLine - 1) &^ (cacheLine - 1) }

func buildConv2D(b *builder, i *program.Instr, o program.Conv2D) (func(), error) {
	if b.exact(i) && !o.ReLU && o.Pool.Size == 0 {
		return b.refConv2D(i, o), nil
	}
	f, err := newConvForward(b.level, i, o)
	if err != nil {
		return nil, err
	}
	x, w, y := b.ptr(i.In[0]), b.ptr(i.In[1]), b.ptr(i.Out[0])
	var bias, idx unsafe.Pointer
	if o.Bias {
		bias = b.ptr(i.In[2])
	}
	var idxStep uintptr
	if o.Pool.Size > 0 {
		idx, idxStep = b.ptr(i.Out[1]), imageBytes(i.Out[1])
	}
	xStep, yStep := imageBytes(i.In[0]), imageBytes(i.Out[0])
	work := b.ptr(i.Work)
	images := i.In[0].Shape[0]
	body := func(worker, n int) {
		scratch := unsafe.Add(work, f.packed+f.scratch*int64(worker))
		f.Image(unsafe.Add(x, xStep*uintptr(n)), work, bias, unsafe.Add(y, yStep*uintptr(n)), offset(idx, idxStep*uintptr(n)), scratch)
	}
	return func() {
		f.Pack(work, w)
		b.pool.For(images, body)
	}, nil
}

// offset moves a pointer; nil stays nil.
func offset(p unsafe.Pointer, n uintptr) unsafe.Pointer {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, n)
}

// refConv2D is the portable float32 convolution by the defining loops, a few rows a task.
func (b *builder) refConv2D(i *program.Instr, o program.Conv2D) func() {
	x, w, y, s, oc := b.f32(i.In[0]), b.f32(i.In[1]), b.f32(i.Out[0]), i.In[0].Shape, i.In[1].Shape[3]
	var bias []float32
	if o.Bias {
		bias = b.f32(i.In[2])
	}
	rows := i.Out[0].Shape[0] * i.Out[0].Shape[1]
	return b.rowwise(rows, chunk, func(_, from, to int) {
		ref.Conv2D(o.Conv, y, x, w, bias, s[1], s[2], s[3], oc, from, to)
	})
}

// convBackward is the kernel of a convolution's backward pass with the parts of its workspace: packed weights,
// accumulators of convChunks groups, scratch per worker.
type convBackward struct {
	*kernel.ConvBackward
	packed, acc, scratch int64
	chunks               int
}

func newConvBackward(level kernel.Level, s kernel.ConvShape, images int, o program.Conv2DBackward) (convBackward, error) {
	k, err := kernel.NewConvBackward(level, s, o)
	if err != nil {
		return convBackward{}, err
	}
	return convBackward{k, aligned(k.PackedBytes()), aligned(k.AccBytes()), aligned(k.ScratchBytes()), min(images, convChunks)}, nil
}

func (k convBackward) work(workers int) int64 {
	return k.packed + k.acc*int64(k.chunks) + k.scratch*int64(workers)
}

// convOperands are the addresses of a backward pass; those it does not have are nil.
type convOperands struct {
	x, w, dy, idxOrY, dx, dw, db      unsafe.Pointer
	xStep, dyStep, idxOrYStep, dxStep uintptr
	images                            int
}

func (b *builder) convBackward(k convBackward, work unsafe.Pointer, p convOperands, needX bool) func() {
	accs := unsafe.Add(work, k.packed)
	accElems := k.AccBytes() / 4
	body := func(worker, c int) {
		acc := unsafe.Add(accs, k.acc*int64(c))
		clear(unsafe.Slice((*float32)(acc), accElems))
		scratch := unsafe.Add(accs, k.acc*int64(k.chunks)+k.scratch*int64(worker))
		for n := c * p.images / k.chunks; n < (c+1)*p.images/k.chunks; n++ {
			at := uintptr(n)
			k.Image(offset(p.x, p.xStep*at), work, unsafe.Add(p.dy, p.dyStep*at), offset(p.idxOrY, p.idxOrYStep*at),
				offset(p.dx, p.dxStep*at), acc, scratch)
		}
	}
	return func() {
		if needX {
			k.Pack(work, p.w)
		}
		b.pool.For(k.chunks, body)
		if p.dw != nil {
			k.Finish(p.dw, p.db, accs, k.chunks)
		}
	}
}

func buildConv2DBackward(b *builder, i *program.Instr, o program.Conv2DBackward) (func(), error) {
	x, w, dy := i.In[0], i.In[1], i.In[2]
	k, err := newConvBackward(b.level, convShape(o.Conv, x, w), x.Shape[0], o)
	if err != nil {
		return nil, err
	}
	p := convOperands{
		x: b.ptr(x), w: b.ptr(w), dy: b.ptr(dy), dw: b.ptr(i.Out[0]),
		xStep: imageBytes(x), dyStep: imageBytes(dy), images: x.Shape[0],
	}
	if len(i.In) > 3 {
		p.idxOrY, p.idxOrYStep = b.ptr(i.In[3]), imageBytes(i.In[3])
	}
	next := 1
	if o.Bias {
		p.db = b.ptr(i.Out[next])
		next++
	}
	if o.NeedX {
		p.dx, p.dxStep = b.ptr(i.Out[next]), imageBytes(i.Out[next])
	}
	return b.convBackward(k, b.ptr(i.Work), p, o.NeedX), nil
}

// buildConv2DGradW is the weight's gradient alone.
func buildConv2DGradW(b *builder, i *program.Instr, o program.Conv2DGradW) (func(), error) {
	x, dy, dw := i.In[0], i.In[1], i.Out[0]
	if b.exact(i) {
		xs, ds, ws, s, oc := b.f32(x), b.f32(dy), b.f32(dw), x.Shape, dw.Shape[3]
		rows := dw.Elems() / oc
		return b.rowwise(rows, chunk*grain, func(_, from, to int) {
			ref.Conv2DGradW(o.Conv, ws, xs, ds, s[0], s[1], s[2], s[3], oc, from, to)
		}), nil
	}
	k, err := newConvBackward(b.level, convShape(o.Conv, x, dw), x.Shape[0], program.Conv2DBackward{Conv: o.Conv})
	if err != nil {
		return nil, err
	}
	p := convOperands{x: b.ptr(x), dy: b.ptr(dy), dw: b.ptr(dw), xStep: imageBytes(x), dyStep: imageBytes(dy), images: x.Shape[0]}
	return b.convBackward(k, b.ptr(i.Work), p, false), nil
}

// buildConv2DGradX is the input's gradient alone. The kernel makes the weight's along with it, here from an image of
// zeros, and it is thrown away: only a layer that is not trained comes here.
func buildConv2DGradX(b *builder, i *program.Instr, o program.Conv2DGradX) (func(), error) {
	w, dy, dx := i.In[0], i.In[1], i.Out[0]
	if b.exact(i) {
		ws, ds, xs, s, oc := b.f32(w), b.f32(dy), b.f32(dx), dx.Shape, w.Shape[3]
		return b.rowwise(s[0]*s[1], chunk, func(_, from, to int) {
			ref.Conv2DGradX(o.Conv, xs, ws, ds, s[1], s[2], s[3], oc, from, to)
		}), nil
	}
	k, err := newConvBackward(b.level, convShape(o.Conv, dx, w), dx.Shape[0], program.Conv2DBackward{Conv: o.Conv, NeedX: true})
	if err != nil {
		return nil, err
	}
	zeros := unsafe.Add(b.ptr(i.Work), k.work(b.pool.Workers()))
	p := convOperands{
		x: zeros, w: b.ptr(w), dy: b.ptr(dy), dx: b.ptr(dx),
		dyStep: imageBytes(dy), dxStep: imageBytes(dx), images: dx.Shape[0],
	}
	run := b.convBackward(k, b.ptr(i.Work), p, true)
	image := int(imageBytes(dx))
	return func() {
		clear(unsafe.Slice((*byte)(zeros), image))
		run()
	}, nil
}

// gemmOf gives the matrix product of a linear layer's instruction.
func gemmOf(i *program.Instr) (s kernel.GEMMShape, ok bool) {
	a, c := i.In[0], i.Out[0]
	switch o := i.Op.(type) {
	case program.Linear: // y [B,N] = x [B,K] · w [K,N]
		s = kernel.GEMMShape{M: a.Shape[0], N: c.Shape[1], K: a.Shape[1], Bias: o.Bias, ReLU: o.ReLU}
	case program.LinearGradX: // dx [B,K] = dy [B,N] · wᵀ
		s = kernel.GEMMShape{M: a.Shape[0], N: c.Shape[1], K: a.Shape[1], TransB: true, MaskReLU: o.MaskX}
	case program.LinearGradW: // dw [K,N] = xᵀ · dy [B,N]
		s = kernel.GEMMShape{M: c.Shape[0], N: c.Shape[1], K: a.Shape[0], TransA: true, ColSum: o.Bias}
	default:
		return s, false
	}
	s.A, s.B, s.C = a.DType, i.In[1].DType, c.DType
	return s, true
}

// buildLinear makes the kernel of a linear layer's three products.
func buildLinear[O program.Op](b *builder, i *program.Instr, _ O) (func(), error) {
	s, _ := gemmOf(i)
	k, err := kernel.NewGEMM(b.level, s, b.pool)
	if err != nil {
		return nil, err
	}
	var e kernel.Epilogue
	switch {
	case s.Bias:
		e.Bias = b.ptr(i.In[2])
	case s.MaskReLU:
		e.Mask = b.ptr(i.In[2])
	case s.ColSum:
		e.ColSum = b.ptr(i.Out[1])
	}
	x, y, z, work := b.ptr(i.In[0]), b.ptr(i.In[1]), b.ptr(i.Out[0]), b.ptr(i.Work)
	return func() { k.Run(x, y, z, e, work) }, nil
}
