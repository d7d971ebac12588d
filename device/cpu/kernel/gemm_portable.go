package kernel

import (
	"unsafe"

	"halfstep/half"
	"halfstep/program"
)

// gemmElem is an element in memory: a number, or the bits of a half one. gemmSum is one that sums are kept in, and packed
// operands with them.
type (
	gemmElem interface{ float32 | float64 | uint16 }
	gemmSum  interface{ float32 | float64 }
)

// vectorAt is the n elements that begin so many bytes after p.
func vectorAt[T any](p unsafe.Pointer, distance, n int) []T {
	return unsafe.Slice((*T)(unsafe.Add(p, distance)), n)
}

// gemmWiden converts the elements of src.
func gemmWiden[T gemmElem, P gemmSum](dst []P, src []T, widen func(T) P) {
	if same, ok := any(src).([]P); ok {
		copy(dst, same)
		return
	}
	for i, v := range src {
		dst[i] = widen(v)
	}
}

// gemmPackRows widens n rows of k elements.
func gemmPackRows[T gemmElem, P gemmSum](widen func(T) P) gemmPackFunc {
	return func(dst, src unsafe.Pointer, ds, ss, k, n int) {
		for i := range n {
			gemmWiden(vectorAt[P](dst, i*ds, k), vectorAt[T](src, i*ss, k), widen)
		}
	}
}

// gemmPackPanels cuts k rows of n elements into panels of width columns, ds apart. Within a panel, rows follow each other;
// the last panel's columns from n on are undefined.
func gemmPackPanels[T gemmElem, P gemmSum](widen func(T) P, width int) gemmPackFunc {
	var p P
	row := width * int(unsafe.Sizeof(p))
	return func(dst, src unsafe.Pointer, ds, ss, k, n int) {
		for i := range k {
			s := vectorAt[T](src, i*ss, n)
			for to := i * row; len(s) > 0; to += ds {
				m := min(width, len(s))
				gemmWiden(vectorAt[P](dst, to, m), s[:m], widen)
				s = s[m:]
			}
		}
	}
}

// gemmPackTransposed makes a panel of width columns from n rows of k elements, each of which becomes a column.
func gemmPackTransposed[T gemmElem, P gemmSum](widen func(T) P, width int) gemmPackFunc {
	return func(dst, src unsafe.Pointer, _, ss, k, n int) {
		d := vectorAt[P](dst, 0, k*width)
		for j := range n {
			for i, v := range vectorAt[T](src, j*ss, k) {
				d[i*width+j] = widen(v)
			}
		}
	}
}

// gemmTileRow is out[m,n] = init[m,n] + Σ a[m,k]·b[k,n], summed in order of k, for rows of A that lie as apart.
func gemmTileRow[P gemmSum](rows, cols int) gemmTileFunc {
	var p P
	size := int(unsafe.Sizeof(p))
	return func(k int, a unsafe.Pointer, as int, b unsafe.Pointer, bs, _ int, init unsafe.Pointer, is int, out unsafe.Pointer, os int) {
		for m := range rows {
			gemmRow(vectorAt[P](out, m*os, cols), vectorAt[P](init, m*is, cols), k, unsafe.Add(a, m*as), size, b, bs)
		}
	}
}

// gemmTileCol is gemmTileRow for a panel of A: columns lie as apart, rows follow each other.
func gemmTileCol[P gemmSum](rows, cols int) gemmTileFunc {
	var p P
	size := int(unsafe.Sizeof(p))
	return func(k int, a unsafe.Pointer, as int, b unsafe.Pointer, bs, _ int, init unsafe.Pointer, is int, out unsafe.Pointer, os int) {
		for m := range rows {
			gemmRow(vectorAt[P](out, m*os, cols), vectorAt[P](init, m*is, cols), k, unsafe.Add(a, m*size), as, b, bs)
		}
	}
}

// gemmRow is out = init + Σ a[k]·b[k], a row of a tile.
func gemmRow[P gemmSum](out, init []P, k int, a unsafe.Pointer, as int, b unsafe.Pointer, bs int) {
	copy(out, init)
	for i := range k {
		v := *(*P)(unsafe.Add(a, i*as))
		for n, w := range vectorAt[P](b, i*bs, len(out)) {
			out[n] += P(v * w)
		}
	}
}

// gemmStore writes a tile of cols columns to C.
func gemmStore(s GEMMShape, cols int) gemmStoreFunc {
	switch s.C {
	case program.Float64:
		return gemmStoreAs(s, cols, func(v float64) float64 { return v }, func(v float64) float64 { return v })
	case program.Float16:
		return gemmStoreAs(s, cols, half.ToFloat16, half.FromFloat16)
	case program.BFloat16:
		return gemmStoreAs(s, cols, half.ToBFloat16, half.FromBFloat16)
	}
	return gemmStoreAs(s, cols, func(v float32) float32 { return v }, func(v float32) float32 { return v })
}

func gemmStoreAs[T gemmElem, P gemmSum](s GEMMShape, width int, narrow func(P) T, widen func(T) P) gemmStoreFunc {
	var p P
	row := width * int(unsafe.Sizeof(p))
	return func(c unsafe.Pointer, cs int, tile unsafe.Pointer, rows, cols int, mask unsafe.Pointer) {
		for i := range rows {
			d := vectorAt[T](c, i*cs, cols)
			for j, v := range vectorAt[P](tile, i*row, cols) {
				if s.ReLU && v < 0 || s.MaskReLU && !(widen(vectorAt[T](mask, i*cs, cols)[j]) > 0) {
					v = 0
				}
				d[j] = narrow(v)
			}
		}
	}
}
