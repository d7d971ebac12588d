package kernel

import "unsafe"

// The choice of routine by level. Direct calls, not function values, so that arguments stay on the stack.

// portableLanes is the channel block of the portable twins.
const portableLanes = 8

// convLanes is the number of float32 in a vector; channels in scratch come in multiples of it.
func (l Level) convLanes() int {
	if l >= AVX512 {
		return 16
	}
	return 8
}

// convMaxTile is the largest m of a tile.
func (l Level) convMaxTile() int {
	if l == AVX2 {
		return 6
	}
	return 13
}

func (l Level) convTile(nv int, bf16 bool, t *convTile) {
	switch {
	case bf16 && nv == 2:
		convTile2BF16(t)
	case bf16:
		convTile1BF16(t)
	case l >= AVX512 && nv == 2:
		convTile2AVX512(t)
	case l >= AVX512:
		convTile1AVX512(t)
	case l == AVX2 && nv == 2:
		convTile2AVX2(t)
	case l == AVX2:
		convTile1AVX2(t)
	default:
		convTileGo(t, nv*portableLanes)
	}
}

func (l Level) convGradW(nv int, bf16 bool, t *convGradW) {
	switch {
	case bf16 && nv == 2:
		convGradW2BF16(t)
	case bf16:
		convGradW1BF16(t)
	case l >= AVX512 && nv == 2:
		convGradW2AVX512(t)
	case l >= AVX512:
		convGradW1AVX512(t)
	case l == AVX2 && nv == 2:
		convGradW2AVX2(t)
	case l == AVX2:
		convGradW1AVX2(t)
	default:
		convGradWGo(t, nv*portableLanes)
	}
}

// avx2Tail splits c into what AVX2 does in whole vectors and a rest for the twin.
func avx2Tail(c int) (whole, rest int) { return c &^ 7, c & 7 }

func (l Level) convRows(t *convRows, src, dst rowType, mask bool) {
	switch {
	case l >= AVX512:
		convRowsAVX512(l, t, src, dst, mask)
	case l == AVX2:
		whole, rest := avx2Tail(t.c)
		head, tail := *t, *t
		if head.c = whole; whole > 0 {
			convRowsAVX2(&head, src, dst, mask)
		}
		if tail.c = rest; rest > 0 {
			tail.dst = unsafe.Add(t.dst, whole*dst.bytes())
			tail.src = unsafe.Add(t.src, whole*src.bytes())
			if mask {
				tail.mask = unsafe.Add(t.mask, whole*max(src, dst).bytes())
			}
			convRowsGo(&tail, src, dst, mask)
		}
	default:
		convRowsGo(t, src, dst, mask)
	}
}

func convRowsAVX512(l Level, t *convRows, src, dst rowType, mask bool) {
	switch {
	case src == rowF32 && dst == rowF32:
		if mask {
			convRowsF32F32MaskAVX512(t)
		} else {
			convRowsF32F32AVX512(t)
		}
	case src == rowF16:
		if mask {
			convRowsF16F32MaskAVX512(t)
		} else {
			convRowsF16F32AVX512(t)
		}
	case dst == rowF16:
		if mask {
			convRowsF32F16MaskAVX512(t)
		} else {
			convRowsF32F16AVX512(t)
		}
	case src == rowBF16 && dst == rowBF16:
		if mask {
			convRowsBF16BF16MaskAVX512(t)
		} else {
			convRowsBF16BF16AVX512(t)
		}
	case src == rowBF16:
		if mask {
			convRowsBF16F32MaskAVX512(t)
		} else {
			convRowsBF16F32AVX512(t)
		}
	case l == AVX512BF16:
		if mask {
			convRowsF32BF16MaskAVX512BF16(t)
		} else {
			convRowsF32BF16AVX512BF16(t)
		}
	default:
		if mask {
			convRowsF32BF16MaskAVX512(t)
		} else {
			convRowsF32BF16AVX512(t)
		}
	}
}

func convRowsAVX2(t *convRows, src, dst rowType, mask bool) {
	switch {
	case src == rowF32 && dst == rowF32:
		if mask {
			convRowsF32F32MaskAVX2(t)
		} else {
			convRowsF32F32AVX2(t)
		}
	case src == rowF16:
		if mask {
			convRowsF16F32MaskAVX2(t)
		} else {
			convRowsF16F32AVX2(t)
		}
	case dst == rowF16:
		if mask {
			convRowsF32F16MaskAVX2(t)
		} else {
			convRowsF32F16AVX2(t)
		}
	case src == rowBF16:
		if mask {
			convRowsBF16F32MaskAVX2(t)
		} else {
			convRowsBF16F32AVX2(t)
		}
	default:
		if mask {
			convRowsF32BF16MaskAVX2(t)
		} else {
			convRowsF32BF16AVX2(t)
		}
	}
}

func (l Level) convPool(t *convPool, e rowType) {
	switch {
	case l == AVX512BF16 && e == rowBF16:
		convPoolBF16AVX512BF16(t)
	case l >= AVX512:
		switch e {
		case rowF32:
			convPoolF32AVX512(t)
		case rowF16:
			convPoolF16AVX512(t)
		case rowBF16:
			convPoolBF16AVX512(t)
		}
	case l == AVX2:
		whole, rest := avx2Tail(t.c)
		head, tail := *t, *t
		if head.c = whole; whole > 0 {
			switch e {
			case rowF32:
				convPoolF32AVX2(&head)
			case rowF16:
				convPoolF16AVX2(&head)
			case rowBF16:
				convPoolBF16AVX2(&head)
			}
		}
		if tail.c = rest; rest > 0 {
			tail.src = unsafe.Add(t.src, 4*whole)
			tail.y = unsafe.Add(t.y, whole*e.bytes())
			tail.idx = unsafe.Add(t.idx, whole)
			convPoolGo(&tail, e)
		}
	default:
		convPoolGo(t, e)
	}
}

func (l Level) convUnpool(t *convUnpool, e, to rowType) {
	switch {
	case to == rowBF16:
		convUnpoolBF16BF16AVX512(t)
	case l >= AVX512:
		switch e {
		case rowF32:
			convUnpoolF32F32AVX512(t)
		case rowF16:
			convUnpoolF16F32AVX512(t)
		case rowBF16:
			convUnpoolBF16F32AVX512(t)
		}
	case l == AVX2:
		whole, rest := avx2Tail(t.c)
		head, tail := *t, *t
		if head.c = whole; whole > 0 {
			switch e {
			case rowF32:
				convUnpoolF32F32AVX2(&head)
			case rowF16:
				convUnpoolF16F32AVX2(&head)
			case rowBF16:
				convUnpoolBF16F32AVX2(&head)
			}
		}
		if tail.c = rest; rest > 0 {
			tail.dst = unsafe.Add(t.dst, 4*whole)
			tail.dy = unsafe.Add(t.dy, whole*e.bytes())
			tail.idx = unsafe.Add(t.idx, whole)
			convUnpoolGo(&tail, e, to)
		}
	default:
		convUnpoolGo(t, e, to)
	}
}

// convColSum adds pixels to sums; c is a multiple of the level's lanes.
func (l Level) convColSum(e rowType, sum, x unsafe.Pointer, n, c, pix int) {
	switch {
	case e == rowBF16:
		convColSumBF16AVX512(sum, x, n, c/16, pix)
	case l >= AVX512:
		convColSumF32AVX512(sum, x, n, c/16, pix)
	case l == AVX2:
		convColSumF32AVX2(sum, x, n, c/8, pix)
	default:
		convColSumGo(e, sum, x, n, c, pix)
	}
}

// convSumAcc sums accumulators; n is a multiple of the level's lanes.
func (l Level) convSumAcc(dst, src unsafe.Pointer, n, stride, count int) {
	switch {
	case l >= AVX512:
		convSumAccAVX512(dst, src, n/16, stride, count)
	case l == AVX2:
		convSumAccAVX2(dst, src, n/8, stride, count)
	default:
		convSumAccGo(dst, src, n, stride, count)
	}
}

// convPairs interleaves 16-bit elements; only AVX512BF16 wants it.
func (l Level) convPairs(dst, lo, hi unsafe.Pointer, n int) { convPairsAVX512(dst, lo, hi, n) }

// The sparse backward pass exists from AVX512 on.

func (l Level) convStage(t *convStage, e rowType) {
	switch e {
	case rowF32:
		convStageF32AVX512(t)
	case rowF16:
		convStageF16AVX512(t)
	case rowBF16:
		convStageBF16AVX512(t)
	}
}

func (l Level) convTranspose(dst, src unsafe.Pointer, rows, cols, dstLine, line int) {
	convTransposeAVX512(dst, src, rows, cols, dstLine, line)
}

func (l Level) convSparseW(t *convSparseW) { convSparseWAVX512(t) }
func (l Level) convSparseX(t *convSparseX) { convSparseXAVX512(t) }
