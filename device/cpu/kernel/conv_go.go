package kernel

import (
	"math"
	"unsafe"

	"halfstep/half"
)

// The portable twins of the convolution's assembly. They read and write through pointers as the assembly does; channels
// come in the same blocks. Products are rounded before they are added, so that results are the same on every machine.

func f32At(p unsafe.Pointer, off int) *float32 { return (*float32)(unsafe.Add(p, off)) }
func u16At(p unsafe.Pointer, off int) *uint16  { return (*uint16)(unsafe.Add(p, off)) }
func u32At(p unsafe.Pointer, off int) *uint32  { return (*uint32)(unsafe.Add(p, off)) }

// convTileGo is y[p][o] = max(floor, bias[o] + Σ x[kh][p][k]·w[kh][k][o]), for width channels o.
func convTileGo(t *convTile, width int) {
	bias := unsafe.Slice((*float32)(t.bias), width)
	for p := range t.m {
		y := unsafe.Slice(f32At(t.y, p*t.yPix), width)
		copy(y, bias)
		x, w := p*t.xPix, 0 // offsets, since a pointer may not pass the end
		for range t.kh {
			for range t.run {
				v := *f32At(t.x, x)
				for o, wo := range unsafe.Slice(f32At(t.w, w), width) {
					y[o] += float32(v * wo)
				}
				x, w = x+4, w+4*width
			}
			x += t.xJump
		}
		for o, v := range y {
			if v < t.floor {
				y[o] = t.floor
			}
		}
	}
}

// pairProduct is acc + a.hi·b.hi + a.lo·b.lo for pairs of bfloat16, the upper product first, as VDPBF16PS. The
// instruction also takes subnormal numbers as zero; this does not.
func pairProduct(acc float32, a, b uint32) float32 {
	const hi = 0xffff0000
	acc += float32(math.Float32frombits(a&hi) * math.Float32frombits(b&hi))
	return acc + float32(math.Float32frombits(a<<16)*math.Float32frombits(b<<16))
}

// convTileBF16Go is convTileGo for pairs of bfloat16.
func convTileBF16Go(t *convTile, width int) {
	bias := unsafe.Slice((*float32)(t.bias), width)
	for p := range t.m {
		y := unsafe.Slice(f32At(t.y, p*t.yPix), width)
		copy(y, bias)
		x, w := p*t.xPix, 0
		for range t.kh {
			for range t.run {
				v := *u32At(t.x, x)
				for o, wo := range unsafe.Slice(u32At(t.w, w), width) {
					y[o] = pairProduct(y[o], v, wo)
				}
				x, w = x+4, w+4*width
			}
			x += t.xJump
		}
		for o, v := range y {
			if v < t.floor {
				y[o] = t.floor
			}
		}
	}
}

// convGradWGo is dw[k][o] += Σ x[pixel][k]·dy[pixel][o] over rows·cols pixels, for width channels o.
func convGradWGo(t *convGradW, width int) {
	x, dy := 0, 0
	for range t.rows {
		for range t.cols {
			d := unsafe.Slice(f32At(t.dy, dy), width)
			for k := range t.m {
				v := *f32At(t.x, x+4*k)
				for o, dw := range unsafe.Slice(f32At(t.dw, 4*k*width), width) {
					*f32At(t.dw, 4*(k*width+o)) = dw + float32(v*d[o])
				}
			}
			x, dy = x+t.xPix, dy+t.dyPix
		}
		x, dy = x+t.xJump, dy+t.dyJump
	}
}

// convGradWBF16Go is convGradWGo where an element holds two pixels.
func convGradWBF16Go(t *convGradW, width int) {
	x, dy := 0, 0
	for range t.rows {
		for range t.cols {
			d := unsafe.Slice(u32At(t.dy, dy), width)
			for k := range t.m {
				v := *u32At(t.x, x+4*k)
				for o, dw := range unsafe.Slice(f32At(t.dw, 4*k*width), width) {
					*f32At(t.dw, 4*(k*width+o)) = pairProduct(dw, v, d[o])
				}
			}
			x, dy = x+t.xPix, dy+t.dyPix
		}
		x, dy = x+t.xJump, dy+t.dyJump
	}
}

// loadElem reads one element as float32.
func loadElem(e rowType, p unsafe.Pointer, i int) float32 {
	switch e {
	case rowF16:
		return half.FromFloat16(*u16At(p, 2*i))
	case rowBF16:
		return half.FromBFloat16(*u16At(p, 2*i))
	}
	return *f32At(p, 4*i)
}

// storeElem rounds v to nearest even and writes it.
func storeElem(e rowType, p unsafe.Pointer, i int, v float32) {
	switch e {
	case rowF16:
		*u16At(p, 2*i) = half.ToFloat16(v)
	case rowBF16:
		*u16At(p, 2*i) = half.ToBFloat16(v)
	default:
		*f32At(p, 4*i) = v
	}
}

// roundElem rounds v to e.
func roundElem(e rowType, v float32) float32 {
	switch e {
	case rowF16:
		return half.FromFloat16(half.ToFloat16(v))
	case rowBF16:
		return half.FromBFloat16(half.ToBFloat16(v))
	}
	return v
}

// convRowsGo copies n pixels of c channels; with masked, only where the mask, of the narrower type, is above zero.
func convRowsGo(t *convRows, src, dst rowType, masked bool) {
	narrow := max(src, dst)
	for p := range t.n {
		s, d := unsafe.Add(t.src, p*t.srcPix), unsafe.Add(t.dst, p*t.dstPix)
		for i := range t.c {
			v := loadElem(src, s, i)
			if masked && !(loadElem(narrow, t.mask, p*t.maskPix/narrow.bytes()+i) > 0) {
				v = 0
			}
			storeElem(dst, d, i, v)
		}
	}
}

// convColSumGo is sum[o] += Σ x[i·pix+o] over n pixels i, for c channels o.
func convColSumGo(e rowType, sum, x unsafe.Pointer, n, c, pix int) {
	for i := range n {
		row := unsafe.Add(x, i*pix)
		for o := range c {
			*f32At(sum, 4*o) += loadElem(e, row, o)
		}
	}
}

// convSumAccGo is dst[i] = Σ src[j·stride+i] over count accumulators j in order, for n elements i.
func convSumAccGo(dst, src unsafe.Pointer, n, stride, count int) {
	for i := range n {
		s := *f32At(src, 4*i)
		for j := 1; j < count; j++ {
			s += *f32At(src, j*stride+4*i)
		}
		*f32At(dst, 4*i) = s
	}
}

// convPairsGo is dst[i] = lo[i] | hi[i]<<16 for n elements.
func convPairsGo(dst, lo, hi unsafe.Pointer, n int) {
	for i := range n {
		*u32At(dst, 4*i) = uint32(*u16At(lo, 2*i)) | uint32(*u16At(hi, 2*i))<<16
	}
}

// convPoolGo is y = max(floor, maximum of the window's sums rounded to e) and its position; of equal maxima the first,
// and a NaN is taken whenever it comes.
func convPoolGo(t *convPool, e rowType) {
	for p := range t.n {
		for o := range t.c {
			best, at := float32(math.Inf(-1)), int32(0)
			for q := range t.size * t.size {
				v := roundElem(e, *f32At(t.src, p*t.step+q/t.size*t.row+q%t.size*t.pix+4*o))
				if v > best || v != v {
					best, at = v, int32(q)
				}
			}
			if t.relu != 0 && !(best > t.floor) {
				at = t.dead
			}
			if best < t.floor {
				best = t.floor
			}
			storeElem(e, unsafe.Add(t.y, p*t.yPix), o, best)
			*(*uint8)(unsafe.Add(t.idx, p*t.idxPix+o)) = uint8(at)
		}
	}
}

// convUnpoolGo writes dy where idx says and zero elsewhere in each window; with add it adds.
func convUnpoolGo(t *convUnpool, e, to rowType) {
	for p := range t.n {
		for o := range t.c {
			at := int(*(*uint8)(unsafe.Add(t.idx, p*t.idxPix+o)))
			d := loadElem(e, unsafe.Add(t.dy, p*t.dyPix), o)
			for q := range t.size * t.size {
				dst := unsafe.Add(t.dst, p*t.step+q/t.size*t.row+q%t.size*t.pix)
				v := float32(0)
				if t.add != 0 {
					v = loadElem(to, dst, o)
				}
				if q == at {
					v += d
				}
				storeElem(to, dst, o, v)
			}
		}
	}
}
