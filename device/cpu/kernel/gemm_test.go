package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"halfstep/device/cpu/pool"
	"halfstep/half"
	"halfstep/program"
)

// gemmCase is a product with its operands as bytes in the dtypes of its shape, and as float64.
type gemmCase struct {
	shape                GEMMShape
	a, b, c, mask        []byte
	bias, colSum         []byte
	fa, fb, fbias, fmask []float64
	guards               []guarded[byte]
	fence                bool // operands end where unreadable memory begins
	free                 []func()
	offset               int // in elements, from a 64-byte boundary
	maxError             float64
}

func newGEMMCase(t testing.TB, s GEMMShape, r *rand.Rand, offset int, fence bool) *gemmCase {
	c := &gemmCase{shape: s, offset: offset, fence: fence}
	c.a, c.fa = c.operand(t, s.M*s.K, s.A, r)
	c.b, c.fb = c.operand(t, s.K*s.N, s.B, r)
	c.c, _ = c.operand(t, s.M*s.N, s.C, r)
	if s.Bias {
		c.bias, c.fbias = c.operand(t, s.N, program.Float32, r)
	}
	if s.MaskReLU {
		c.mask, c.fmask = c.operand(t, s.M*s.N, s.C, r)
		for i, v := range []float64{math.NaN(), 0, math.Copysign(0, -1)} { // none is above 0
			if i < len(c.fmask) {
				c.fmask[i] = put(c.mask, s.C, i, v)
			}
		}
	}
	if s.ColSum {
		c.colSum, _ = c.operand(t, s.N, program.Float32, r)
	}
	return c
}

// operand makes n random elements.
func (c *gemmCase) operand(t testing.TB, n int, d program.DType, r *rand.Rand) ([]byte, []float64) {
	var b []byte
	if c.fence {
		var free func()
		b, free = fenced(t, n*d.Size())
		c.free = append(c.free, free)
	} else {
		g := newGuarded[byte](n*d.Size(), c.offset*d.Size())
		c.guards = append(c.guards, g)
		b = g.data
	}
	f := make([]float64, n)
	for i := range f {
		f[i] = put(b, d, i, r.NormFloat64())
	}
	return b, f
}

// put rounds v to element i of b and gives it back as rounded.
func put(b []byte, d program.DType, i int, v float64) float64 {
	p := unsafe.Pointer(&b[i*d.Size()])
	switch d {
	case program.Float64:
		*(*float64)(p) = v
	case program.Float32:
		*(*float32)(p) = float32(v)
	case program.Float16:
		*(*uint16)(p) = half.ToFloat16(float32(v))
	case program.BFloat16:
		*(*uint16)(p) = half.ToBFloat16(float32(v))
	}
	return get(b, d, i)
}

func get(b []byte, d program.DType, i int) float64 {
	p := unsafe.Pointer(&b[i*d.Size()])
	switch d {
	case program.Float64:
		return *(*float64)(p)
	case program.Float16:
		return float64(half.FromFloat16(*(*uint16)(p)))
	case program.BFloat16:
		return float64(half.FromBFloat16(*(*uint16)(p)))
	}
	return float64(*(*float32)(p))
}

// unit is half the distance of 1 and the next number of d: what rounding may be off, relatively.
func unit(d program.DType) float64 {
	return map[program.DType]float64{
		program.Float64: 0x1p-53, program.Float32: 0x1p-24, program.Float16: 0x1p-11,
		program.BFloat16: 0x1p-8,
	}[d]
}

func (c *gemmCase) run(t testing.TB, l Level, p *pool.Pool) *GEMM {
	t.Helper()
	g, err := NewGEMM(l, c.shape, p)
	if err != nil {
		t.Fatal(err)
	}
	work := newGuarded[byte](g.WorkBytes(), 0)
	for i := range work.data {
		work.data[i] = 0xFF // NaN: what packing leaves must not matter
	}
	g.Run(address(c.a), address(c.b), address(c.c), Epilogue{Bias: address(c.bias), Mask: address(c.mask), ColSum: address(c.colSum)},
		address(work.data))
	c.guards = append(c.guards, work)
	return g
}

func address(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// verify compares with the definition in float64. Each of K+1 terms is rounded at most K+1 times in the sum's type, so that
// the error is below (K+1)·u·Σ|terms| (u to first order; 2 % more covers the rest), to which the reference adds its own and
// rounding C half a unit of C. 2⁻¹²⁶ each covers subnormal terms taken as zeros.
func (c *gemmCase) verify(t *testing.T) {
	t.Helper()
	s := c.shape
	acc := program.Float32
	if s.A == program.Float64 {
		acc = program.Float64
	}
	for m := range s.M {
		for n := range s.N {
			sum, abs := 0.0, 0.0
			if s.Bias {
				sum, abs = c.fbias[n], math.Abs(c.fbias[n])
			}
			for k := range s.K {
				i, j := m*s.K+k, k*s.N+n
				if s.TransA {
					i = k*s.M + m
				}
				if s.TransB {
					j = n*s.K + k
				}
				sum += c.fa[i] * c.fb[j]
				abs += math.Abs(c.fa[i] * c.fb[j])
			}
			if s.ReLU && sum < 0 || s.MaskReLU && !(c.fmask[m*s.N+n] > 0) {
				sum = 0
			}
			if s.MaskReLU && sum == 0 && !(c.fmask[m*s.N+n] > 0) {
				abs = 0
			}
			bound := 1.02*float64(s.K+1)*abs*(unit(acc)+0x1p-53) + 1.02*unit(s.C)*math.Abs(sum) + float64(2*s.K)*0x1p-126
			if s.C == program.Float16 {
				bound += 0x1p-25
			}
			got := get(c.c, s.C, m*s.N+n)
			if !(math.Abs(got-sum) <= bound) {
				t.Fatalf("%v %+v: c[%d,%d] = %g, want %g ± %.2g", s, s, m, n, got, sum, bound)
			}
			if bound > 0 {
				c.maxError = max(c.maxError, math.Abs(got-sum)/bound)
			}
		}
	}
	for n := 0; s.ColSum && n < s.N; n++ {
		want := float32(0)
		for k := range s.K {
			want += float32(c.fb[k*s.N+n])
		}
		if got := get(c.colSum, program.Float32, n); got != float64(want) {
			t.Fatalf("%v: column sum %d = %g, want %g", s, n, got, want)
		}
	}
	for i, g := range c.guards {
		g.check(t, fmt.Sprintf("%v: operand %d", s, i))
	}
	for _, f := range c.free {
		f()
	}
}

// gemmKinds are all combinations of dtypes, transposes and epilogues.
func gemmKinds() []GEMMShape {
	kinds := []GEMMShape{}
	for _, trans := range []GEMMShape{{}, {TransA: true}, {TransB: true}, {TransA: true, TransB: true}} {
		halves := []program.DType{program.Float32, program.Float16, program.BFloat16}
		for _, in := range halves {
			for _, out := range halves {
				for _, s := range []GEMMShape{{}, {Bias: true}, {ReLU: true}, {Bias: true, ReLU: true}, {MaskReLU: true}, {ColSum: true}} {
					if s.ColSum && trans.TransB {
						continue
					}
					s.TransA, s.TransB, s.A, s.B, s.C = trans.TransA, trans.TransB, in, in, out
					kinds = append(kinds, s)
				}
			}
		}
		trans.A, trans.B, trans.C = program.Float64, program.Float64, program.Float64
		kinds = append(kinds, trans)
	}
	return kinds
}

func TestGEMM(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	kinds := gemmKinds()
	for _, l := range Levels() {
		t.Run(l.String(), func(t *testing.T) {
			worst := 0.0
			check := func(t *testing.T, s GEMMShape, m, n, k, offset int, seed uint64, fence bool) {
				s.M, s.N, s.K = m, n, k
				c := newGEMMCase(t, s, rand.New(rand.NewPCG(seed, 1)), offset, fence)
				c.run(t, l, p)
				c.verify(t)
				if s.C != program.Float16 && s.C != program.BFloat16 { // there, rounding C is nearly all of it
					worst = max(worst, c.maxError)
				}
			}
			for i, s := range kinds {
				for _, size := range [][3]int{{1, 1, 1}, {1, 16, 33}, {13, 33, 5}, {12, 32, 16}, {25, 70, 64}, {64, 10, 31}} {
					check(t, s, size[0], size[1], size[2], i%7, uint64(i), false)
					check(t, s, size[0], size[1], size[2], 0, uint64(i), true)
				}
				check(t, s, 14, 33, 1100, i%5, uint64(i), false) // several parts of K
			}
			rapid.Check(t, func(rt *rapid.T) {
				size := rapid.IntRange(1, 70)
				check(t, rapid.SampledFrom(kinds).Draw(rt, "kind"), size.Draw(rt, "M"), size.Draw(rt, "N"), size.Draw(rt, "K"),
					rapid.IntRange(0, 15).Draw(rt, "offset"), rapid.Uint64().Draw(rt, "seed"), rapid.Bool().Draw(rt, "fence"))
			})
			t.Logf("largest error in float32 and float64: %.2g of the bound", worst)
		})
	}
}

// The number of workers, and with it the blocks, must not change a bit.
func TestGEMMWorkers(t *testing.T) {
	for _, l := range Levels() {
		for _, d := range []program.DType{program.Float32, program.Float16, program.BFloat16} {
			for _, s := range []GEMMShape{
				{M: 130, N: 170, K: 1100, Bias: true, ReLU: true},
				{M: 130, N: 1100, K: 170, TransB: true, MaskReLU: true},
				{M: 1100, N: 170, K: 130, TransA: true, ColSum: true},
			} {
				s.A, s.B, s.C = d, d, d
				var first *gemmCase
				blocks := map[int]bool{}
				for workers := 1; workers <= 3; workers++ {
					p := pool.New(workers)
					c := newGEMMCase(t, s, rand.New(rand.NewPCG(1, 2)), 0, false)
					g := c.run(t, l, p)
					p.Close()
					blocks[g.blockRows*g.blockCols] = true
					if first == nil {
						first = c
						c.verify(t)
					}
					if !bytes.Equal(c.c, first.c) || !bytes.Equal(c.colSum, first.colSum) {
						t.Errorf("%v at level %v: %d workers change the result", s, l, workers)
					}
				}
				if len(blocks) == 1 {
					t.Errorf("%v at level %v: always %v blocks", s, l, blocks)
				}
			}
		}
	}
}

func TestGEMMAllocatesNothing(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	for _, l := range Levels() {
		for _, s := range gemmKinds() {
			s.M, s.N, s.K = 40, 60, 30
			c := newGEMMCase(t, s, rand.New(rand.NewPCG(1, 2)), 0, false)
			g, err := NewGEMM(l, s, p)
			if err != nil {
				t.Fatal(err)
			}
			work := newGuarded[byte](g.WorkBytes(), 0)
			e := Epilogue{Bias: address(c.bias), Mask: address(c.mask), ColSum: address(c.colSum)}
			if n := testing.AllocsPerRun(3, func() { g.Run(address(c.a), address(c.b), address(c.c), e, address(work.data)) }); n != 0 {
				t.Fatalf("%v at level %v: %g allocations", s, l, n)
			}
		}
	}
}

func TestGEMMErrors(t *testing.T) {
	p := pool.New(1)
	defer p.Close()
	f, h, d := program.Float32, program.Float16, program.Float64
	for _, s := range []GEMMShape{
		{M: 0, N: 1, K: 1},
		{M: 1, N: 1, K: 1, A: f, B: h},
		{M: 1, N: 1, K: 1, A: program.Int32, B: program.Int32},
		{M: 1, N: 1, K: 1, C: program.Uint8},
		{M: 1, N: 1, K: 1, A: d, B: d},
		{M: 1, N: 1, K: 1, C: d},
		{M: 1, N: 1, K: 1, A: d, B: d, C: d, Bias: true},
		{M: 1, N: 1, K: 1, ReLU: true, MaskReLU: true},
		{M: 1, N: 1, K: 1, TransB: true, ColSum: true},
	} {
		if _, err := NewGEMM(Portable, s, p); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
}
