package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"halfstep/device/cpu/pool"
	"halfstep/program"
)

// TestGEMMOuter compares the outer product with its twin bit for bit, within guards, and sees that a product at batch 1
// comes to it.
func TestGEMMOuter(t *testing.T) {
	if !slices.Contains(Levels(), AVX512) {
		t.Skip("needs AVX-512")
	}
	const guard = 17
	rng := rand.New(rand.NewPCG(1, 2))
	for _, m := range []int{1, 2, 7, 784} {
		for cols := 1; cols <= outerCols; cols++ {
			stride := cols + m%5
			x, y := make([]float32, m), make([]float32, cols)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			for j := range y {
				y[j] = float32(rng.NormFloat64())
			}
			y[0] = float32(math.Copysign(0, -1))
			got, want := make([]float32, m*stride+guard), make([]float32, m*stride+guard)
			for i := range got {
				got[i], want[i] = 99, 99
			}
			gemmOuterF32AVX512(unsafe.Pointer(&got[0]), unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0]), m, cols, 4*stride)
			gemmOuterGo(unsafe.Pointer(&want[0]), unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0]), m, cols, 4*stride)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("m %d, cols %d, element %d: %v, want %v", m, cols, i, got[i], want[i])
				}
			}
		}
	}
	p := pool.New(1)
	defer p.Close()
	f := program.Float32
	g, err := NewGEMM(AVX512, GEMMShape{M: 784, N: 16, K: 1, TransA: true, ColSum: true, A: f, B: f, C: f}, p)
	if err != nil || !g.isOuter() {
		t.Errorf("batch 1: %v, %v", g.isOuter(), err)
	}
}
