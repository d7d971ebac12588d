package kernel

import (
	"unsafe"

	"halfstep/half"
	"halfstep/program"
)

// The routines of a product work on bytes at pointers: one driver serves all element types, and the assembly has the same
// form. Distances (ds, ss, as, ...) are in bytes.
type (
	// gemmPackFunc packs k by n elements of src, whose rows lie ss apart, to dst.
	gemmPackFunc func(dst, src unsafe.Pointer, ds, ss, k, n int)

	// gemmTileFunc computes a tile, out = init + A·B, over k packed elements. B's columns from cols on may be anything.
	gemmTileFunc func(k int, a unsafe.Pointer, as int, b unsafe.Pointer, bs, cols int, init unsafe.Pointer, is int, out unsafe.Pointer, os int)

	// gemmStoreFunc writes rows by cols of a tile to C with the epilogue; mask's rows lie as C's.
	gemmStoreFunc func(c unsafe.Pointer, cs int, tile unsafe.Pointer, rows, cols int, mask unsafe.Pointer)
)

// gemmOuterFunc computes c[i,j] = x[i]·y[j] for i < m, j < cols ≤ 16, float32; rows of c lie stride bytes apart.
type gemmOuterFunc func(c, x, y unsafe.Pointer, m, cols, stride int)

// packSlack is how many rows of a panel, and elements of a row, packing may write beyond the last.
const packSlack = 32

// gemmRoutines are the inner loops of one level for one shape.
type gemmRoutines struct {
	rows, cols int  // of a tile
	heights    int  // lower tiles come in multiples of this
	vector     int  // narrower tiles come in multiples of this
	packed     int  // bytes of an element of packed A and B
	perStep    int  // elements of K in it
	sum        int  // bytes of an element of a tile
	inPlace    bool // tile routines read unpacked B, too

	packRows       gemmPackFunc     // A as it is: n rows of k elements, ds apart
	packCols       gemmPackFunc     // transposed A: panels of rows columns, ds apart
	packPanels     gemmPackFunc     // B as it is: panels of cols columns, ds apart
	packTransposed gemmPackFunc     // transposed B: one panel
	tile           [][]gemmTileFunc // by width, then height
	store          gemmStoreFunc
	prefetch       func(p unsafe.Pointer, stride, rows int)
	outer          gemmOuterFunc // nil: none
}

// newPortableGEMM gives the routines in Go for tiles of any size.
func newPortableGEMM(s GEMMShape, rows, cols, heights int) gemmRoutines {
	r := gemmRoutines{
		rows: rows, cols: cols, heights: heights, vector: cols, packed: 4, perStep: 1, sum: 4,
		store: gemmStore(s, cols), prefetch: func(unsafe.Pointer, int, int) {},
	}
	switch s.A {
	case program.Float64:
		r.packed, r.sum = 8, 8
		usePortableGEMM(&r, s, func(v float64) float64 { return v })
	case program.Float32:
		usePortableGEMM(&r, s, func(v float32) float32 { return v })
	case program.Float16:
		usePortableGEMM(&r, s, half.FromFloat16)
	case program.BFloat16:
		usePortableGEMM(&r, s, half.FromBFloat16)
	}
	return r
}

func usePortableGEMM[T gemmElem, P gemmSum](r *gemmRoutines, s GEMMShape, widen func(T) P) {
	r.packRows = gemmPackRows(widen)
	r.packCols = gemmPackPanels(widen, r.rows)
	r.packPanels = gemmPackPanels(widen, r.cols)
	r.packTransposed = gemmPackTransposed(widen, r.cols)
	var tiles []gemmTileFunc
	for h := r.heights; h <= r.rows; h += r.heights {
		if s.TransA {
			tiles = append(tiles, gemmTileCol[P](h, r.cols))
		} else {
			tiles = append(tiles, gemmTileRow[P](h, r.cols))
		}
	}
	r.tile = [][]gemmTileFunc{tiles}
}
