//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"halfstep/device/cuda/driver"
	"halfstep/model/op/ref"
	"halfstep/program"
)

// tile is what one block computes of a product, as in kernels/matmul.h.
type tile struct {
	rows, columns, step int // step along K
	threads             int
	blocks              int    // that keep the largest GPU busy: two small ones on each of 132 multiprocessors
	name                string // of its kernels
}

var smallTile = tile{64, 64, 32, 128, 264, ""}

// largeTile is LargeTile, whose step depends on the operands' size.
func largeTile(d program.DType) tile { return tile{128, 128, 64 / d.Size(), 256, 132, "_large"} }

const minSteps = 4 // steps along K that a split has at least

// product is the shape of C [m,n] = A [m,k] · B [k,n] and how it is cut into tiles.
type product struct {
	m, n, k int
	tile    tile
}

func newProduct(m, n, k int) product { return product{m, n, k, smallTile} }

// enlarge takes the large tile where it leaves no multiprocessor idle; rows of the operands must be whole 16-byte vectors.
func (p product) enlarge(d program.DType, vectors bool) product {
	large := p
	if large.tile = largeTile(d); vectors && large.tiles() >= large.tile.blocks*9/10 {
		return large
	}
	return p
}

func (p product) tiles() int { return ceilDiv(p.m, p.tile.rows) * ceilDiv(p.n, p.tile.columns) }

// splits is how many blocks share the sum over k of one tile. It depends on the shape alone, so every GPU adds in the same
// order.
func (p product) splits() int {
	steps := ceilDiv(p.k, p.tile.step)
	s := min(p.tile.blocks/max(1, p.tiles()), steps/minSteps)
	if s <= 1 {
		return 1
	}
	return ceilDiv(steps, ceilDiv(steps, s)) // no split without steps
}

// work is the workspace of the partial sums.
func (p product) work() int64 {
	if s := p.splits(); s > 1 {
		return alignUp(4 * int64(s) * int64(p.m) * int64(p.n))
	}
	return 0
}

// productOf gives the matrix product of a linear layer's instruction.
func productOf(i *program.Instr) product {
	x, w, d := i.In[0].Shape, i.In[1].Shape, i.In[0].DType // or dy for x or w
	p := newProduct(x[0], i.Out[0].Shape[1], x[1])
	if _, ok := i.Op.(program.LinearGradW); ok {
		p = newProduct(i.Out[0].Shape[0], i.Out[0].Shape[1], x[0])
	}
	return p.enlarge(d, vectors(x[1], d)*vectors(w[1], d) > 0)
}

func splitWork(i *program.Instr) int64 { return productOf(i).work() }

// multiply appends a product's kernel, and with splits the one that adds the partials. d is the operands' type; args
// makes the kernel's struct from the finished epilogue.
func multiply[A any](b *builder, name string, p product, d, out program.DType, e epilogue, args func(epilogue) A) {
	if d != out && out != program.Float32 {
		b.failf("%s of %s to %s: %w", name, d, out, errNoKernel)
		return
	}
	e.m, e.n, e.k, e.splits, e.cFloat32 = int32(p.m), int32(p.n), int32(p.k), 1, int32of(out == program.Float32)
	if e.pool == 0 {
		e.splits = int32(p.splits())
	}
	if e.splits > 1 {
		e.partials = b.take(p.work())
	}
	grid := [3]int{ceilDiv(p.m, p.tile.rows), ceilDiv(p.n, p.tile.columns), int(e.splits)}
	add(b, name+p.tile.name+b.d.arithmetic(d), grid, p.tile.threads, args(e))
	if e.splits > 1 {
		add(b, "matmul_finish"+suffix(d), [3]int{ceilDiv(p.m*p.n, sumElems), 1, 1}, threads, e)
	}
}

// arithmetic is the suffix of matrix products: the operands' type, or tf32.
func (d *Device) arithmetic(t program.DType) string {
	if t == program.Float32 && d.opts.TF32 && d.capability() >= 80 {
		return "_tf32"
	}
	return suffix(t)
}

// vectors tells whether rows of n elements are whole 16-byte vectors.
func vectors(n int, d program.DType) int32 { return int32of(n*d.Size()%16 == 0) }

func linear(b *builder, i *program.Instr, o program.Linear) {
	x, w := i.In[0], i.In[1]
	e := epilogue{c: b.ptr(i.Out[0]), relu: int32of(o.ReLU)}
	if o.Bias {
		e.bias = b.ptr(i.In[2])
	}
	b.linear("linear", i, x, w, e, x.Shape[1], w.Shape[1])
}

func linearGradX(b *builder, i *program.Instr, o program.LinearGradX) {
	dy, w := i.In[0], i.In[1]
	e := epilogue{c: b.ptr(i.Out[0])}
	if o.MaskX {
		e.mask = b.ptr(i.In[2])
	}
	b.linear("linear_grad_x", i, dy, w, e, dy.Shape[1], w.Shape[1])
}

func linearGradW(b *builder, i *program.Instr, o program.LinearGradW) {
	x, dy := i.In[0], i.In[1]
	b.linear("linear_grad_w", i, x, dy, epilogue{c: b.ptr(i.Out[0])}, x.Shape[1], dy.Shape[1])
	if o.Bias {
		b.biasGrad(dy, b.ptr(dy), b.ptr(i.Out[1]))
	}
}

// linear appends one of a linear layer's products; rows of its operands have rowA and rowB elements.
func (b *builder) linear(name string, i *program.Instr, x, y *program.Value, e epilogue, rowA, rowB int) {
	d := x.DType
	multiply(b, name, productOf(i), d, i.Out[0].DType, e, func(e epilogue) linearArgs {
		return linearArgs{out: e, a: b.ptr(x), b: b.ptr(y), vecA: vectors(rowA, d), vecB: vectors(rowB, d)}
	})
}

// conv is the geometry of a convolution.
type conv struct {
	ref.Conv
	batch, h, w, c, oh, ow, oc int
}

func newConv(a ref.Conv, x, w *program.Value) conv {
	v := conv{Conv: a, batch: x.Shape[0], h: x.Shape[1], w: x.Shape[2], c: x.Shape[3], oc: w.Shape[3]}
	v.oh, v.ow = a.Out(v.h, v.w)
	return v
}

func (v conv) taps() int      { return v.KH * v.KW }
func (v conv) pixels() int    { return v.batch * v.oh * v.ow }
func (v conv) fwd() product   { return newProduct(v.pixels(), v.oc, v.taps()*v.c) }
func (v conv) gradX() product { return newProduct(v.batch*v.h*v.w, v.c, v.taps()*v.oc) }
func (v conv) gradW() product { return newProduct(v.taps()*v.c, v.oc, v.pixels()) }

func (v conv) args(e epilogue, x, y driver.Ptr) convArgs {
	return convArgs{
		out: e, a: x, b: y, h: int32(v.h), w: int32(v.w), c: int32(v.c), oh: int32(v.oh), ow: int32(v.ow), oc: int32(v.oc),
		kh: int32(v.KH), kw: int32(v.KW), stride: int32(v.Stride), pad: int32(v.Pad),
	}
}
