//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"halfstep/model/op/ref"
	"halfstep/program"
)

// Limits of kernels/conv_thin.h.
const (
	thinWindow  = 64
	thinOutputs = 64
	thinGradRow = 9 // elements of a window that a block of the weights' gradient sums
	thinPixels  = 256
)

// thin tells whether a convolution is computed without tensor cores by kernels/conv_thin.h.
func (v conv) thin(pools bool) bool {
	return pools && v.Pad == 0 && v.taps()*v.c <= thinWindow && v.oc%8 == 0 && v.oc <= thinOutputs
}

// thinForward: windows of four pixels are what a thread computes, so a max pool of 2 can be fused.
func (v conv) thinForward(p ref.Pool) bool {
	return v.thin(p.Size == 0 || p == ref.Pool{Size: 2, Stride: 2})
}

func (v conv) thinGradW(p ref.Pool) bool { return v.thin(p.Size == p.Stride) }

// thinSplits cuts the pixels for the weights' gradient: splits, and pixels of each.
func (v conv) thinSplits() (splits, per int) {
	groups := ceilDiv(v.taps()*v.c, thinGradRow)
	per = max(thinPixels, ceilDiv(v.pixels(), max(1, 2*smallTile.blocks/groups)))
	return ceilDiv(v.pixels(), per), per
}

// thinPartial is how many elements of dw and db a split sums.
func (v conv) thinPartial() int { return (v.taps()*v.c + 1) * v.oc }

func (v conv) thinGradWWork() int64 {
	splits, _ := v.thinSplits()
	return alignUp(4 * int64(splits) * int64(v.thinPartial()))
}

type convThinArgs struct {
	out                                 epilogue
	x, weights                          ptr
	h, w, c, oh, ow, oc, kh, kw, stride int32
	ph, pw                              int32
	_                                   int32
}

type convThinGradWArgs struct {
	partials, x                                      ptr
	grad                                             outputGrad
	h, w, c, oh, ow, oc, kh, kw, stride, pixels, per int32
	_                                                int32
}

func (b *builder) convThin(v conv, e epilogue, p ref.Pool, x, w *program.Value) {
	a := convThinArgs{
		x: b.ptr(x), weights: b.ptr(w), h: int32(v.h), w: int32(v.w), c: int32(v.c), oh: int32(v.oh), ow: int32(v.ow), oc: int32(v.oc),
		kh: int32(v.KH), kw: int32(v.KW), stride: int32(v.Stride),
	}
	pixels := v.pixels()
	if p.Size > 0 {
		ph, pw := p.Out(v.oh, v.ow)
		a.ph, a.pw, pixels = int32(ph), int32(pw), v.batch*ph*pw*4
	}
	e.m, e.n = int32(pixels), int32(v.oc)
	a.out = e
	perBlock := 4 * (threads / (v.oc / 8))
	add(b, "conv_thin"+suffix(x.DType), [3]int{ceilDiv(pixels, perBlock), 1, 1}, threads, a)
}

func (b *builder) convThinGradW(v conv, x *program.Value, g outputGrad, dw *program.Value, db ptr) {
	splits, per := v.thinSplits()
	partials := b.take(v.thinGradWWork())
	groups := ceilDiv(v.taps()*v.c, thinGradRow)
	add(b, "conv_thin_grad_w"+suffix(x.DType), [3]int{splits, groups, 1}, threads, convThinGradWArgs{
		partials: partials, x: b.ptr(x), grad: g, h: int32(v.h), w: int32(v.w), c: int32(v.c), oh: int32(v.oh), ow: int32(v.ow), oc: int32(v.oc),
		kh: int32(v.KH), kw: int32(v.KW), stride: int32(v.Stride), pixels: int32(v.pixels()), per: int32(per),
	})
	b.gradWFinish(v, dw, db, partials, splits, v.thinPartial())
}
