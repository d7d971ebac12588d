package kernel

import (
	"unsafe"

	"halfstep/program"
)

// outerCols is how many columns of an outer product one call computes.
const outerCols = 16

// isOuter reports whether the product is a column times a row, one block of float32: the weight gradient of a small linear
// layer at batch 1. Tiles would cost more than the products in them.
func (g *GEMM) isOuter() bool {
	s := &g.shape
	return g.r.outer != nil && s.TransA && !s.TransB && s.K == 1 && s.C == program.Float32 && !s.Bias && !s.ReLU && !s.MaskReLU &&
		g.blockRows*g.blockCols == 1
}

// outerProduct is task of an outer product.
func (g *GEMM) outerProduct(_, task int) {
	if task == 1 {
		g.colSum()
		return
	}
	s := &g.shape
	for j := 0; j < s.N; j += outerCols {
		g.r.outer(unsafe.Add(g.c, 4*j), g.a, unsafe.Add(g.b, 4*j), s.M, min(outerCols, s.N-j), 4*s.N)
	}
}

// gemmOuterGo is the twin of the assembly.
func gemmOuterGo(c, x, y unsafe.Pointer, m, cols, stride int) {
	row := unsafe.Slice((*float32)(y), cols)
	for i, v := range unsafe.Slice((*float32)(x), m) {
		out := unsafe.Slice((*float32)(unsafe.Add(c, i*stride)), cols)
		for j, w := range row {
			out[j] = 0 + float32(v*w)
		}
	}
}
