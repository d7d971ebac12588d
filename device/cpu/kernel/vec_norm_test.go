package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"halfstep/model/op/ref"
)

func normals(r *rand.Rand, x []float32) []float32 {
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// equalBits compares with package ref or a plain loop; NaNs are all alike.
func equalBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s, element %d of %d: %v, want %v", what, i, len(want), got[i], want[i])
		}
	}
}

// Rows are summed in the reference's order, so the statistics and gradients equal it bit for bit.
func TestBatchNormAgainstReference(t *testing.T) {
	const eps = 1e-5
	forLevels(t, func(t *testing.T, v *Vec) {
		r := rand.New(rand.NewPCG(11, 12))
		for C := 1; C <= 150; C++ {
			R := 1 + r.IntN(5)
			n, offset := R*C, C*4%64
			x, dy, y, dx := newGuarded[float32](n, offset), newGuarded[float32](n, 0), newGuarded[float32](n, 60-offset), newGuarded[float32](n, 4)
			normals(r, x.data)
			normals(r, dy.data)
			vector := func() []float32 { return newGuarded[float32](C, offset).data }
			gamma, beta, mean, variance, dgamma, dbeta := normals(r, vector()), normals(r, vector()), vector(), vector(), vector(), vector()
			want, wantC := make([]float32, n), make([]float32, C)

			sums, squares, products := newGuarded[float64](C, 8), newGuarded[float64](C, 16), newGuarded[float64](C, 24)
			for _, s := range [][]float64{sums.data, squares.data, products.data} {
				clear(s)
			}
			means := newGuarded[float64](C, 32).data
			v.ColumnSums(sums.data, x.data)
			for c := range means {
				means[c] = sums.data[c] / float64(R)
			}
			v.ColumnSquares(squares.data, x.data, means)
			ref.BatchStats(mean, variance, x.data, C, 0, C)
			for c := range wantC {
				wantC[c] = float32(means[c])
			}
			equalBits(t, "ColumnSums", wantC, mean)
			for c := range wantC {
				wantC[c] = float32(squares.data[c] / float64(R))
			}
			equalBits(t, "ColumnSquares", wantC, variance)

			invStd, scale, meanDy, slope := vector(), vector(), vector(), vector()
			for c := range invStd {
				invStd[c] = float32(1 / math.Sqrt(float64(variance[c])+float64(float32(eps))))
			}
			v.BatchNorm(y.data, x.data, mean, invStd, gamma, beta)
			ref.BatchNorm(want, x.data, gamma, beta, mean, variance, eps)
			equalBits(t, "BatchNorm", y.data, want)

			v.ColumnProducts(products.data, x.data, dy.data, mean)
			ref.BatchNormGradGamma(dgamma, x.data, mean, variance, dy.data, eps, 0, C)
			for c := range wantC {
				wantC[c] = float32(products.data[c] * float64(invStd[c]))
			}
			equalBits(t, "ColumnProducts", wantC, dgamma)

			ref.BiasGrad(dbeta, dy.data, C, 0, C)
			for c := range scale {
				scale[c], meanDy[c], slope[c] = gamma[c]*invStd[c], dbeta[c]/float32(R), invStd[c]*dgamma[c]/float32(R)
			}
			v.BatchNormGradX(dx.data, x.data, dy.data, mean, scale, meanDy, slope)
			ref.BatchNormGradX(want, x.data, gamma, mean, variance, dy.data, dgamma, dbeta, eps, R)
			equalBits(t, "BatchNormGradX", dx.data, want)

			y.check(t, "BatchNorm")
			dx.check(t, "BatchNormGradX")
			sums.check(t, "ColumnSums")
			squares.check(t, "ColumnSquares")
			products.check(t, "ColumnProducts")
		}
	})
}

// Ties, NaNs and zeros of both signs are frequent here; odd rows and columns are dropped.
func TestMaxPool2DAgainstReference(t *testing.T) {
	few := []float32{0, float32(math.Copysign(0, -1)), 1, 1, -1, 2, float32(math.NaN()), float32(math.Inf(-1))}
	p := ref.Pool{Size: 2, Stride: 2}
	forLevels(t, func(t *testing.T, v *Vec) {
		r := rand.New(rand.NewPCG(13, 14))
		for C := 1; C <= 50; C++ {
			for _, s := range [][2]int{{2, 2}, {5, 7}, {4, 3}, {1, 4}} {
				H, W := s[0], s[1]
				PH, PW := p.Out(H, W)
				n := PH * PW * C
				x, dx, y, dy := newGuarded[float32](H*W*C, 4), newGuarded[float32](H*W*C, 8), newGuarded[float32](n, 12), newGuarded[float32](n, 0)
				idx, wantIdx, want, wantDx := newGuarded[uint8](n, C), make([]uint8, n), make([]float32, n), make([]float32, H*W*C)
				for i := range x.data {
					x.data[i] = few[r.IntN(len(few))]
				}
				for i := range dy.data {
					dy.data[i] = few[r.IntN(len(few))]
				}
				v.MaxPool2D(p, y.data, nil, x.data, H, W, C)
				ref.MaxPool2D(p, want, wantIdx, x.data, H, W, C, 0, 1)
				equalBits(t, "MaxPool2D without idx", y.data, want)
				v.MaxPool2D(p, y.data, idx.data, x.data, H, W, C)
				equalBits(t, "MaxPool2D", y.data, want)
				for i := range wantIdx {
					if idx.data[i] != wantIdx[i] {
						t.Fatalf("%d channels, %dx%d: idx[%d] = %d, want %d", C, H, W, i, idx.data[i], wantIdx[i])
					}
				}
				v.MaxPool2DGrad(p, dx.data, idx.data, dy.data, H, W, C)
				ref.MaxPool2DGrad(p, wantDx, wantIdx, dy.data, H, W, C, 0, 1)
				equalBits(t, "MaxPool2DGrad", dx.data, wantDx)
				y.check(t, "MaxPool2D")
				idx.check(t, "MaxPool2D")
				dx.check(t, "MaxPool2DGrad")
			}
		}
	})
}
