package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// ConvShape is a 2-D convolution of one image: x [H,W,C], w [KH,KW,C,OC], y [OH,OW,OC], all of DType.
type ConvShape struct {
	ref.Conv
	H, W, C, OC int
	DType       program.DType
}

func (s ConvShape) check() error {
	switch {
	case s.H < 1 || s.W < 1 || s.C < 1 || s.OC < 1 || s.KH < 1 || s.KW < 1 || s.Stride < 1 || s.Pad < 0:
		return fmt.Errorf("conv2d: %+v: sizes and stride must be positive", s)
	case s.H+2*s.Pad < s.KH || s.W+2*s.Pad < s.KW:
		return fmt.Errorf("conv2d: a %dx%d kernel does not fit a %dx%d image padded by %d", s.KH, s.KW, s.H, s.W, s.Pad)
	case !s.DType.Float():
		return fmt.Errorf("conv2d: dtype %s, want float32, float16 or bfloat16", s.DType)
	}
	return nil
}

func checkPool(p ref.Pool, oh, ow int) error {
	switch {
	case p.Size < 1 || p.Stride < 1 || p.Size > 15:
		return fmt.Errorf("conv2d: max pool %+v: want size 1 to 15 and a positive stride", p)
	case p.Size > oh || p.Size > ow:
		return fmt.Errorf("conv2d: a max pool of size %d does not fit a %dx%d image", p.Size, oh, ow)
	}
	return nil
}

func rowTypeOf(d program.DType) rowType {
	switch d {
	case program.Float16:
		return rowF16
	case program.BFloat16:
		return rowBF16
	}
	return rowF32
}

// pairType is the element type of scratch: bfloat16 where products are of pairs, else float32.
func pairType(bf16 bool) rowType {
	if bf16 {
		return rowBF16
	}
	return rowF32
}

const cacheLine = 64

// Pointers into operands are always computed from the index in hand, never moved on at the end of a loop: one past the end
// of an operand may lie in memory that the garbage collector knows to be free, which it takes for corruption. Scratch and
// packed weights have room behind them.

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// align moves p up to a cache line: unaligned vectors cost twice.
func align(p unsafe.Pointer) unsafe.Pointer {
	return unsafe.Add(p, -uintptr(p)&(cacheLine-1))
}

// layout hands out parts of a scratch buffer whose start is aligned.
type layout struct{ size int }

func (l *layout) take(bytes int) int {
	at := l.size
	l.size += roundUp(bytes, cacheLine)
	return at
}

// total is the size to ask for, so that the start can be aligned; 0 for nothing.
func (l *layout) total() int {
	if l.size == 0 {
		return 0
	}
	return l.size + cacheLine
}

// rowStride keeps rows apart from multiples of a page, which share the sets of the first-level cache.
func rowStride(bytes int) int {
	if bytes%4096 == 0 {
		return bytes + cacheLine
	}
	return bytes
}

// blocks cuts n channels into blocks of two vectors, the last of one or two.
type blocks struct {
	n      int // channels
	padded int // rounded up to whole vectors
	lanes  int
}

func newBlocks(l Level, n int) blocks {
	return blocks{n, roundUp(n, l.convLanes()), l.convLanes()}
}

func (b blocks) count() int        { return (b.padded + 2*b.lanes - 1) / (2 * b.lanes) }
func (b blocks) first(i int) int   { return 2 * b.lanes * i }
func (b blocks) vectors(i int) int { return min(2, (b.padded-b.first(i))/b.lanes) }

// channels is the number of channels of block i without padding.
func (b blocks) channels(i int) int { return min(b.n-b.first(i), 2*b.lanes) }

// tiles cuts n into parts of at most most, as even as can be.
type tiles struct{ count, size, larger int }

func newTiles(n, most int) tiles {
	count := (n + most - 1) / most
	return tiles{count, n / count, n % count}
}

// of is the size of part i.
func (t tiles) of(i int) int {
	if i < t.larger {
		return t.size + 1
	}
	return t.size
}

// correlation is what the forward pass and the gradient by x have in common: a cross-correlation of an image in memory
// with packed weights [block][kh][run][channels], row by row.
type correlation struct {
	level Level
	bf16  bool // elements are pairs of bfloat16
	cols  int  // output pixels of a row
	tiles tiles
	kh    int
	run   int // elements of one kernel row
	xPix  int // bytes between the inputs of two output pixels
	xLine int // bytes between image rows
	out   blocks
	floor float32
}

// packedBytes is the size of the packed weights.
func (c *correlation) packedBytes() int { return c.kh * c.run * c.out.padded * 4 }

// weights is where block b's packed weights begin.
func (c *correlation) weights(packed unsafe.Pointer, b int) unsafe.Pointer {
	return unsafe.Add(packed, c.kh*c.run*c.out.first(b)*4)
}

// row computes the channels of block b for one output row: x is the window of its first pixel, whose first row is row
// first of an image of h rows; bias is [padded channels].
func (c *correlation) row(b int, x, w, bias, y unsafe.Pointer, yPix, first, h int) {
	nv := c.out.vectors(b)
	kh, n := clipKernel(c.kh, first, h)
	x = unsafe.Add(x, kh*c.xLine)
	t := convTile{
		w: unsafe.Add(w, 4*kh*c.run*nv*c.out.lanes), bias: unsafe.Add(bias, 4*c.out.first(b)),
		xPix: c.xPix, xJump: c.xLine - 4*c.run, yPix: yPix, kh: n, run: c.run, floor: c.floor,
	}
	p := 0
	for i := range c.tiles.count {
		t.m, t.x, t.y = c.tiles.of(i), unsafe.Add(x, p*c.xPix), unsafe.Add(y, p*yPix)
		c.level.convTile(nv, c.bf16, &t)
		p += t.m
	}
}

// clipKernel gives the rows of a kernel of kh rows that meet an image of h rows when its row 0 lies on image row first; of
// a kernel wholly outside, one row of padding.
func clipKernel(kh, first, h int) (from, n int) {
	from = min(max(-first, 0), kh-1)
	return from, max(min(kh, h-first)-from, 1)
}

// convInput brings an image into the form that the products read: padded with zeros, in float32 or bfloat16.
type convInput struct {
	level   Level
	h, w, c int
	pad     int
	from    rowType
	to      rowType
	direct  bool // the image is used where it is
	line    int  // bytes between rows
	scratch int  // offset in scratch
}

func newConvInput(l Level, s ConvShape, bf16 bool, sc *layout) convInput {
	in := convInput{level: l, h: s.H, w: s.W, c: s.C, pad: s.Pad, from: rowTypeOf(s.DType), to: pairType(bf16)}
	in.direct = s.Pad == 0 && in.from == in.to
	in.line = (s.W + 2*s.Pad) * in.pixel()
	if !in.direct {
		in.line = rowStride(in.line)
		in.scratch = sc.take(in.line * (s.H + 2*s.Pad))
	}
	return in
}

// pixel is the size of a pixel in bytes.
func (in *convInput) pixel() int { return in.c * in.to.bytes() }

// load gives the prepared image.
func (in *convInput) load(x, scratch unsafe.Pointer) unsafe.Pointer {
	if in.direct {
		return x
	}
	p := unsafe.Add(scratch, in.scratch)
	clearBorder(p, in.line, in.h, in.w, in.pixel(), border{in.pad, in.pad, in.pad, in.pad})
	corner := unsafe.Add(p, in.pad*(in.line+in.pixel()))
	t := convRows{n: 1, c: in.w * in.c}
	for r := range in.h {
		t.dst, t.src = unsafe.Add(corner, r*in.line), unsafe.Add(x, r*t.c*in.from.bytes())
		in.level.convRows(&t, in.from, in.to, false)
	}
	return p
}

// border is a frame of pixels around an image.
type border struct{ top, left, bottom, right int }

// clearBorder zeroes the frame around an h by w image whose frame begins at p.
func clearBorder(p unsafe.Pointer, line, h, w, pix int, b border) {
	clearBytes(p, b.top*line)
	clearBytes(unsafe.Add(p, (b.top+h)*line), b.bottom*line)
	for r := b.top; r < b.top+h; r++ {
		row := unsafe.Add(p, r*line)
		clearBytes(row, b.left*pix)
		clearBytes(unsafe.Add(row, (b.left+w)*pix), b.right*pix)
	}
}

func clearBytes(p unsafe.Pointer, n int) {
	if n > 0 {
		clear(unsafe.Slice((*byte)(p), n))
	}
}

// reluFloor is the lower bound that a tile's epilogue applies.
func reluFloor(relu bool) float32 {
	if relu {
		return 0
	}
	return float32(math.Inf(-1))
}
