package kernel

import (
	"unsafe"

	"halfstep/half"
	"halfstep/program"
)

// newGEMMAVX2 gives tiles of 6 rows and two vectors: 12 of the 16 registers hold sums. What does not fill whole vectors is
// left to the twins.
func newGEMMAVX2(s GEMMShape) gemmRoutines {
	if s.A == program.Float64 {
		r := newPortableGEMM(s, 6, 8, 2)
		r.prefetch = gemmPrefetch
		r.tile = [][]gemmTileFunc{{gemmRowF64x2x8AVX2, gemmRowF64x4x8AVX2, gemmRowF64x6x8AVX2}}
		if s.TransA {
			r.tile = [][]gemmTileFunc{{gemmColF64x2x8AVX2, gemmColF64x4x8AVX2, gemmColF64x6x8AVX2}}
		}
		return r
	}
	r := newPortableGEMM(s, 6, 16, 2)
	r.prefetch = gemmPrefetch
	r.tile = [][]gemmTileFunc{{gemmRowF32x2x16AVX2, gemmRowF32x4x16AVX2, gemmRowF32x6x16AVX2}}
	if s.TransA {
		r.tile = [][]gemmTileFunc{{gemmColF32x2x16AVX2, gemmColF32x4x16AVX2, gemmColF32x6x16AVX2}}
	}
	switch s.A {
	case program.Float32:
		r.packCols = gemmPackColsAVX2
		r.packTransposed = gemmPackTransposedAVX2
	case program.Float16, program.BFloat16:
		h := halfAVX2{s.A == program.BFloat16}
		r.packRows, r.packCols = h.packRows, h.packCols
		r.packPanels, r.packTransposed = h.packPanels, h.packTransposed
	}
	r.store = gemmStoreAVX2(s, r.store)
	return r
}

func gemmStoreAVX2(s GEMMShape, twin gemmStoreFunc) gemmStoreFunc {
	var whole gemmStoreFunc
	switch s.C {
	case program.Float16:
		whole = s.storeFunc(gemmStoreF16AVX2, gemmStoreReLUF16AVX2, gemmStoreMaskF16AVX2)
	case program.BFloat16:
		whole = s.storeFunc(gemmStoreBF16AVX2, gemmStoreReLUBF16AVX2, gemmStoreMaskBF16AVX2)
	default:
		whole = s.storeFunc(gemmStoreF32AVX2, gemmStoreReLUF32AVX2, gemmStoreMaskF32AVX2)
	}
	return func(c unsafe.Pointer, cs int, tile unsafe.Pointer, rows, cols int, mask unsafe.Pointer) {
		if cols == 16 {
			whole(c, cs, tile, rows, cols, mask)
		} else {
			twin(c, cs, tile, rows, cols, mask)
		}
	}
}

// gemmPackColsAVX2 is gemmPackPanels for panels of 6 columns.
func gemmPackColsAVX2(dst, src unsafe.Pointer, ds, ss, k, n int) {
	whole := max(n/6-1, 0) // nothing beyond the last panel may be read
	if whole > 0 {
		gemmPackPanels6AVX2(dst, src, ds, ss, k, whole)
	}
	for i := range k {
		s := vectorAt[float32](src, i*ss, n)
		for j := whole * 6; j < n; j++ {
			vectorAt[float32](dst, j/6*ds+i*24, 6)[j%6] = s[j]
		}
	}
}

// gemmPackTransposedAVX2 is gemmPackTransposed for panels of 16 columns.
func gemmPackTransposedAVX2(dst, src unsafe.Pointer, _, ss, k, n int) {
	whole := k &^ 7
	for j := 0; j+8 <= n; j += 8 {
		gemmTranspose8AVX2(unsafe.Add(dst, j*4), unsafe.Add(src, j*ss), ss, whole)
	}
	d := vectorAt[float32](dst, 0, k*16)
	for j := range n {
		i := whole
		if j >= n&^7 {
			i = 0
		}
		for s := vectorAt[float32](src, j*ss, k); i < k; i++ {
			d[i*16+j] = s[i]
		}
	}
}

// halfAVX2 packs a half type, through buffers of float32 where elements move.
type halfAVX2 struct{ bfloat16 bool }

func (h halfAVX2) widen(dst, src unsafe.Pointer, n int) {
	whole, from := n&^15, half.FromFloat16
	if h.bfloat16 {
		decodeBFloat16AVX2(dst, src, whole)
		from = half.FromBFloat16
	} else {
		decodeFloat16AVX2(dst, src, whole)
	}
	d := vectorAt[float32](dst, 0, n)
	for i, v := range vectorAt[uint16](src, 0, n)[whole:] {
		d[whole+i] = from(v)
	}
}

func (h halfAVX2) packRows(dst, src unsafe.Pointer, ds, ss, k, n int) {
	for i := range n {
		h.widen(unsafe.Add(dst, i*ds), unsafe.Add(src, i*ss), k)
	}
}

func (h halfAVX2) packPanels(dst, src unsafe.Pointer, ds, ss, k, n int) {
	for i := range k {
		for j := 0; j < n; j += 16 {
			h.widen(unsafe.Add(dst, j/16*ds+i*64), unsafe.Add(src, i*ss+j*2), min(16, n-j))
		}
	}
}

func (h halfAVX2) packCols(dst, src unsafe.Pointer, ds, ss, k, n int) {
	var row [240]float32
	for i := range k {
		for j := 0; j < n; j += len(row) {
			m := min(len(row), n-j)
			h.widen(unsafe.Pointer(&row), unsafe.Add(src, i*ss+j*2), m)
			gemmPackColsAVX2(unsafe.Add(dst, j/6*ds+i*24), unsafe.Pointer(&row), ds, 0, 1, m)
		}
	}
}

func (h halfAVX2) packTransposed(dst, src unsafe.Pointer, _, ss, k, n int) {
	const length = 64
	var rows [8][length]float32
	for i := 0; i < k; i += length {
		part := min(length, k-i)
		for j := 0; j < n; j += len(rows) {
			m := min(len(rows), n-j)
			for q := range m {
				h.widen(unsafe.Pointer(&rows[q]), unsafe.Add(src, (j+q)*ss+i*2), part)
			}
			gemmPackTransposedAVX2(unsafe.Add(dst, i*64+j*4), unsafe.Pointer(&rows), 0, length*4, part, m)
		}
	}
}
