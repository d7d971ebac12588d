package ref_test

import (
	"testing"

	"halfstep/model/op/ref"
)

// BenchmarkConv2D is the middle convolution of the MNIST network, 24x24x32 to 64 channels, on one image.
func BenchmarkConv2D(b *testing.B) {
	const H, W, C, OC = 26, 26, 32, 64
	a := ref.Conv{KH: 3, KW: 3, Stride: 1}
	OH, OW := a.Out(H, W)
	x, w, bias, dy := random(1, H*W*C), random(2, 9*C*OC), random(3, OC), random(4, OH*OW*OC)
	y, dx, dw := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w))
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"forward", func() { ref.Conv2D(a, y, x, w, bias, H, W, C, OC, 0, OH) }},
		{"grad_x", func() { ref.Conv2DGradX(a, dx, w, dy, H, W, C, OC, 0, H) }},
		{"grad_w", func() { ref.Conv2DGradW(a, dw, x, dy, 1, H, W, C, OC, 0, 9*C) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.f()
			}
			flops := 2 * float64(OH*OW*OC*9*C)
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
