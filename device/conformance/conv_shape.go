package conformance

import (
	"halfstep/model/op/ref"
)

// convShape is a convolution of images [B,H,W,C] to OC channels.
type convShape struct {
	ref.Conv
	B, H, W, C, OC int
}

func square(k, stride, pad int) ref.Conv { return ref.Conv{KH: k, KW: k, Stride: stride, Pad: pad} }

// convShapes: one pixel; odd sizes around vector lengths; strides that do not divide; padding wider than the image needs;
// kernels that are not square; more images than a device's groups; the shapes that fast paths are made for.
func (m *maker) convShapes() []convShape {
	few := []convShape{
		{square(1, 1, 0), 1, 1, 1, 1, 1},
		{square(3, 1, 0), 2, 7, 7, 3, 5},
		{square(3, 1, 1), 1, 13, 9, 1, 33},
		{square(5, 2, 2), 2, 9, 9, 7, 13},
		{ref.Conv{KH: 2, KW: 3, Stride: 2, Pad: 1}, 2, 7, 6, 2, 3},
		{square(3, 1, 0), 1, 8, 8, 16, 32},
		{square(3, 1, 0), 3, 13, 14, 32, 64},
		{ref.Conv{KH: 2, KW: 3, Stride: 1}, 2, 21, 30, 16, 48},
		{square(7, 2, 0), 2, 15, 13, 1, 16},
	}
	if m.few {
		return few
	}
	return append(few,
		convShape{square(1, 1, 0), 2, 6, 6, 33, 64},
		convShape{square(5, 1, 4), 1, 3, 3, 4, 4},
		convShape{square(3, 2, 0), 37, 6, 5, 3, 5},
		convShape{square(3, 3, 1), 2, 11, 10, 17, 65},
		convShape{square(3, 1, 0), 2, 14, 14, 32, 64},
		convShape{square(3, 1, 1), 1, 9, 11, 48, 19},
		convShape{square(3, 1, 0), 1, 28, 28, 1, 32})
}

func (s convShape) x() []int { return []int{s.B, s.H, s.W, s.C} }
func (s convShape) w() []int { return []int{s.KH, s.KW, s.C, s.OC} }

func (s convShape) y() []int {
	oh, ow := s.Out(s.H, s.W)
	return []int{s.B, oh, ow, s.OC}
}

// terms is the number of products in one output element.
func (s convShape) terms() int { return s.KH * s.KW * s.C }

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// forward is x*w + b in float64; b may be nil.
func (s convShape) forward(x, w, b []float64) []float64 {
	y := make([]float64, product(s.y()))
	ref.Conv2D(s.Conv, y, x, w, b, s.H, s.W, s.C, s.OC, 0, s.y()[0]*s.y()[1])
	return y
}

func (s convShape) gradX(w, dy []float64) []float64 {
	dx := make([]float64, product(s.x()))
	ref.Conv2DGradX(s.Conv, dx, w, dy, s.H, s.W, s.C, s.OC, 0, s.B*s.H)
	return dx
}

func (s convShape) gradW(x, dy []float64) []float64 {
	dw := make([]float64, product(s.w()))
	ref.Conv2DGradW(s.Conv, dw, x, dy, s.B, s.H, s.W, s.C, s.OC, 0, s.terms())
	return dw
}

// pooled is a max pool after the convolution.
func (s convShape) pooled(p ref.Pool) poolShape {
	y := s.y()
	return poolShape{p, y[0], y[1], y[2], y[3]}
}

// fits reports whether a pool's window fits the convolution's output.
func (s convShape) fits(p ref.Pool) bool { return p.Size <= s.y()[1] && p.Size <= s.y()[2] }
