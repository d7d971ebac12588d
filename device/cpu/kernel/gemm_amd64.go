package kernel

import "halfstep/program"

// newGEMMRoutines gives the routines of a level. What has no assembly stays in Go.
func newGEMMRoutines(l Level, s GEMMShape) gemmRoutines {
	switch {
	case l >= AVX512:
		return newGEMMAVX512(s, l >= AVX512BF16)
	case l == AVX2:
		return newGEMMAVX2(s)
	}
	return newPortableGEMM(s, 4, 16, 4)
}

// newGEMMAVX512 gives tiles of 12 rows and two vectors: 24 of the 32 registers hold sums.
func newGEMMAVX512(s GEMMShape, pairs bool) gemmRoutines {
	if s.A == program.Float64 {
		r := newPortableGEMM(s, 12, 16, 4)
		r.inPlace, r.prefetch = true, gemmPrefetch
		r.tile = [][]gemmTileFunc{{gemmRowF64x4x16AVX512, gemmRowF64x8x16AVX512, gemmRowF64x12x16AVX512}}
		if s.TransA {
			r.tile = [][]gemmTileFunc{{gemmColF64x4x16AVX512, gemmColF64x8x16AVX512, gemmColF64x12x16AVX512}}
		}
		return r
	}
	r := newPortableGEMM(s, 12, 32, 4)
	r.vector = 16
	r.inPlace = s.A == program.Float32
	r.prefetch = gemmPrefetch
	r.tile = [][]gemmTileFunc{
		{gemmRowF32x4x16AVX512, gemmRowF32x8x16AVX512, gemmRowF32x12x16AVX512},
		{gemmRowF32x4x32AVX512, gemmRowF32x8x32AVX512, gemmRowF32x12x32AVX512},
	}
	if s.TransA {
		r.tile = [][]gemmTileFunc{
			{gemmColF32x4x16AVX512, gemmColF32x8x16AVX512, gemmColF32x12x16AVX512},
			{gemmColF32x4x32AVX512, gemmColF32x8x32AVX512, gemmColF32x12x32AVX512},
		}
	}
	switch s.A {
	case program.Float32:
		r.outer = gemmOuterF32AVX512
		r.packRows, r.packCols = gemmPackRowsF32AVX512, gemmPackPanels12xF32AVX512
		r.packPanels, r.packTransposed = gemmPackPanels32xF32AVX512, gemmPackTransposedF32AVX512
	case program.Float16:
		r.packRows, r.packCols = gemmPackRowsF16AVX512, gemmPackPanels12xF16AVX512
		r.packPanels, r.packTransposed = gemmPackPanels32xF16AVX512, gemmPackTransposedF16AVX512
	case program.BFloat16:
		r.packRows, r.packCols = gemmPackRowsBF16AVX512, gemmPackPanels12xBF16AVX512
		r.packPanels, r.packTransposed = gemmPackPanels32xBF16AVX512, gemmPackTransposedBF16AVX512
		if pairs {
			usePairsAVX512(&r, s)
		}
	}
	r.store = gemmStoreAVX512(s)
	return r
}

// usePairsAVX512 keeps bfloat16 as it is, two elements of K side by side.
func usePairsAVX512(r *gemmRoutines, s GEMMShape) {
	r.perStep = 2
	r.packRows, r.packCols = gemmPackRowsBF16PairAVX512, gemmPackPanels12xBF16PairAVX512
	r.packPanels, r.packTransposed = gemmPackPanels32xBF16PairAVX512, gemmPackTransposedBF16PairAVX512
	r.tile = [][]gemmTileFunc{
		{gemmRowBF16Pairx4x16AVX512, gemmRowBF16Pairx8x16AVX512, gemmRowBF16Pairx12x16AVX512},
		{gemmRowBF16Pairx4x32AVX512, gemmRowBF16Pairx8x32AVX512, gemmRowBF16Pairx12x32AVX512},
	}
	if s.TransA {
		r.tile = [][]gemmTileFunc{
			{gemmColBF16Pairx4x16AVX512, gemmColBF16Pairx8x16AVX512, gemmColBF16Pairx12x16AVX512},
			{gemmColBF16Pairx4x32AVX512, gemmColBF16Pairx8x32AVX512, gemmColBF16Pairx12x32AVX512},
		}
	}
}

func gemmStoreAVX512(s GEMMShape) gemmStoreFunc {
	switch s.C {
	case program.Float16:
		return s.storeFunc(gemmStoreF16AVX512, gemmStoreReLUF16AVX512, gemmStoreMaskF16AVX512)
	case program.BFloat16:
		return s.storeFunc(gemmStoreBF16AVX512, gemmStoreReLUBF16AVX512, gemmStoreMaskBF16AVX512)
	}
	return s.storeFunc(gemmStoreF32AVX512, gemmStoreReLUF32AVX512, gemmStoreMaskF32AVX512)
}

// storeFunc chooses by epilogue.
func (s GEMMShape) storeFunc(plain, relu, mask gemmStoreFunc) gemmStoreFunc {
	switch {
	case s.ReLU:
		return relu
	case s.MaskReLU:
		return mask
	}
	return plain
}
