//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"fmt"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// Limits of kernels/conv_rows.h and conv_perBlockgrad_w.h.
const (
	rowsTaps      = 9
	rowsPixels    = 448
	warpPixels    = 32
	gradWHalo     = 96
	gradWBiasRows = 16
	slabChannels  = 16
)

// rowsKernel is a kernel of kernels/conv_rows*.h with its geometry.
type rowsKernel struct {
	name    string
	columns int // of the result that a block computes: BN
	rows    int // of pixels that a block takes at a time; 0 where the kernel does not fit
	warps   int
	tiles   int // blocks that an image takes
}

// rowsFit tells whether a convolution suits the kernels that keep rows in shared memory, for operands of type t: tensor cores,
// taps that are shifts, and windows of a pool side by side.
func (d *Device) rowsFit(v conv, t program.DType, p ref.Pool) bool {
	return d.arithmetic(t) != "_f32" && p.Size == p.Stride && v.Stride == 1 && v.Pad == 0 && v.taps() <= rowsTaps && v.c%slabChannels == 0 && v.oc%slabChannels == 0
}

// halo is how many pixels the last tap lies after the first.
func (v conv) halo() int { return (v.KH-1)*v.w + v.KW - 1 }

// rowsForward plans y, whose rows come in whole windows of a pool.
func (d *Device) rowsForward(v conv, t program.DType, p ref.Pool) rowsKernel {
	if !d.rowsFit(v, t, p) {
		return rowsKernel{}
	}
	return planRows(v, t, v.oh, v.oc, max(1, p.Size), "conv_rows%d"+d.arithmetic(t))
}

// rowsGradX plans dx.
func (d *Device) rowsGradX(v conv, t program.DType, p ref.Pool) rowsKernel {
	if !d.rowsFit(v, t, p) {
		return rowsKernel{}
	}
	return planRows(v, t, v.h, v.c, 1, "conv_rows%d_grad_x"+d.arithmetic(t))
}

// planRows chooses how many rows of a result of so many rows and channels a block computes: those that make the
// least work, counted in pixels that all blocks of an image compute and read beyond that.
func planRows(v conv, t program.DType, height, channels, unit int, name string) rowsKernel {
	k := rowsKernel{columns: 64}
	most := 8 // warps, see ConvRows::WARPS
	if channels%64 != 0 {
		k.columns, most = 32, 12
		if t.Size() == 4 {
			most = 10
		}
	}
	k.name = fmt.Sprintf(name, k.columns)
	least := 0
	for rows := unit; rows < height+unit; rows += unit {
		warps, tiles := ceilDiv(rows*v.w, warpPixels), ceilDiv(height, rows)
		if warps > most || warps*warpPixels+v.halo() > rowsPixels {
			break
		}
		if work := tiles * (warps*warpPixels + v.halo()); least == 0 || work < least {
			k.rows, k.warps, k.tiles, least = rows, warps, tiles, work
		}
	}
	return k
}

// rowsGradW plans dw and the bias's gradient. Every split takes whole images.
func (d *Device) rowsGradW(v conv, t program.DType, p ref.Pool) (k rowsKernel, images int) {
	if !d.rowsFit(v, t, p) || v.halo() > gradWHalo {
		return rowsKernel{}, 0
	}
	k = rowsKernel{columns: 64, warps: v.taps() + 1}
	if v.oc%64 != 0 {
		k.columns = 32
	}
	k.name = fmt.Sprintf("conv_rows%d_grad_w%s", k.columns, d.arithmetic(t))
	unit, pixels := max(1, p.Size), 320/t.Size() // GradWShape::DZ
	k.rows = min(pixels/v.w/unit*unit, ceilDiv(v.oh, unit)*unit)
	k.tiles = ceilDiv(v.oc, k.columns) * ceilDiv(v.c, 2*slabChannels)
	return k, ceilDiv(v.batch, max(1, smallTile.blocks/k.tiles))
}

// gradWPartial is how many elements of dw and db a split sums.
func (v conv) gradWPartial() int { return (v.taps()*v.c + gradWBiasRows) * v.oc }

func (v conv) rowsGradWWork(images int) int64 {
	return alignUp(4 * int64(ceilDiv(v.batch, images)) * int64(v.gradWPartial()))
}

// outputGrad tells kernels where the gradient at the convolution's own output comes from; see kernels/output_grad.h.
type outputGrad struct {
	dy, argmax, y ptr
	pool, ph, pw  int32
	_             int32
}

// newOutputGrad describes the instruction's incoming gradient.
func (b *builder) newOutputGrad(i *program.Instr, o program.Conv2DBackward, v conv) outputGrad {
	g := outputGrad{dy: b.ptr(i.In[2])}
	switch {
	case o.Pool.Size > 0: // a window that ReLU removed is marked by a position outside
		g.argmax = b.ptr(i.In[3])
		g.setPool(o.Pool, v)
	case o.ReLU:
		g.y = b.ptr(i.In[3])
	}
	return g
}

// setPool tells of windows side by side; without a pool nothing.
func (g *outputGrad) setPool(p ref.Pool, v conv) {
	if p.Size == 0 {
		return
	}
	ph, pw := p.Out(v.oh, v.ow)
	g.pool, g.ph, g.pw = int32(p.Size), int32(ph), int32(pw)
}

type convRowsArgs struct {
	out                                   epilogue
	x, weights                            ptr
	grad                                  outputGrad
	h, w, c, oh, ow, oc, kh, kw, perBlock int32
	_                                     int32
}

type convRowsGradWArgs struct {
	partials, x                                          ptr
	grad                                                 outputGrad
	batch, h, w, c, oh, ow, oc, kh, kw, perBlock, images int32
	_                                                    int32
}

// convRows appends the forward product or the input's gradient; n is the number of the result's channels.
func (b *builder) convRows(k rowsKernel, v conv, e epilogue, x, w ptr, g outputGrad, n int) {
	e.n = int32(n)
	add(b, k.name, [3]int{v.batch * k.tiles, ceilDiv(n, k.columns), 1}, k.warps*32, convRowsArgs{
		out: e, x: x, weights: w, grad: g, h: int32(v.h), w: int32(v.w), c: int32(v.c), oh: int32(v.oh), ow: int32(v.ow), oc: int32(v.oc),
		kh: int32(v.KH), kw: int32(v.KW), perBlock: int32(k.rows),
	})
}

// convRowsGradW appends the weights' gradient and, unless db is 0, the bias's.
func (b *builder) convRowsGradW(k rowsKernel, images int, v conv, x ptr, g outputGrad, dw *program.Value, db ptr) {
	partials, splits := b.take(v.rowsGradWWork(images)), ceilDiv(v.batch, images)
	grid := [3]int{ceilDiv(v.oc, k.columns), ceilDiv(v.c, 2*slabChannels), splits}
	add(b, k.name, grid, k.warps*32, convRowsGradWArgs{
		partials: partials, x: x, grad: g, batch: int32(v.batch), h: int32(v.h), w: int32(v.w), c: int32(v.c), oh: int32(v.oh), ow: int32(v.ow),
		oc: int32(v.oc), kh: int32(v.KH), kw: int32(v.KW), perBlock: int32(k.rows), images: int32(images),
	})
	b.gradWFinish(v, dw, db, partials, splits, v.gradWPartial())
}

// sumElems is how many elements a block sums over partials: SUM_ELEMS in kernels/common.h.
const sumElems = 32

type gradWFinishArgs struct {
	dw, db, partials          ptr
	splits, size, weights, oc int32
}

// gradWFinish appends the sum of partials, so many elements each.
func (b *builder) gradWFinish(v conv, dw *program.Value, db, partials ptr, splits, size int) {
	add(b, "conv_grad_w_finish"+suffix(dw.DType), [3]int{ceilDiv(size, sumElems), 1, 1}, threads, gradWFinishArgs{
		dw: b.ptr(dw), db: db, partials: partials, splits: int32(splits), size: int32(size), weights: int32(dw.Elems()), oc: int32(v.oc),
	})
}
