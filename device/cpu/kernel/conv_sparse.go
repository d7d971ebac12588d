package kernel

import (
	"unsafe"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// sparseTaps is the size of the kernel that the sparse backward pass knows: 3x3.
const sparseTaps = 9

// sparseBand is how many bytes of x one band of pooled rows may span, so that it stays in first-level cache while all
// output channels pass over it.
const sparseBand = 36 << 10

// sparseBackward is the backward pass behind a 2x2 max pool, which lets through at most one gradient in four. Only those
// take part: by w, each output channel has a list of them with their places in x; by x, each pooled pixel has one per
// position in its window with their weights. Arithmetic is float32 for every dtype.
type sparseBackward struct {
	shape  ConvShape
	level  Level
	dtype  rowType
	needX  bool
	mask   bool
	oc     int // padded
	ph, pw int
	line   int  // bytes of a row of x
	band   int  // pooled rows of a band
	slots  int  // pooled pixels of a band, rounded up to a vector
	direct bool // dx is summed up where it is

	// Scratch: the band's gradients and their offsets in x, by pixel and by channel; one channel's list; the lists by
	// pixel; dx.
	grad, off, gradT, offT int
	list, listDelta        int
	lists, listsDelta      int
	dx, dxLine, dxBytes    int
}

// sparseApplies tells whether the sparse backward pass can do this convolution.
func sparseApplies(l Level, s ConvShape, o program.Conv2DBackward) bool {
	return l >= AVX512 && s.Stride == 1 && s.KH == 3 && s.KW == 3 && s.C%16 == 0 && o.Pool == ref.Pool{Size: 2, Stride: 2}
}

func newSparseBackward(l Level, s ConvShape, o program.Conv2DBackward, in *convInput, sc *layout) *sparseBackward {
	oh, ow := s.Out(s.H, s.W)
	b := &sparseBackward{shape: s, level: l, dtype: rowTypeOf(s.DType), needX: o.NeedX, mask: o.MaskX, oc: roundUp(s.OC, 16), line: in.line}
	b.ph, b.pw = o.Pool.Out(oh, ow)
	b.band = min(max((sparseBand/b.line-2)/2, 1), b.ph)
	b.slots = roundUp(b.band*b.pw, 16)
	staged := 4 * b.slots * b.oc
	b.grad, b.off, b.gradT, b.offT = sc.take(staged), sc.take(staged), sc.take(staged), sc.take(staged)
	b.listDelta = 4 * (b.slots + 16)
	b.list = sc.take(2 * b.listDelta)
	if !o.NeedX {
		return b
	}
	b.listsDelta = roundUp(4*(b.ph*b.pw*(s.OC+4)+16), cacheLine)
	b.lists = sc.take(2 * b.listsDelta)
	b.dxLine = 4 * (s.W + 2*s.Pad) * s.C
	b.dxBytes = b.dxLine * (s.H + 2*s.Pad)
	if b.direct = s.Pad == 0 && b.dtype == rowF32 && !o.MaskX; !b.direct {
		b.dx = sc.take(b.dxBytes)
	}
	return b
}

func (b *sparseBackward) packedBytes() int { return 4 * b.shape.OC * sparseTaps * b.shape.C }

// pack lays out w [3,3,C,OC] as [C/16][OC][3][3][16].
func (b *sparseBackward) pack(packed, w unsafe.Pointer) {
	var buf [packChunk]float32
	s := b.shape
	for i := range sparseTaps * s.C {
		tap, ch := i/s.C, i%s.C
		dst := unsafe.Add(packed, 4*((ch/16*s.OC*sparseTaps+tap)*16+ch%16))
		for o := 0; o < s.OC; o += packChunk {
			v := buf[:min(packChunk, s.OC-o)]
			t := convRows{dst: unsafe.Pointer(&buf), src: unsafe.Add(w, (i*s.OC+o)*b.dtype.bytes()), n: 1, c: len(v)}
			b.level.convRows(&t, b.dtype, rowF32, false)
			for j, x := range v {
				*f32At(dst, 64*sparseTaps*(o+j)) = x
			}
		}
	}
}

// image is ConvBackward.Image; px is the prepared image.
func (b *sparseBackward) image(x, px, packed, dy, idx, dx, acc, scratch unsafe.Pointer) {
	lists := unsafe.Add(scratch, b.lists)
	st := b.stage(acc, lists)
	for r := 0; r < b.ph; r += b.band {
		rows := min(b.band, b.ph-r)
		b.stageBand(&st, dy, idx, r, rows, scratch)
		b.gradW(px, acc, scratch)
	}
	if b.needX {
		b.gradX(x, packed, dx, lists, scratch)
	}
}

// stage is the request for the first row of pooled gradients.
func (b *sparseBackward) stage(acc, lists unsafe.Pointer) convStage {
	pix := 4 * b.shape.C
	st := convStage{
		db: unsafe.Add(acc, 4*sparseTaps*b.shape.C*b.oc), list: lists, delta: b.listsDelta, n: b.pw,
		c: b.shape.OC, dyPix: b.shape.OC * b.dtype.bytes(), idxPix: b.shape.OC, pix: 4 * b.oc, xStep: int32(2 * pix),
	}
	if b.needX {
		st.lists = 1
	}
	for q := range 4 {
		st.windowOff[q] = int32(q/2*b.line + q%2*pix)
	}
	for i := range st.wOff {
		st.wOff[i] = int32(64 * sparseTaps * i)
	}
	return st
}

// stageBand prepares rows pooled rows from first on, by channel.
func (b *sparseBackward) stageBand(st *convStage, dy, idx unsafe.Pointer, first, rows int, scratch unsafe.Pointer) {
	grad, off := unsafe.Add(scratch, b.grad), unsafe.Add(scratch, b.off)
	st.grad, st.off = grad, off
	for r := first; r < first+rows; r++ {
		st.xOff = int32(2 * r * b.line)
		st.dy, st.idx = unsafe.Add(dy, r*b.pw*st.dyPix), unsafe.Add(idx, r*b.pw*st.idxPix)
		b.level.convStage(st, b.dtype)
		st.grad, st.off = unsafe.Add(st.grad, b.pw*st.pix), unsafe.Add(st.off, b.pw*st.pix)
	}
	clearBytes(st.grad, (b.slots-rows*b.pw)*st.pix) // slots without a pixel have no gradient; their offsets are not read
	b.level.convTranspose(unsafe.Add(scratch, b.gradT), grad, b.slots/16, b.oc/16, 4*b.slots, st.pix)
	b.level.convTranspose(unsafe.Add(scratch, b.offT), off, b.slots/16, b.oc/16, 4*b.slots, st.pix)
}

// gradW adds the band's products to dw.
func (b *sparseBackward) gradW(x, acc, scratch unsafe.Pointer) {
	run := 3 * b.shape.C
	t := convSparseW{
		grad: unsafe.Add(scratch, b.gradT), off: unsafe.Add(scratch, b.offT), list: unsafe.Add(scratch, b.list),
		delta: b.listDelta, line: b.line, pix: 4 * b.slots, dwStep: 4 * 3 * run, n: b.shape.OC,
	}
	if vecs := run / 16; vecs <= 9 { // 27 sums and the broadcast fit the registers
		t.x, t.dw, t.body = x, acc, 300+vecs
		b.level.convSparseW(&t)
		return
	}
	parts := newTiles(run/48, 8) // of 3 to 24 vectors
	for kh := range 3 {
		t.x, t.dw = unsafe.Add(x, kh*b.line), unsafe.Add(acc, 4*kh*run)
		for i := range parts.count {
			vecs := 3 * parts.of(i)
			t.body = 100 + vecs
			b.level.convSparseW(&t)
			t.x, t.dw = unsafe.Add(t.x, 64*vecs), unsafe.Add(t.dw, 64*vecs)
		}
	}
}

// gradX computes dx from the lists.
func (b *sparseBackward) gradX(x, packed, dx, lists, scratch unsafe.Pointer) {
	s := b.shape
	sum := dx
	if !b.direct {
		sum = unsafe.Add(scratch, b.dx)
	}
	clearBytes(sum, b.dxBytes)
	for ch := 0; ch < s.C; ch += 16 {
		t := convSparseX{
			dx: unsafe.Add(sum, 4*ch), w: unsafe.Add(packed, 4*ch*s.OC*sparseTaps), list: lists, delta: b.listsDelta,
			pix: 4 * s.C, line: b.dxLine, jump: 2*b.dxLine - 8*b.pw*s.C, rows: b.ph, cols: b.pw,
		}
		b.level.convSparseX(&t)
	}
	if b.direct && !b.mask {
		return
	}
	size := b.dtype.bytes()
	t := convRows{n: 1, c: s.W * s.C}
	for r := range s.H {
		t.dst, t.mask = unsafe.Add(dx, r*t.c*size), unsafe.Add(x, r*t.c*size)
		t.src = unsafe.Add(sum, (s.Pad+r)*b.dxLine+4*s.Pad*s.C)
		b.level.convRows(&t, rowF32, b.dtype, b.mask)
	}
}

// finish sums the accumulators of dw [OC][3][3][C], stride bytes apart, and transposes to [3][3][C][OC].
func (b *sparseBackward) finish(dw, acc unsafe.Pointer, stride, nacc int) {
	var buf [packChunk]float32
	n := sparseTaps * b.shape.C
	for o := range b.shape.OC {
		for k := 0; k < n; k += packChunk {
			m := min(packChunk, n-k)
			b.level.convSumAcc(unsafe.Pointer(&buf), unsafe.Add(acc, 4*(o*n+k)), m, stride, nacc)
			for i, v := range buf[:m] {
				storeElem(b.dtype, dw, (k+i)*b.shape.OC+o, v)
			}
		}
	}
}
