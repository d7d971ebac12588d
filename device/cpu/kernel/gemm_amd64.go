package kernel

import "halfstep/program"

// newGEMMRoutines gives the routines of a level. What has no assembly stays in Go.
func newGEMMRoutines(l Level, s GEMMShape) gemmRoutines {
	switch {
	case l >= AVX512 && s.A == program.Float64:
		r := newPortableGEMM(s, 12, 16, 4)
		r.inPlace = true
		r.tile = gemmTilesAVX512(s)
		return r
	case l >= AVX512:
		return newGEMMAVX512(s, l >= AVX512BF16)
	case l == AVX2:
		return newGEMMAVX2(s)
	}
	return newPortableGEMM(s, 4, 16, 4)
}

func newGEMMAVX512(s GEMMShape, bf16 bool) gemmRoutines {
	r := newPortableGEMM(s, 12, 32, 4)
	r.inPlace = s.A == program.Float32
	r.tile = gemmTilesAVX512(s)
	switch s.A {
	case program.Float32:
		r.packRows, r.packCols = gemmPackRowsF32AVX512, gemmPackPanels12xF32AVX512
		r.packPanel, r.packTransposed = gemmPackPanels32xF32AVX512, gemmPackTransposedF32AVX512
	case program.Float16:
		r.packRows, r.packCols = gemmPackRowsF16AVX512, gemmPackPanels12xF16AVX512
		r.packPanel, r.packTransposed = gemmPackPanels32xF16AVX512, gemmPackTransposedF16AVX512
	case program.BFloat16:
		r.packRows, r.packCols = gemmPackRowsBF16AVX512, gemmPackPanels12xBF16AVX512
		r.packPanel, r.packTransposed = gemmPackPanels32xBF16AVX512, gemmPackTransposedBF16AVX512
		if bf16 {
			usePairsAVX512(&r, s)
		}
	}
	r.store = gemmStoreFuncAVX512(s)
	return r
}

func gemmTilesAVX512(s GEMMShape) []gemmTileFunc {
	switch {
	case s.A == program.Float64 && s.TransA:
		return []gemmTileFunc{gemmColF64x4AVX512, gemmColF64x8AVX512, gemmColF64x12AVX512}
	case s.A == program.Float64:
		return []gemmTileFunc{gemmRowF64x4AVX512, gemmRowF64x8AVX512, gemmRowF64x12AVX512}
	case s.TransA:
		return []gemmTileFunc{gemmColF32x4AVX512, gemmColF32x8AVX512, gemmColF32x12AVX512}
	}
	return []gemmTileFunc{gemmRowF32x4AVX512, gemmRowF32x8AVX512, gemmRowF32x12AVX512}
}

// usePairsAVX512 keeps bfloat16 as it is, two elements of K side by side.
func usePairsAVX512(r *gemmRoutines, s GEMMShape) {
	r.perStep = 2
	r.packRows, r.packCols = gemmPackRowsBF16PairAVX512, gemmPackPanels12xBF16PairAVX512
	r.packPanel, r.packTransposed = gemmPackPanels32xBF16PairAVX512, gemmPackTransposedBF16PairAVX512
	r.tile = []gemmTileFunc{gemmRowBF16Pairx4AVX512, gemmRowBF16Pairx8AVX512, gemmRowBF16Pairx12AVX512}
	if s.TransA {
		r.tile = []gemmTileFunc{gemmColBF16Pairx4AVX512, gemmColBF16Pairx8AVX512, gemmColBF16Pairx12AVX512}
	}
}

// gemmStoreFuncAVX512 chooses the store routine by C's dtype and the epilogue.
func gemmStoreFuncAVX512(s GEMMShape) gemmStoreFunc {
	var plain, relu, mask gemmStoreFunc
	switch s.C {
	case program.Float16:
		plain, relu, mask = gemmStoreF16AVX512, gemmStoreReLUF16AVX512, gemmStoreMaskF16AVX512
	case program.BFloat16:
		plain, relu, mask = gemmStoreBF16AVX512, gemmStoreReLUBF16AVX512, gemmStoreMaskBF16AVX512
	default:
		plain, relu, mask = gemmStoreF32AVX512, gemmStoreReLUF32AVX512, gemmStoreMaskF32AVX512
	}
	switch {
	case s.ReLU:
		return relu
	case s.MaskReLU:
		return mask
	}
	return plain
}
