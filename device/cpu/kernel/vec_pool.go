package kernel

import (
	"unsafe"

	"halfstep/model/op/ref"
)

// poolRoutines is the assembly of the 2x2 max pool of stride 2, for n channels, a multiple of block.
type poolRoutines struct {
	block   int
	maxPool func(y, idx, x0, x1 unsafe.Pointer, n, windows int)
	grad    func(dx0, dx1, idx, dy unsafe.Pointer, n, windows int)
}

// fastPool reports whether the assembly does this pool.
func (v *Vec) fastPool(p ref.Pool, PH, PW, C int) bool {
	return v.pool != nil && p == ref.Pool{Size: 2, Stride: 2} && PH > 0 && PW > 0 && C > 0 && C%v.pool.block == 0
}

// MaxPool2D is ref.MaxPool2D for one image: x [H,W,C], y, idx [PH,PW,C]. A nil idx is not written.
func (v *Vec) MaxPool2D(p ref.Pool, y []float32, idx []uint8, x []float32, H, W, C int) {
	PH, PW := p.Out(H, W)
	if !v.fastPool(p, PH, PW, C) {
		ref.MaxPool2D(p, y, idx, x, H, W, C, 0, 1)
		return
	}
	for h := range PH {
		var at []uint8
		if idx != nil {
			at = idx[h*PW*C:][:PW*C]
		}
		row0, row1 := x[2*h*W*C:][:W*C], x[(2*h+1)*W*C:][:W*C]
		v.pool.maxPool(pointer(y[h*PW*C:][:PW*C]), pointer(at), pointer(row0), pointer(row1), C, PW)
	}
}

// MaxPool2DGrad is ref.MaxPool2DGrad for one image: idx, dy [PH,PW,C], dx [H,W,C].
func (v *Vec) MaxPool2DGrad(p ref.Pool, dx []float32, idx []uint8, dy []float32, H, W, C int) {
	PH, PW := p.Out(H, W)
	if !v.fastPool(p, PH, PW, C) {
		ref.MaxPool2DGrad(p, dx, idx, dy, H, W, C, 0, 1)
		return
	}
	for h := range PH {
		row0, row1 := dx[2*h*W*C:][:W*C], dx[(2*h+1)*W*C:][:W*C]
		v.pool.grad(pointer(row0), pointer(row1), pointer(idx[h*PW*C:][:PW*C]), pointer(dy[h*PW*C:][:PW*C]), C, PW)
		clear(row0[2*PW*C:]) // an odd last column belongs to no window
		clear(row1[2*PW*C:])
	}
	clear(dx[2*PH*W*C : H*W*C])
}
