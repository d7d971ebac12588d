package kernel

import (
	"unsafe"

	"halfstep/model/op/ref"
)

// ConvForward is program.Conv2D for one image at a time: y = x*w + b, ReLU, max pool. Its definition is the chain of
// ref.Conv2D, ref.Activate and ref.MaxPool2D, sums being rounded to the dtype before the pool compares them.
//
// Output channels lie along the vectors; a tile of up to 13 pixels by two vectors stays in registers over the whole sum,
// so that each weight loaded serves 13 pixels and each input broadcast two vectors. There is no im2col: in NHWC the
// inputs of one kernel row are consecutive.
type ConvForward struct {
	shape   ConvShape
	corr    correlation
	in      convInput
	bias    bool
	relu    bool
	pool    ref.Pool
	oh, ph  int // rows of the convolution, of y
	pw      int
	dtype   rowType
	direct  bool // tiles are written to y itself
	biasOff int  // scratch: bias [padded OC]
	rowsOff int  // scratch: rows of one block's sums
	scratch layout
}

// NewConvForward plans the kernel at a level. A pool of size 0 is none.
func NewConvForward(l Level, s ConvShape, bias, relu bool, pool ref.Pool) (*ConvForward, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	f := &ConvForward{shape: s, bias: bias, relu: relu, pool: pool, dtype: rowTypeOf(s.DType)}
	oh, ow := s.Out(s.H, s.W)
	f.oh, f.ph, f.pw = oh, oh, ow
	// A pair of bfloat16 is two channels of one pixel.
	bf16 := l == AVX512BF16 && f.dtype == rowBF16 && s.C%2 == 0
	f.in = newConvInput(l, s, bf16, &f.scratch)
	out := newBlocks(l, s.OC)
	f.corr = correlation{
		level: l, bf16: bf16, cols: ow, tiles: newTiles(ow, l.convMaxTile()), kh: s.KH,
		run: s.KW * f.in.pixel() / 4, xPix: s.Stride * f.in.pixel(), xLine: f.in.line, out: out, floor: reluFloor(relu),
	}
	f.biasOff = f.scratch.take(4 * out.padded)
	rows := 1
	if pool.Size > 0 {
		if err := checkPool(pool, oh, ow); err != nil {
			return nil, err
		}
		f.ph, f.pw = pool.Out(oh, ow)
		f.corr.floor = reluFloor(false) // after the pool
		if rows = pool.Size; overlaps(pool) {
			rows = oh // windows overlap: keep all sums
		}
	}
	f.direct = pool.Size == 0 && f.dtype == rowF32 && out.n == out.padded
	if !f.direct {
		f.rowsOff = f.scratch.take(rows * f.rowBytes())
	}
	return f, nil
}

// rowBytes is the size of one row of a block's sums.
func (f *ConvForward) rowBytes() int { return f.corr.cols * f.sumPixel() }

// sumPixel is the size of a pixel of a block's sums; they are as wide as the widest block.
func (f *ConvForward) sumPixel() int { return 4 * f.corr.out.vectors(0) * f.corr.out.lanes }

// PackedBytes is the size of the packed weights, which all workers share.
func (f *ConvForward) PackedBytes() int { return f.corr.packedBytes() + cacheLine }

// ScratchBytes is the size of a worker's scratch.
func (f *ConvForward) ScratchBytes() int { return f.scratch.total() }

// Pack lays out w [KH,KW,C,OC] for Image; once for every change of w.
func (f *ConvForward) Pack(packed, w unsafe.Pointer) {
	packForward(&f.corr, align(packed), w, f.dtype)
}

// Image computes y [OH,OW,OC] or, pooled, [PH,PW,OC] with idx of x [H,W,C]. bias is [OC] float32, nil without one; idx is
// nil without a pool.
func (f *ConvForward) Image(x, packed, bias, y, idx, scratch unsafe.Pointer) {
	packed, scratch = align(packed), align(scratch)
	b := unsafe.Slice((*float32)(unsafe.Add(scratch, f.biasOff)), f.corr.out.padded)
	clear(b)
	if f.bias {
		copy(b, unsafe.Slice((*float32)(bias), f.shape.OC))
	}
	x = f.in.load(x, scratch)
	for i := range f.corr.out.count() {
		f.block(i, x, f.corr.weights(packed, i), unsafe.Pointer(&b[0]), y, idx, unsafe.Add(scratch, f.rowsOff))
	}
}

// block computes one block of channels.
func (f *ConvForward) block(i int, x, w, bias, y, idx, rows unsafe.Pointer) {
	ch := f.corr.out.first(i)
	y = unsafe.Add(y, ch*f.dtype.bytes())
	yLine := f.pw * f.shape.OC * f.dtype.bytes()
	switch {
	case f.pool.Size > 0:
		f.pooled(i, x, w, bias, y, unsafe.Add(idx, ch), rows)
	case f.direct:
		for r := range f.oh {
			f.row(i, r, x, w, bias, unsafe.Add(y, r*yLine), 4*f.shape.OC)
		}
	default:
		t := convRows{src: rows, n: f.pw, c: f.corr.out.channels(i), srcPix: f.sumPixel(), dstPix: f.shape.OC * f.dtype.bytes()}
		for r := range f.oh {
			f.row(i, r, x, w, bias, rows, f.sumPixel())
			t.dst = unsafe.Add(y, r*yLine)
			f.corr.level.convRows(&t, rowF32, f.dtype, false)
		}
	}
}

// row computes row r of one block's sums; x is the prepared image.
func (f *ConvForward) row(i, r int, x, w, bias, y unsafe.Pointer, yPix int) {
	top := r * f.shape.Stride
	f.corr.row(i, unsafe.Add(x, top*f.corr.xLine), w, bias, y, yPix, top-f.shape.Pad, f.shape.H)
}

// pooled computes one block of channels and pools it.
func (f *ConvForward) pooled(i int, x, w, bias, y, idx, rows unsafe.Pointer) {
	t := convPool{
		src: rows, pix: f.sumPixel(), row: f.rowBytes(), step: f.pool.Stride * f.sumPixel(),
		n: f.pw, c: f.corr.out.channels(i), size: f.pool.Size, yPix: f.shape.OC * f.dtype.bytes(), idxPix: f.shape.OC,
		floor: reluFloor(f.relu), dead: int32(f.pool.Size * f.pool.Size),
	}
	if f.relu {
		t.relu = ^uint32(0)
	}
	done := 0 // rows of sums computed so far, when windows overlap
	for p := range f.ph {
		first := p * f.pool.Stride
		if overlaps(f.pool) {
			for ; done < first+f.pool.Size; done++ {
				f.row(i, done, x, w, bias, unsafe.Add(rows, done*f.rowBytes()), f.sumPixel())
			}
			t.src = unsafe.Add(rows, first*f.rowBytes())
		} else {
			for r := range f.pool.Size {
				f.row(i, first+r, x, w, bias, unsafe.Add(rows, r*f.rowBytes()), f.sumPixel())
			}
		}
		t.y, t.idx = unsafe.Add(y, p*f.pw*t.yPix), unsafe.Add(idx, p*f.pw*t.idxPix)
		f.corr.level.convPool(&t, f.dtype)
	}
}
