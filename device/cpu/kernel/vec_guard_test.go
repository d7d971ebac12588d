package kernel

import (
	"fmt"
	"math"
	"testing"
	"unsafe"
)

const (
	guardBytes = 64
	guardByte  = 0xA5
)

// guarded is an array with guard bytes before and after it.
type guarded[E any] struct {
	data []E
	buf  []byte
	from int // bytes of buf before data
}

// newGuarded makes n elements that start offset bytes, a multiple of their size, after a 64-byte boundary.
func newGuarded[E any](n, offset int) guarded[E] {
	var e E
	size := int(unsafe.Sizeof(e))
	buf := make([]byte, n*size+offset+2*guardBytes+64)
	for i := range buf {
		buf[i] = guardByte
	}
	base := uintptr(unsafe.Pointer(&buf[0]))
	from := int((base+63)&^63-base) + guardBytes + offset
	return guarded[E]{unsafe.Slice((*E)(unsafe.Pointer(&buf[from])), n), buf, from}
}

// check fails when a guard byte has changed.
func (g guarded[E]) check(t *testing.T, what string) {
	t.Helper()
	var e E
	end := g.from + len(g.data)*int(unsafe.Sizeof(e))
	for i, b := range g.buf {
		if (i < g.from || i >= end) && b != guardByte {
			t.Fatalf("%s: wrote %d bytes off an array of %d bytes", what, i-g.from, end-g.from)
		}
	}
}

// shapes calls f with every length from 0 to 200 at some offsets, and with every offset up to 63 bytes at some lengths.
func shapes(size int, f func(n, offset int)) {
	for n := range 201 {
		for k := range 3 {
			f(n, (n*7+k*20)%64/size*size)
		}
	}
	for _, n := range []int{1, 31, 64, 150} {
		for offset := 0; offset < 64; offset += size {
			f(n, offset)
		}
	}
}

// forLevels runs f for each level of this machine, as a subtest.
func forLevels(t *testing.T, f func(t *testing.T, v *Vec)) {
	for _, l := range Levels() {
		t.Run(l.String(), func(t *testing.T) { f(t, NewVec(l)) })
	}
}

// bits gives an element's bits and whether it is a NaN.
func bits[E any](x E, c func(E) float32) (string, bool) {
	f := c(x)
	return fmt.Sprintf("%v (%#x)", f, math.Float32bits(f)), f != f
}
