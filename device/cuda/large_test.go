//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"halfstep/program"
)

// TestLargeTile runs products that are cut into large tiles, with edges in every direction. The numbers are whole and small: each sum is
// exact in any order and in every type, so the results must equal the portable CPU's bit for bit.
func TestLargeTile(t *testing.T) {
	const m, n, k = 1288, 1304, 40 // 11 by 11 tiles, the last ones in part
	for _, c := range []struct {
		dtype   program.DType
		options Options
	}{
		{program.Float32, Options{}},
		{program.Float32, Options{TF32: true}},
		{program.Float16, Options{}},
		{program.BFloat16, Options{}},
	} {
		d, host := open(t, "reverse", c.options), portable(t)
		for _, op := range []struct {
			op      program.Op
			in, out [][]int
		}{
			{program.Linear{}, [][]int{{m, k}, {k, n}}, [][]int{{m, n}}},
			{program.LinearGradX{}, [][]int{{m, k}, {n, k}}, [][]int{{m, n}}},
			{program.LinearGradW{}, [][]int{{k, m}, {k, n}}, [][]int{{m, n}}},
		} {
			t.Run(fmt.Sprintf("%s %s", op.op.Name(), d.arithmetic(c.dtype)[1:]), func(t *testing.T) {
				if p := newProduct(m, n, k).enlarge(c.dtype, true); p.tile.name != "_large" {
					t.Fatalf("the product has %+v", p.tile)
				}
				r := rand.New(rand.NewPCG(3, 4))
				got, want := runBoth(t, d, host, op.op, c.dtype, op.in, op.out[0], func() float32 { return float32(r.IntN(5) - 2) })
				if !slices.Equal(got, want) {
					t.Errorf("%v, want %v", got[:4], want[:4])
				}
			})
		}
	}
}

// TestManyRows: a product of more rows than 65535 tiles have is launched; other directions of a grid end there.
func TestManyRows(t *testing.T) {
	d := open(t, "", Options{})
	onThread(t, d, func() error {
		b := &builder{d: d}
		multiply(b, "conv2d", newProduct(8192*26*26, 32, 9), program.Float32, program.Float32, epilogue{}, func(e epilogue) convArgs { return convArgs{out: e} })
		return b.err
	})
}
