package kernel

import "halfstep/program"

// newGEMMAVX2 gives the routines of level AVX2: tiles of 6 rows and two vectors.
func newGEMMAVX2(s GEMMShape) gemmRoutines {
	if s.A == program.Float64 {
		r := newPortableGEMM(s, 6, 8, 2)
		r.tile = []gemmTileFunc{gemmRowF64x2AVX2, gemmRowF64x4AVX2, gemmRowF64x6AVX2}
		if s.TransA {
			r.tile = []gemmTileFunc{gemmColF64x2AVX2, gemmColF64x4AVX2, gemmColF64x6AVX2}
		}
		return r
	}
	r := newPortableGEMM(s, 6, 16, 2)
	r.tile = []gemmTileFunc{gemmRowF32x2AVX2, gemmRowF32x4AVX2, gemmRowF32x6AVX2}
	if s.TransA {
		r.tile = []gemmTileFunc{gemmColF32x2AVX2, gemmColF32x4AVX2, gemmColF32x6AVX2}
	}
	return r
}
