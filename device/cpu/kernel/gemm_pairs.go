package kernel

import (
	"unsafe"

	"halfstep/half"
)

// The twins of the routines that keep bfloat16 in pairs along K, each pair an element of 4 bytes with the first in the low
// half. A last k without a partner is paired with a zero.

// gemmPackPairRows packs n rows of k elements.
func gemmPackPairRows(dst, src unsafe.Pointer, ds, ss, k, n int) {
	for i := range n {
		d := vectorAt[uint16](dst, i*ds, k+k%2)
		clear(d)
		copy(d, vectorAt[uint16](src, i*ss, k))
	}
}

// gemmPackPairPanels cuts k rows of n elements into panels of width columns.
func gemmPackPairPanels(width int) gemmPackFunc {
	return func(dst, src unsafe.Pointer, ds, ss, k, n int) {
		for i := range k + k%2 {
			for j := range n {
				d := vectorAt[uint16](dst, j/width*ds+4*(i/2*width+j%width), 2)
				d[i%2] = 0
				if i < k {
					d[i%2] = vectorAt[uint16](src, i*ss, n)[j]
				}
			}
		}
	}
}

// gemmPackPairTransposed makes a panel of width columns from n rows of k elements.
func gemmPackPairTransposed(width int) gemmPackFunc {
	return func(dst, src unsafe.Pointer, _, ss, k, n int) {
		for j := range n {
			for i := range k + k%2 {
				d := vectorAt[uint16](dst, 4*(i/2*width+j), 2)
				d[i%2] = 0
				if i < k {
					d[i%2] = vectorAt[uint16](src, j*ss, k)[i]
				}
			}
		}
	}
}

// gemmPairs is the tile of pairs: gemmTileRow or, with columns of A as apart, gemmTileCol. VDPBF16PS adds the product of the
// second elements of two pairs first. A product of bfloat16 is exact in float32.
func gemmPairs(rows, cols int, col bool) gemmTileFunc {
	return func(k int, a unsafe.Pointer, as int, b unsafe.Pointer, bs, _ int, init unsafe.Pointer, is int, out unsafe.Pointer, os int) {
		down, along := as, 4
		if col {
			down, along = 4, as
		}
		for m := range rows {
			o := vectorAt[float32](out, m*os, cols)
			copy(o, vectorAt[float32](init, m*is, cols))
			for i := range k {
				x := vectorAt[uint16](a, m*down+i*along, 2)
				for n := range o {
					y := vectorAt[uint16](b, i*bs+4*n, 2)
					for q := 1; q >= 0; q-- {
						o[n] += float32(half.FromBFloat16(x[q]) * half.FromBFloat16(y[q]))
					}
				}
			}
		}
	}
}
