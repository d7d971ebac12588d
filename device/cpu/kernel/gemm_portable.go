package kernel

import (
	"unsafe"

	"halfstep/half"
	"halfstep/program"
)

// gemmNumber is an element in memory: a number, or the bits of a half one.
type gemmNumber interface{ float32 | float64 | float16 | bfloat16 }

// gemmSum is a type that sums are kept in, and packed operands with them.
type gemmSum interface{ float32 | float64 }

// float16 and bfloat16 are the bits of a number.
type (
	float16  uint16
	bfloat16 uint16
)

func fromFloat16(h float16) float32   { return half.FromFloat16(uint16(h)) }
func fromBFloat16(h bfloat16) float32 { return half.FromBFloat16(uint16(h)) }

// vectorAt is the n elements at a distance in bytes from p.
func vectorAt[T any](p unsafe.Pointer, distance, n int) []T {
	return unsafe.Slice((*T)(unsafe.Add(p, distance)), n)
}

// gemmPackRows widens n rows of k elements.
func gemmPackRows[T gemmNumber, P gemmSum](widen func(T) P) gemmPackFunc {
	return func(dst, src unsafe.Pointer, ds, ss, k, n int) {
		for i := range n {
			d := vectorAt[P](dst, i*ds, k)
			for j, v := range vectorAt[T](src, i*ss, k) {
				d[j] = widen(v)
			}
		}
	}
}

// gemmPackPanels cuts k rows of n elements into panels of width columns. A panel's rows follow each other; its columns
// beyond n are undefined.
func gemmPackPanels[T gemmNumber, P gemmSum](widen func(T) P, width int) gemmPackFunc {
	var p P
	row := width * int(unsafe.Sizeof(p))
	return func(dst, src unsafe.Pointer, ds, ss, k, n int) {
		for i := range k {
			s := vectorAt[T](src, i*ss, n)
			for panel := 0; panel*width < n; panel++ {
				s := s[panel*width : min(panel*width+width, n)]
				d := vectorAt[P](dst, panel*ds+i*row, len(s))
				for j, v := range s {
					d[j] = widen(v)
				}
			}
		}
	}
}

// gemmPackTransposed makes a panel of width columns from n rows of k elements, each of which becomes a column.
func gemmPackTransposed[T gemmNumber, P gemmSum](widen func(T) P, width int) gemmPackFunc {
	return func(dst, src unsafe.Pointer, _, ss, k, n int) {
		d := vectorAt[P](dst, 0, k*width)
		for j := range n {
			for i, v := range vectorAt[T](src, j*ss, k) {
				d[i*width+j] = widen(v)
			}
		}
	}
}

// gemmTileRow is out[m,n] = init[m,n] + Σ a[m,k]·b[k,n], the sum in order of k, for packed rows of A, as bytes apart.
func gemmTileRow[P gemmSum](rows, cols int) gemmTileFunc {
	var p P
	size := int(unsafe.Sizeof(p))
	return func(k int, a unsafe.Pointer, as int, b unsafe.Pointer, bs, _ int, init unsafe.Pointer, is int, out unsafe.Pointer, os int) {
		for m := range rows {
			gemmRow(vectorAt[P](out, m*os, cols), vectorAt[P](init, m*is, cols), k, unsafe.Add(a, m*as), size, b, bs)
		}
	}
}

// gemmTileCol is gemmTileRow for a panel of A: columns lie as bytes apart, rows follow each other.
func gemmTileCol[P gemmSum](rows, cols int) gemmTileFunc {
	var p P
	size := int(unsafe.Sizeof(p))
	return func(k int, a unsafe.Pointer, as int, b unsafe.Pointer, bs, _ int, init unsafe.Pointer, is int, out unsafe.Pointer, os int) {
		for m := range rows {
			gemmRow(vectorAt[P](out, m*os, cols), vectorAt[P](init, m*is, cols), k, unsafe.Add(a, m*size), as, b, bs)
		}
	}
}

// gemmRow is out = init + Σ a[k]·b[k].
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
		return gemmStoreAs(s, cols, func(v float32) float16 { return float16(half.ToFloat16(v)) }, fromFloat16)
	case program.BFloat16:
		return gemmStoreAs(s, cols, func(v float32) bfloat16 { return bfloat16(half.ToBFloat16(v)) }, fromBFloat16)
	}
	return gemmStoreAs(s, cols, func(v float32) float32 { return v }, func(v float32) float32 { return v })
}

func gemmStoreAs[T gemmNumber, P gemmSum](s GEMMShape, width int, narrow func(P) T, widen func(T) P) gemmStoreFunc {
	var p P
	row := width * int(unsafe.Sizeof(p))
	return func(c unsafe.Pointer, cs int, tile unsafe.Pointer, rows, cols int, mask unsafe.Pointer) {
		for i := range rows {
			d := vectorAt[T](c, i*cs, cols)
			for j, v := range vectorAt[P](tile, i*row, cols) {
				if s.ReLU && v <= 0 || s.MaskReLU && !(widen(vectorAt[T](mask, i*cs, cols)[j]) > 0) {
					v = 0
				}
				d[j] = narrow(v)
			}
		}
	}
}
