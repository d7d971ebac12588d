package kernel

import (
	"fmt"
	"unsafe"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// ConvBackward is program.Conv2DBackward for one image at a time. Its definition is the chain of ref.MaxPool2DGrad,
// ref.ActivateGrad, ref.BiasGrad, ref.Conv2DGradW, ref.Conv2DGradX and the ReLU of the layer before.
//
// The gradient at the convolution's own output exists only in scratch, one image in second-level cache, framed by zeros so
// that the gradient by x is a plain correlation with the turned weights; a stride spreads it out with zeros between. The
// gradient by w uses the forward pass's tile with other strides: elements of a run by output channels, summed over pixels.
type ConvBackward struct {
	shape ConvShape
	op    program.Conv2DBackward
	level Level
	dtype rowType
	bf16  bool // products are of pairs of bfloat16
	in    convInput
	grad  gradImage
	pairs pairImages
	out   blocks // of OC
	kh    int
	run   int   // elements of one kernel row of x
	tiles tiles // of run
	dx    gradX

	sparse  *sparseBackward // behind a 2x2 pool, where it applies; then grad, pairs, tiles and dx are unused
	scratch layout
}

// NewConvBackward plans the kernel at a level; s.Conv and o.Conv agree.
func NewConvBackward(l Level, s ConvShape, o program.Conv2DBackward) (*ConvBackward, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Conv != o.Conv {
		return nil, fmt.Errorf("conv2d backward: shape has %+v, instruction %+v", s.Conv, o.Conv)
	}
	oh, ow := s.Out(s.H, s.W)
	if o.Pool.Size > 0 {
		if err := checkPool(o.Pool, oh, ow); err != nil {
			return nil, err
		}
	}
	b := &ConvBackward{shape: s, op: o, level: l, dtype: rowTypeOf(s.DType), out: newBlocks(l, s.OC), kh: s.KH, run: s.KW * s.C}
	if sparseApplies(l, s, o) {
		b.in = newConvInput(l, s, false, &b.scratch)
		b.sparse = newSparseBackward(l, s, o, &b.in, &b.scratch)
		return b, nil
	}
	// Gradients of overlapping windows add up, in float32.
	b.bf16 = l == AVX512BF16 && b.dtype == rowBF16 && o.Pool.Stride >= o.Pool.Size
	b.in = newConvInput(l, s, b.bf16, &b.scratch)
	b.grad = newGradImage(l, s, o, b.bf16, b.out, &b.scratch)
	b.tiles = newTiles(b.run, l.convMaxTile())
	if b.bf16 {
		b.pairs = newPairImages(s, b.out, b.grad.pix, &b.scratch)
	}
	if o.NeedX {
		b.dx = newGradX(l, s, o.MaskX, b.bf16, &b.grad, &b.scratch)
	}
	return b, nil
}

// PackedBytes is the size of the packed weights, which all workers share; 0 when dx is not needed.
func (b *ConvBackward) PackedBytes() int {
	if !b.op.NeedX {
		return 0
	}
	if b.sparse != nil {
		return b.sparse.packedBytes() + cacheLine
	}
	return b.dx.corr.packedBytes() + cacheLine
}

// Pack lays out w [KH,KW,C,OC] for Image; once for every change of w.
func (b *ConvBackward) Pack(packed, w unsafe.Pointer) {
	switch {
	case !b.op.NeedX:
	case b.sparse != nil:
		b.sparse.pack(align(packed), w)
	default:
		packBackward(&b.dx.corr, b.shape, align(packed), w, b.dtype, b.out.padded)
	}
}

// AccBytes is the size of one accumulator of dw and db, a multiple of a cache line.
func (b *ConvBackward) AccBytes() int { return roundUp(4*(b.kh*b.run+1)*b.out.padded, cacheLine) }

// dbOff is where db begins in an accumulator.
func (b *ConvBackward) dbOff() int { return 4 * b.kh * b.run * b.out.padded }

// ScratchBytes is the size of a worker's scratch.
func (b *ConvBackward) ScratchBytes() int { return b.scratch.total() }

// Image adds one image's gradients by w and b to the accumulator and computes dx [H,W,C]. x [H,W,C]; dy [PH,PW,OC] with
// idx when pooled, else [OH,OW,OC] with y when there was ReLU. packed and dx are nil when dx is not needed.
func (b *ConvBackward) Image(x, packed, dy, idxOrY, dx, acc, scratch unsafe.Pointer) {
	scratch = align(scratch)
	if b.sparse != nil {
		b.sparse.image(x, b.in.load(x, scratch), align(packed), dy, idxOrY, dx, acc, scratch)
		return
	}
	d := b.grad.load(dy, idxOrY, scratch)
	if b.op.Bias {
		b.grad.sum(d, unsafe.Add(acc, b.dbOff()))
	}
	b.gradW(b.in.load(x, scratch), d, acc, scratch)
	if b.op.NeedX {
		b.dx.image(d, align(packed), x, dx, scratch)
	}
}

// gradW adds to dw in acc [block][KH][run][channels].
func (b *ConvBackward) gradW(x, d, acc, scratch unsafe.Pointer) {
	g := &b.grad
	t := convGradW{xPix: b.shape.Stride * b.in.pixel(), dyPix: g.pix, rows: g.oh, cols: g.ow}
	line, dyLine := b.in.line, g.line // of x, of dy
	if b.bf16 {
		p := &b.pairs
		x, d = p.x.load(b.level, x, b.in.line, scratch), p.dy.load(b.level, d, g.line, scratch)
		t.xPix, t.dyPix, t.cols = 2*b.shape.Stride*p.x.pixel(), p.dy.pixel(), p.dy.count
		line, dyLine = p.x.line, p.dy.line
	}
	t.xJump, t.dyJump = b.shape.Stride*line-t.cols*t.xPix, dyLine-t.cols*t.dyPix
	for i := range b.out.count() {
		nv := b.out.vectors(i)
		t.dy = unsafe.Add(d, 4*b.out.first(i))
		dw := unsafe.Add(acc, 4*b.kh*b.run*b.out.first(i))
		for kh := range b.kh {
			k := 0
			for j := range b.tiles.count {
				t.m = b.tiles.of(j)
				t.x, t.dw = unsafe.Add(x, kh*line+4*k), unsafe.Add(dw, 4*(kh*b.run+k)*nv*b.out.lanes)
				b.level.convGradW(nv, b.bf16, &t)
				k += t.m
			}
		}
	}
}

// Finish sums nacc accumulators, which lie one after the other, in order; dw [KH,KW,C,OC] gets the dtype, db [OC] is
// float32, nil without a bias.
func (b *ConvBackward) Finish(dw, db, acc unsafe.Pointer, nacc int) {
	if b.sparse != nil {
		b.sparse.finish(dw, acc, b.AccBytes(), nacc)
	} else {
		b.finishW(dw, acc, nacc)
	}
	if !b.op.Bias {
		return
	}
	var buf [packChunk]float32
	for o := 0; o < b.out.padded; o += packChunk {
		n := min(packChunk, b.out.padded-o)
		b.level.convSumAcc(unsafe.Pointer(&buf), unsafe.Add(acc, b.dbOff()+4*o), n, b.AccBytes(), nacc)
		copy(unsafe.Slice(f32At(db, 4*o), min(n, b.shape.OC-o)), buf[:])
	}
}

// finishW sums dw.
func (b *ConvBackward) finishW(dw, acc unsafe.Pointer, nacc int) {
	var buf [packChunk]float32
	sum := unsafe.Pointer(&buf)
	rows := b.kh * b.run
	for i := range b.out.count() {
		width := b.out.vectors(i) * b.out.lanes
		most := packChunk / width
		t := convRows{src: sum, c: b.out.channels(i), srcPix: 4 * width, dstPix: b.shape.OC * b.dtype.bytes()}
		for r := 0; r < rows; r += most {
			t.n = min(most, rows-r)
			b.level.convSumAcc(sum, unsafe.Add(acc, 4*(rows*b.out.first(i)+r*width)), t.n*width, b.AccBytes(), nacc)
			t.dst = unsafe.Add(dw, (r*b.shape.OC+b.out.first(i))*b.dtype.bytes())
			b.level.convRows(&t, rowF32, b.dtype, false)
		}
	}
}

// gradX is the gradient by the input: the correlation of the framed dy with the turned weights.
type gradX struct {
	corr   correlation
	shape  ConvShape
	dtype  rowType
	mask   bool
	rows   int // of the spread dy without its frame
	start  int // bytes from gradient 0 to the window of dx's first pixel
	direct bool
	bias   int // scratch: zeros
	row    int // scratch: one row of a block's sums
}

func newGradX(l Level, s ConvShape, mask, bf16 bool, g *gradImage, sc *layout) gradX {
	out := newBlocks(l, s.C)
	d := gradX{shape: s, dtype: rowTypeOf(s.DType), mask: mask}
	cell := g.cell
	d.corr = correlation{
		level: l, bf16: bf16, cols: s.W, tiles: newTiles(s.W, l.convMaxTile()), kh: s.KH,
		run: s.KW * cell / 4, xPix: cell, xLine: g.cellLine, out: out, floor: reluFloor(false),
	}
	d.rows = (g.oh-1)*s.Stride + 1
	d.start = (s.Pad-s.KH+1)*g.cellLine + (s.Pad-s.KW+1)*cell
	d.bias = sc.take(4 * out.padded)
	d.direct = !mask && d.dtype == rowF32 && out.n == out.padded
	if !d.direct {
		d.row = sc.take(s.W * d.sumPixel())
	}
	return d
}

func (d *gradX) sumPixel() int { return 4 * d.corr.out.vectors(0) * d.corr.out.lanes }

// image computes dx of one image; g is gradient 0 in its frame, x the input whose sign masks dx.
func (d *gradX) image(g, packed, x, dx, scratch unsafe.Pointer) {
	g = unsafe.Add(g, d.start)
	bias, sums := unsafe.Add(scratch, d.bias), unsafe.Add(scratch, d.row)
	clearBytes(bias, 4*d.corr.out.padded)
	pix := d.shape.C * d.dtype.bytes()
	line := d.shape.W * pix
	for i := range d.corr.out.count() {
		w, off := d.corr.weights(packed, i), d.corr.out.first(i)*d.dtype.bytes()
		t := convRows{
			src: sums, n: d.shape.W,
			c: d.corr.out.channels(i), srcPix: d.sumPixel(), dstPix: pix, maskPix: pix,
		}
		for r := range d.shape.H {
			from, first := unsafe.Add(g, r*d.corr.xLine), r+d.shape.Pad-d.shape.KH+1
			t.dst, t.mask = unsafe.Add(dx, r*line+off), unsafe.Add(x, r*line+off)
			if d.direct {
				d.corr.row(i, from, w, bias, t.dst, pix, first, d.rows)
			} else {
				d.corr.row(i, from, w, bias, sums, d.sumPixel(), first, d.rows)
				d.corr.level.convRows(&t, rowF32, d.dtype, d.mask)
			}
		}
	}
}

// overlaps tells whether pooling windows share elements.
func overlaps(p ref.Pool) bool { return p.Stride < p.Size }
