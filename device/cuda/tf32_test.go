//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"math/rand/v2"
	"slices"
	"testing"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// TestTF32 runs matrix products of small whole numbers, which have no more fraction bits than tf32: the results must equal
// the portable CPU's bit for bit. Numbers with more bits must be off by what 10 bits of fraction explain, and by something.
func TestTF32(t *testing.T) {
	d, host := open(t, "", Options{TF32: true}), portable(t)
	c, rows := ref.Conv{KH: 3, KW: 3, Stride: 2, Pad: 1}, ref.Conv{KH: 3, KW: 3, Stride: 1}
	for _, op := range []struct {
		op       program.Op
		in, out  [][]int
		products int // terms of each sum
	}{
		{program.Linear{}, [][]int{{33, 40}, {40, 20}}, [][]int{{33, 20}}, 40},
		{program.LinearGradX{}, [][]int{{33, 20}, {40, 20}}, [][]int{{33, 40}}, 20},
		{program.LinearGradW{}, [][]int{{33, 40}, {33, 20}}, [][]int{{40, 20}}, 33},
		{program.Conv2D{Conv: c}, [][]int{{2, 9, 11, 4}, {3, 3, 4, 12}}, [][]int{{2, 5, 6, 12}}, 36},
		{program.Conv2DGradX{Conv: c}, [][]int{{3, 3, 4, 12}, {2, 5, 6, 12}}, [][]int{{2, 9, 11, 4}}, 108},
		{program.Conv2DGradW{Conv: c}, [][]int{{2, 9, 11, 4}, {2, 5, 6, 12}}, [][]int{{3, 3, 4, 12}}, 60},
		{program.Conv2D{Conv: rows}, [][]int{{2, 14, 13, 16}, {3, 3, 16, 64}}, [][]int{{2, 12, 11, 64}}, 144},
		{program.Conv2D{Conv: rows}, [][]int{{1, 9, 28, 16}, {3, 3, 16, 48}}, [][]int{{1, 7, 26, 48}}, 144},
		{program.Conv2DGradX{Conv: rows}, [][]int{{3, 3, 16, 32}, {2, 12, 11, 32}}, [][]int{{2, 14, 13, 16}}, 288},
		{program.Conv2DGradX{Conv: rows}, [][]int{{3, 3, 64, 16}, {2, 12, 11, 16}}, [][]int{{2, 14, 13, 64}}, 144},
		{program.Conv2DGradW{Conv: rows}, [][]int{{2, 14, 13, 16}, {2, 12, 11, 32}}, [][]int{{3, 3, 16, 32}}, 264},
	} {
		t.Run(op.op.Name(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			whole := func() float32 { return float32(r.IntN(17) - 8) }
			fine := func() float32 { return 2*r.Float32() - 1 }
			got, want := runBoth(t, d, host, op.op, program.Float32, op.in, op.out[0], whole)
			if !slices.Equal(got, want) {
				t.Errorf("whole numbers: %v, want %v", got[:4], want[:4])
			}
			got, want = runBoth(t, d, host, op.op, program.Float32, op.in, op.out[0], fine)
			var worst float64
			for i := range got {
				worst = max(worst, float64(abs(got[i]-want[i])))
			}
			// Each factor below 1 is rounded by at most 2⁻¹¹, twice a product; sums by far less.
			bound := float64(op.products) * (2*0x1p-11 + 0x1p-21)
			t.Logf("largest difference %.3g, at most %.3g", worst, bound)
			if worst == 0 || worst > bound {
				t.Errorf("the largest difference is %g, want it above 0 and at most %g", worst, bound)
			}
		})
	}
}

func abs(x float32) float32 { return max(x, -x) }
