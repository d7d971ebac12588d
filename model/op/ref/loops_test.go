package ref_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"halfstep/model/op/ref"
	"halfstep/philox"
)

// random is n normal numbers.
func random(seed uint64, n int) []float32 {
	s := philox.NewStream(seed, philox.Random, 0, 0)
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(s.Normal())
	}
	return v
}

// conv is a random small convolution with its operands.
type conv struct {
	ref.Conv
	B, H, W, C, OC, OH, OW int
	x, w, b, dy            []float32
}

func drawConv(t *rapid.T) conv {
	i := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	c := conv{
		Conv: ref.Conv{KH: i("kh", 1, 4), KW: i("kw", 1, 4), Stride: i("stride", 1, 3), Pad: i("pad", 0, 3)},
		B:    i("batch", 1, 3), C: i("channels", 1, 6), OC: i("filters", 1, 9),
	}
	c.H, c.W = max(1, c.KH-2*c.Pad)+i("more h", 0, 5), max(1, c.KW-2*c.Pad)+i("more w", 0, 5)
	c.OH, c.OW = c.Out(c.H, c.W)
	c.x, c.w, c.b = random(1, c.B*c.H*c.W*c.C), random(2, c.KH*c.KW*c.C*c.OC), random(3, c.OC)
	c.dy = random(4, c.B*c.OH*c.OW*c.OC)
	return c
}

// each visits all products of the convolution in the order (n,oh,ow,kh,kw,c,oc), with the indices of y, x and w.
func (c conv) each(f func(y, x, w int)) {
	for o := range c.B * c.OH * c.OW {
		n, oh, ow := o/(c.OH*c.OW), o/c.OW%c.OH, o%c.OW
		for k := range c.KH * c.KW {
			ih, iw := oh*c.Stride-c.Pad+k/c.KW, ow*c.Stride-c.Pad+k%c.KW
			if ih < 0 || ih >= c.H || iw < 0 || iw >= c.W {
				continue
			}
			for ch := range c.C {
				for oc := range c.OC {
					f(o*c.OC+oc, ((n*c.H+ih)*c.W+iw)*c.C+ch, (k*c.C+ch)*c.OC+oc)
				}
			}
		}
	}
}

// TestConv2DIsItsDefinition compares the unrolled, clipped loops bit for bit with seven plain ones: the sums have the
// documented order. dx's order differs from the plain loops' (windows from the last to the first), so it is compared
// in float64 to 1e-12.
func TestConv2DIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConv(t)
		y, dw := make([]float32, len(c.dy)), make([]float32, len(c.w))
		for i := range y {
			y[i] = c.b[i%c.OC]
		}
		dx := make([]float64, len(c.x))
		c.each(func(yi, xi, wi int) {
			y[yi] += float32(c.x[xi] * c.w[wi])
			dw[wi] += float32(c.x[xi] * c.dy[yi])
			dx[xi] += float64(c.dy[yi]) * float64(c.w[wi])
		})
		gotY, gotW, gotX := make([]float32, len(y)), make([]float32, len(dw)), make([]float64, len(dx))
		ref.Conv2D(c.Conv, gotY, c.x, c.w, c.b, c.H, c.W, c.C, c.OC, 0, c.B*c.OH)
		ref.Conv2DGradW(c.Conv, gotW, c.x, c.dy, c.B, c.H, c.W, c.C, c.OC, 0, c.KH*c.KW*c.C)
		ref.Conv2DGradX(c.Conv, gotX, wide(c.w), wide(c.dy), c.H, c.W, c.C, c.OC, 0, c.B*c.H)
		if !slices.Equal(gotY, y) {
			t.Errorf("y differs: %v, want %v", gotY, y)
		}
		if !slices.Equal(gotW, dw) {
			t.Errorf("dw differs: %v, want %v", gotW, dw)
		}
		for i := range dx {
			if math.Abs(gotX[i]-dx[i]) > 1e-12 {
				t.Errorf("dx[%d] is %v, want %v", i, gotX[i], dx[i])
			}
		}
	})
}

func wide(v []float32) []float64 {
	w := make([]float64, len(v))
	for i, x := range v {
		w[i] = float64(x)
	}
	return w
}

// TestLinearIsItsDefinition does the same for the three matrix products, all bit for bit.
func TestLinearIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		M, K, N := rapid.IntRange(1, 6).Draw(t, "M"), rapid.IntRange(1, 11).Draw(t, "K"), rapid.IntRange(1, 11).Draw(t, "N")
		x, w, b, dy := random(1, M*K), random(2, K*N), random(3, N), random(4, M*N)
		y, dx, dw := make([]float32, M*N), make([]float32, M*K), make([]float32, K*N)
		for m := range M {
			copy(y[m*N:], b)
			for k := range K {
				for n := range N {
					y[m*N+n] += float32(x[m*K+k] * w[k*N+n])
					dx[m*K+k] += float32(dy[m*N+n] * w[k*N+n])
					dw[k*N+n] += float32(x[m*K+k] * dy[m*N+n])
				}
			}
		}
		gotY, gotX, gotW := make([]float32, M*N), make([]float32, M*K), make([]float32, K*N)
		ref.Linear(gotY, x, w, b, K, N)
		ref.LinearGradX(gotX, dy, w, K, N)
		ref.LinearGradW(gotW, x, dy, K, N, 0, K)
		if !slices.Equal(gotY, y) || !slices.Equal(gotX, dx) || !slices.Equal(gotW, dw) {
			t.Errorf("%dx%dx%d: y %v want %v, dx %v want %v, dw %v want %v", M, K, N, gotY, y, gotX, dx, gotW, dw)
		}
	})
}

// TestRangesSplit computes every ranged loop in two parts, at every split, and wants the bits of the whole: each part leaves
// the other's elements alone, and what was in memory before does not matter.
func TestRangesSplit(t *testing.T) {
	const B, H, W, C, OC = 3, 5, 6, 19, 7
	a, p := ref.Conv{KH: 3, KW: 2, Stride: 2, Pad: 1}, ref.Pool{Size: 3, Stride: 2}
	OH, OW := a.Out(H, W)
	PH, PW := p.Out(H, W)
	x, w, b, dy := random(1, B*H*W*C), random(2, 6*C*OC), random(3, OC), random(4, B*OH*OW*OC)
	dp := random(5, B*PH*PW*C)
	idx := make([]uint8, len(dp))
	ref.MaxPool2D(p, make([]float32, len(dp)), idx, x, H, W, C, 0, B)
	mean, variance := make([]float32, C), make([]float32, C)
	ref.BatchStats(mean, variance, x, C, 0, C)
	dx := random(6, len(x))

	for _, c := range []struct {
		name         string
		size, range_ int
		f            func(out []float32, from, to int)
	}{
		{"conv2d", len(dy), B * OH, func(o []float32, i, j int) { ref.Conv2D(a, o, x, w, b, H, W, C, OC, i, j) }},
		{"conv2d grad x", len(x), B * H, func(o []float32, i, j int) { ref.Conv2DGradX(a, o, w, dy, H, W, C, OC, i, j) }},
		{"conv2d grad w", len(w), 6 * C, func(o []float32, i, j int) { ref.Conv2DGradW(a, o, x, dy, B, H, W, C, OC, i, j) }},
		{"linear grad w", H * W * C * OC, H * W * C, func(o []float32, i, j int) { ref.LinearGradW(o, x, dy[:B*OC], H*W*C, OC, i, j) }},
		{"bias grad", C, C, func(o []float32, i, j int) { ref.BiasGrad(o, x, C, i, j) }},
		{"max pool", len(dp), B, func(o []float32, i, j int) { ref.MaxPool2D(p, o, nil, x, H, W, C, i, j) }},
		{"max pool grad", len(x), B, func(o []float32, i, j int) { ref.MaxPool2DGrad(p, o, idx, dp, H, W, C, i, j) }},
		{"avg pool", len(dp), B, func(o []float32, i, j int) { ref.AvgPool2D(p, o, x, H, W, C, i, j) }},
		{"avg pool grad", len(x), B, func(o []float32, i, j int) { ref.AvgPool2DGrad(p, o, dp, H, W, C, i, j) }},
		{"batch mean", C, C, func(o []float32, i, j int) { ref.BatchStats(o, make([]float32, C), x, C, i, j) }},
		{"batch variance", C, C, func(o []float32, i, j int) { ref.BatchStats(make([]float32, C), o, x, C, i, j) }},
		{"batch norm grad gamma", C, C, func(o []float32, i, j int) { ref.BatchNormGradGamma(o, x, mean, variance, dx, 1e-5, i, j) }},
	} {
		whole := slices.Repeat([]float32{-3}, c.size)
		c.f(whole, 0, c.range_)
		for cut := range c.range_ + 1 {
			parts := slices.Repeat([]float32{7}, c.size)
			c.f(parts, cut, c.range_)
			c.f(parts, 0, cut)
			if !slices.Equal(parts, whole) {
				t.Errorf("%s: cut at %d of %d differs from the whole", c.name, cut, c.range_)
				break
			}
		}
	}
}

// TestActivationEdges checks what PyTorch does at zero and NaN, and that no saturated value turns into NaN.
func TestActivationEdges(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	y := make([]float64, 4)
	ref.Activate(ref.ReLU, y, []float64{nan, -inf, 0, inf})
	if !math.IsNaN(y[0]) || y[1] != 0 || y[2] != 0 || y[3] != inf {
		t.Errorf("relu of NaN, -Inf, 0, Inf is %v", y)
	}
	dx := make([]float64, 3)
	ref.ActivateGrad(ref.ReLU, dx, []float64{0, 1, 0}, []float64{5, 5, nan})
	if dx[0] != 0 || dx[1] != 5 || dx[2] != 0 {
		t.Errorf("relu's gradient is %v, want [0 5 0]", dx)
	}
	for _, k := range []ref.Activation{ref.Sigmoid, ref.Tanh, ref.GELU, ref.GELUTanh} {
		v, g := []float64{-1000, 1000}, make([]float64, 2)
		y := make([]float64, 2)
		ref.Activate(k, y, v)
		saved := v
		if k.SavesOutput() {
			saved = y
		}
		ref.ActivateGrad(k, g, saved, []float64{1, 1})
		for i := range y {
			if math.IsNaN(y[i]) || math.IsNaN(g[i]) {
				t.Errorf("%v(%v) is %v with slope %v", k, v[i], y[i], g[i])
			}
		}
	}
}

// TestMaxPoolTiesAndNaN: the first of equal maxima wins, and NaN over all, wherever it is.
func TestMaxPoolTiesAndNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		window []float32
		idx    uint8
	}{
		{[]float32{1, 2, 2, 2}, 1},
		{[]float32{nan, 7, 9, 8}, 0},
		{[]float32{3, 7, nan, 8}, 2},
	} {
		y, idx := make([]float32, 1), make([]uint8, 1)
		ref.MaxPool2D(ref.Pool{Size: 2, Stride: 2}, y, idx, c.window, 2, 2, 1, 0, 1)
		want := c.window[c.idx]
		if idx[0] != c.idx || y[0] != want && !(y[0] != y[0] && want != want) {
			t.Errorf("%v: %v at %d, want %v at %d", c.window, y[0], idx[0], want, c.idx)
		}
	}
}
