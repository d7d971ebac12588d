package kernel

import (
	"unsafe"

	"halfstep/model/op/ref"
)

// activate runs whole vectors on the arrays themselves and, at AVX2, the rest on a copy that fills a vector.
func (v *Vec) activate(kind ref.Activation, y, x []float32) {
	if v.Level >= AVX512 {
		activateAVX512(kind, pointer(y), pointer(x), len(y))
		return
	}
	const lanes = 8
	m := len(y) &^ (lanes - 1)
	activateAVX2(kind, pointer(y), pointer(x), m)
	if m < len(y) {
		var in, out [lanes]float32
		copy(in[:], x[m:])
		activateAVX2(kind, unsafe.Pointer(&out), unsafe.Pointer(&in), lanes)
		copy(y[m:], out[:])
	}
}

// exp is e to the x, elementwise, within one unit in the last place; y may be x.
func (v *Vec) exp(y, x []float32) {
	if v.Level >= AVX512 {
		expAVX512(pointer(y), pointer(x), len(y))
		return
	}
	const lanes = 8
	m := len(y) &^ (lanes - 1)
	expAVX2(pointer(y), pointer(x), m)
	if m < len(y) {
		var in, out [lanes]float32
		copy(in[:], x[m:])
		expAVX2(unsafe.Pointer(&out), unsafe.Pointer(&in), lanes)
		copy(y[m:], out[:])
	}
}

func (v *Vec) activateGrad(kind ref.Activation, dx, saved, dy []float32) {
	if v.Level >= AVX512 {
		activateGradAVX512(kind, pointer(dx), pointer(saved), pointer(dy), len(dx))
		return
	}
	const lanes = 8
	m := len(dx) &^ (lanes - 1)
	activateGradAVX2(kind, pointer(dx), pointer(saved), pointer(dy), m)
	if m < len(dx) {
		var in, grad, out [lanes]float32
		copy(in[:], saved[m:])
		copy(grad[:], dy[m:])
		activateGradAVX2(kind, unsafe.Pointer(&out), unsafe.Pointer(&in), unsafe.Pointer(&grad), lanes)
		copy(dx[m:], out[:])
	}
}

func activateAVX512(kind ref.Activation, y, x unsafe.Pointer, n int) {
	switch kind {
	case ref.Sigmoid:
		sigmoidAVX512(y, x, n)
	case ref.Tanh:
		tanhAVX512(y, x, n)
	case ref.GELU:
		geluAVX512(y, x, n)
	case ref.GELUTanh:
		geluTanhAVX512(y, x, n)
	}
}

func activateGradAVX512(kind ref.Activation, dx, saved, dy unsafe.Pointer, n int) {
	switch kind {
	case ref.Sigmoid:
		sigmoidGradAVX512(dx, saved, dy, n)
	case ref.Tanh:
		tanhGradAVX512(dx, saved, dy, n)
	case ref.GELU:
		geluGradAVX512(dx, saved, dy, n)
	case ref.GELUTanh:
		geluTanhGradAVX512(dx, saved, dy, n)
	}
}

func activateAVX2(kind ref.Activation, y, x unsafe.Pointer, n int) {
	switch kind {
	case ref.Sigmoid:
		sigmoidAVX2(y, x, n)
	case ref.Tanh:
		tanhAVX2(y, x, n)
	case ref.GELU:
		geluAVX2(y, x, n)
	case ref.GELUTanh:
		geluTanhAVX2(y, x, n)
	}
}

func activateGradAVX2(kind ref.Activation, dx, saved, dy unsafe.Pointer, n int) {
	switch kind {
	case ref.Sigmoid:
		sigmoidGradAVX2(dx, saved, dy, n)
	case ref.Tanh:
		tanhGradAVX2(dx, saved, dy, n)
	case ref.GELU:
		geluGradAVX2(dx, saved, dy, n)
	case ref.GELUTanh:
		geluTanhGradAVX2(dx, saved, dy, n)
	}
}
