package kernel

import (
	"unsafe"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// gradImage is the gradient at the convolution's own output, undone of pool and ReLU: [OH,OW,padded OC] in float32 or
// bfloat16. Where dx is needed it is spread out by the stride and framed with zeros.
type gradImage struct {
	level  Level
	oh, ow int
	oc     int
	out    blocks
	pool   ref.Pool
	relu   bool
	from   rowType
	to     rowType
	direct bool // dy is used where it is

	frame    border
	cell     int  // bytes of one pixel of the spread image
	cellLine int  // bytes of its rows
	rows     int  // its rows
	pix      int  // bytes between two gradients of a row
	line     int  // bytes between two rows of gradients
	whole    bool // all of it is zeroed first
	scratch  int
}

func newGradImage(l Level, s ConvShape, o program.Conv2DBackward, bf16 bool, out blocks, sc *layout) gradImage {
	g := gradImage{level: l, oc: s.OC, out: out, pool: o.Pool, relu: o.ReLU, from: rowTypeOf(s.DType), to: pairType(bf16)}
	g.oh, g.ow = s.Out(s.H, s.W)
	g.cell = out.padded * g.to.bytes()
	if !o.NeedX {
		g.cellLine, g.pix, g.rows = g.ow*g.cell, g.cell, g.oh
		g.line = g.cellLine
		g.direct = o.Pool.Size == 0 && !o.ReLU && g.from == g.to && out.n == out.padded
	} else {
		// The window of dx's pixel 0 begins KH-1-Pad rows above gradient 0, that of its last row ends Pad below row H-1.
		spreadH, spreadW := (g.oh-1)*s.Stride+1, (g.ow-1)*s.Stride+1
		f := border{max(s.KH-1-s.Pad, 0), max(s.KW-1-s.Pad, 0), max(s.H+s.Pad-spreadH, 0), max(s.W+s.Pad-spreadW, 0)}
		g.frame, g.rows = f, f.top+spreadH+f.bottom
		g.cellLine = rowStride((f.left + spreadW + f.right) * g.cell)
		g.pix, g.line = s.Stride*g.cell, s.Stride*g.cellLine
	}
	if g.direct {
		return g
	}
	// What the passes below do not write must be zero.
	g.whole = g.pix != g.cell || out.n != out.padded
	if p := o.Pool; p.Size > 0 {
		ph, pw := p.Out(g.oh, g.ow)
		g.whole = g.whole || p.Stride != p.Size || ph*p.Size != g.oh || pw*p.Size != g.ow
	}
	g.scratch = sc.take(g.rows * g.cellLine)
	return g
}

// load gives gradient 0 of the image.
func (g *gradImage) load(dy, idxOrY, scratch unsafe.Pointer) unsafe.Pointer {
	if g.direct {
		return dy
	}
	p := unsafe.Add(scratch, g.scratch)
	if g.whole {
		clearBytes(p, g.rows*g.cellLine)
	} else {
		clearBorder(p, g.cellLine, g.oh, g.ow, g.cell, g.frame)
	}
	p = unsafe.Add(p, g.frame.top*g.cellLine+g.frame.left*g.cell)
	if g.pool.Size > 0 {
		g.unpool(p, dy, idxOrY)
		return p
	}
	dyPix := g.oc * g.from.bytes()
	t := convRows{n: g.ow, c: g.oc, dstPix: g.pix, srcPix: dyPix, maskPix: dyPix}
	for r := range g.oh {
		t.dst, t.src = unsafe.Add(p, r*g.line), unsafe.Add(dy, r*g.ow*dyPix)
		if g.relu {
			t.mask = unsafe.Add(idxOrY, r*g.ow*dyPix)
		}
		g.level.convRows(&t, g.from, g.to, g.relu)
	}
	return p
}

func (g *gradImage) unpool(p, dy, idx unsafe.Pointer) {
	ph, pw := g.pool.Out(g.oh, g.ow)
	t := convUnpool{
		pix: g.pix, row: g.line, step: g.pool.Stride * g.pix, n: pw, c: g.oc,
		size: g.pool.Size, dyPix: g.oc * g.from.bytes(), idxPix: g.oc,
	}
	if overlaps(g.pool) {
		t.add = ^uint32(0)
	}
	for r := range ph {
		t.dst = unsafe.Add(p, r*g.pool.Stride*g.line)
		t.dy, t.idx = unsafe.Add(dy, r*pw*t.dyPix), unsafe.Add(idx, r*pw*t.idxPix)
		g.level.convUnpool(&t, g.from, g.to)
	}
}

// sum adds the gradients of all pixels to db [padded OC].
func (g *gradImage) sum(d, db unsafe.Pointer) {
	for r := range g.oh {
		g.level.convColSum(g.to, db, unsafe.Add(d, r*g.line), g.ow, g.out.padded, g.pix)
	}
}

// pairImages holds x and dy as pairs of pixels, whose products VDPBF16PS sums: gradients of two neighbours in a row, and
// every pixel of x with the one that a neighbouring gradient meets.
type pairImages struct{ x, dy pairImage }

func newPairImages(s ConvShape, out blocks, gradPix int, sc *layout) pairImages {
	oh, ow := s.Out(s.H, s.W)
	w := s.W + 2*s.Pad
	return pairImages{
		x:  newPairImage(s.H+2*s.Pad, w, max(w-s.Stride, 0), s.C, 2*s.C, 2*s.C*s.Stride, sc),
		dy: newPairImage(oh, (ow+1)/2, ow/2, out.padded, 2*gradPix, gradPix, sc),
	}
}

// pairImage interleaves pixels of bfloat16 with others: pair i of a row is the pixel at i·step and the one next bytes on,
// or zero from pair limit on.
type pairImage struct {
	rows, count, limit int
	c                  int
	step, next         int // bytes
	line               int // bytes of a row of pairs
	scratch            int
	zeros              int
}

func newPairImage(rows, count, limit, c, step, next int, sc *layout) pairImage {
	p := pairImage{rows: rows, count: count, limit: limit, c: c, step: step, next: next, line: rowStride(4 * count * c)}
	p.scratch, p.zeros = sc.take(rows*p.line), sc.take(2*c)
	return p
}

// pixel is the size of a pair in bytes.
func (p *pairImage) pixel() int { return 4 * p.c }

// load gives the pairs of an image whose rows are line bytes apart.
func (p *pairImage) load(l Level, src unsafe.Pointer, line int, scratch unsafe.Pointer) unsafe.Pointer {
	dst, zeros := unsafe.Add(scratch, p.scratch), unsafe.Add(scratch, p.zeros)
	clearBytes(zeros, 2*p.c)
	for r := range p.rows {
		from, to := unsafe.Add(src, r*line), unsafe.Add(dst, r*p.line)
		i := 0
		if p.step == 2*p.c && p.limit > 0 { // side by side
			l.convPairs(to, from, unsafe.Add(from, p.next), p.limit*p.c)
			i = p.limit
		}
		for ; i < p.count; i++ {
			at := unsafe.Add(from, i*p.step)
			other := zeros
			if i < p.limit {
				other = unsafe.Add(at, p.next)
			}
			l.convPairs(unsafe.Add(to, i*p.pixel()), at, other, p.c)
		}
	}
	return dst
}
