package kernel

import (
	"unsafe"

	"halfstep/program"
)

// The routines below work on bytes at pointers: one set serves all element types, and the assembly has the same form.
// Distances are in bytes.
type (
	// gemmPackFunc packs k by n elements of src, whose rows lie ss apart, to dst.
	gemmPackFunc func(dst, src unsafe.Pointer, ds, ss, k, n int)

	// gemmTileFunc computes a tile: out = init + A·B over k steps. Columns from cols on may be anything.
	gemmTileFunc func(k int, a unsafe.Pointer, as int, b unsafe.Pointer, bs, cols int, init unsafe.Pointer, is int, out unsafe.Pointer, os int)

	// gemmStoreFunc writes the first rows and cols of a tile to C with the epilogue; mask's rows lie as C's.
	gemmStoreFunc func(c unsafe.Pointer, cs int, tile unsafe.Pointer, rows, cols int, mask unsafe.Pointer)
)

// packSlack is how many rows of a panel packing may write beyond the last.
const packSlack = 32

// gemmRoutines are the inner loops of one level for one shape.
type gemmRoutines struct {
	rows, cols int // of a tile
	heights    int // lower tiles come in multiples of this
	packed     int // bytes of an element of packed A and B
	perStep    int // elements of K in it
	acc        int // bytes of an element of a tile
	direct     bool
	inPlace    bool // tile routines read unpacked B, too

	packRows       gemmPackFunc // A as it is: rows of k elements, ds apart
	packCols       gemmPackFunc // transposed A: panels of rows columns, ds apart
	packPanel      gemmPackFunc // B as it is: one panel of cols columns, rows ds apart
	packTransposed gemmPackFunc // transposed B
	tile           []gemmTileFunc
	store          gemmStoreFunc
}

// newPortableGEMM gives the routines in Go for tiles of any size.
func newPortableGEMM(s GEMMShape, rows, cols, heights int) gemmRoutines {
	r := gemmRoutines{rows: rows, cols: cols, heights: heights, packed: 4, perStep: 1, acc: 4, direct: gemmDirect(s),
		store: gemmStore(s, cols)}
	switch s.A {
	case program.Float64:
		r.packed, r.acc = 8, 8
		usePortableGEMM(&r, s, func(v float64) float64 { return v })
	case program.Float32:
		usePortableGEMM(&r, s, func(v float32) float32 { return v })
	case program.Float16:
		usePortableGEMM(&r, s, fromFloat16)
	case program.BFloat16:
		usePortableGEMM(&r, s, fromBFloat16)
	}
	return r
}

func usePortableGEMM[T gemmNumber, P gemmSum](r *gemmRoutines, s GEMMShape, widen func(T) P) {
	r.packRows = gemmPackRows(widen)
	r.packCols = gemmPackPanels(widen, r.rows)
	r.packPanel = gemmPackPanels(widen, r.cols)
	r.packTransposed = gemmPackTransposed(widen, r.cols)
	for h := r.heights; h <= r.rows; h += r.heights {
		tile := gemmTileRow[P](h, r.cols)
		if s.TransA {
			tile = gemmTileCol[P](h, r.cols)
		}
		r.tile = append(r.tile, tile)
	}
}
