package model

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// ToTorch reorders a parameter's values from the layout inside to PyTorch's: convolution weights [KH,KW,C,OC] to
// [OC,C,KH,KW], linear weights [K,N] to [N,K], and dimensions that run over a flattened image from [H,W,C] to [C,H,W].
func ToTorch(p Param, v []float32) []float32 {
	t := make([]float32, len(v))
	torchOrder(p, func(inside, torch int) { t[torch] = v[inside] })
	return t
}

// FromTorch is the inverse of ToTorch.
func FromTorch(p Param, t []float32) []float32 {
	v := make([]float32, len(t))
	torchOrder(p, func(inside, torch int) { v[inside] = t[torch] })
	return v
}

// TorchShape is the shape of what ToTorch gives.
func (p Param) TorchShape() []int {
	s := p.Shape
	switch len(s) {
	case 4:
		return []int{s[3], s[2], s[0], s[1]}
	case 2:
		return []int{s[1], s[0]}
	}
	return s
}

// torchOrder calls f with each element's index inside and in PyTorch's layout, from several goroutines at once.
func torchOrder(p Param, f func(inside, torch int)) {
	s := p.Shape
	inChunks(p.Elems(), func(from, to int) {
		switch len(s) {
		case 4:
			KH, KW, C, OC := s[0], s[1], s[2], s[3]
			for i := from; i < to; i++ {
				oc, c, kw, kh := i%OC, i/OC%C, i/(OC*C)%KW, i/(OC*C*KW)
				f(i, ((oc*C+c)*KH+kh)*KW+kw)
			}
		case 2:
			K, N := s[0], s[1]
			for i := from; i < to; i++ {
				k, n := i/N, i%N
				f(i, torchFeature(p.OutFlattenShape, n)*K+torchFeature(p.FlattenShape, k))
			}
		default:
			for i := from; i < to; i++ {
				f(i, torchFeature(p.OutFlattenShape, i))
			}
		}
	})
}

// chunk is how many elements a goroutine draws or moves at a time.
const chunk = 1 << 16

// inChunks calls f for each piece [from,to) of n elements, on all processors.
func inChunks(n int, f func(from, to int)) {
	chunks := (n + chunk - 1) / chunk
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), chunks) {
		wg.Go(func() {
			for c := int(next.Add(1)) - 1; c < chunks; c = int(next.Add(1)) - 1 {
				f(c*chunk, min((c+1)*chunk, n))
			}
		})
	}
	wg.Wait()
}

// torchFeature is the index in [C,H,W] of index i in [H,W,C]; i itself where image is nil.
func torchFeature(image []int, i int) int {
	if image == nil {
		return i
	}
	C := image[2]
	return i%C*image[0]*image[1] + i/C
}

// Statistic is the layout of the running mean and variance as a Param, for ToTorch and FromTorch.
func (b BatchNorm) Statistic(name string) Param {
	return Param{Name: name, Layer: b.Layer, Shape: shape(b.Mean), OutFlattenShape: b.FlattenShape}
}
