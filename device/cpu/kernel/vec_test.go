package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"halfstep/philox"
)

// special are bits of float32 numbers where conversions, comparisons and rounding have edges: zeros, subnormals, the limits of
// float16 and bfloat16 and the ties beside them, infinities, quiet and signalling NaNs.
var special = []uint32{
	0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x00008000, 0x00018000, 0x33000000, 0x33000001, 0x33800000, 0x387fc000,
	0x387fe000, 0x38800000, 0x477fe000, 0x477fefff, 0x477ff000, 0xc77ff000, 0x7f7f7fff, 0x7f7f8000, 0x7f7fffff, 0xff7fffff,
	0x3f800000, 0x3f801000, 0x3f803000, 0x3f808000, 0x3f818000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345,
	0x7f800001, 0xff812000, 0x7fffffff,
}

// randomFloat32 is special one time in four, else any bits or near 1.
func randomFloat32(r *rand.Rand) float32 {
	switch r.IntN(4) {
	case 0:
		return math.Float32frombits(special[r.IntN(len(special))])
	case 1:
		return math.Float32frombits(r.Uint32())
	}
	return float32(r.NormFloat64())
}

// randomHalf is any bits.
func randomHalf(r *rand.Rand) uint16 { return uint16(r.Uint32()) }

func fill[E any](x []E, r *rand.Rand, f func(*rand.Rand) E) {
	for i := range x {
		x[i] = f(r)
	}
}

func randomMask(r *rand.Rand) uint8 { return uint8(r.IntN(2)) }

// element is what the tests need of an element type.
type element[T Elem] struct {
	codec  codec[T]
	ops    func(*Vec) *Ops[T]
	random func(*rand.Rand) T
	size   int
}

var (
	testFloat32  = element[float32]{float32Codec, func(v *Vec) *Ops[float32] { return &v.Float32 }, randomFloat32, 4}
	testFloat16  = element[uint16]{float16Codec, func(v *Vec) *Ops[uint16] { return &v.Float16 }, randomHalf, 2}
	testBFloat16 = element[uint16]{bfloat16Codec, func(v *Vec) *Ops[uint16] { return &v.BFloat16 }, randomHalf, 2}
)

func TestElementwiseAgainstTwins(t *testing.T) {
	t.Run("float32", testFloat32.elementwise)
	t.Run("float16", testFloat16.elementwise)
	t.Run("bfloat16", testBFloat16.elementwise)
}

func (e element[T]) elementwise(t *testing.T) {
	const s = float32(1.0 / 0.7)
	twin := e.codec
	forLevels(t, func(t *testing.T, v *Vec) {
		o, r := e.ops(v), rand.New(rand.NewPCG(1, 2))
		shapes(e.size, func(n, offset int) {
			a, b, out := newGuarded[T](n, offset), newGuarded[T](n, 62-offset%62), newGuarded[T](n, offset)
			f, acc, mask := newGuarded[float32](n, offset&^3), newGuarded[float32](n, offset&^3), newGuarded[uint8](n, offset)
			fill(a.data, r, e.random)
			fill(b.data, r, e.random)
			fill(f.data, r, randomFloat32)
			fill(mask.data, r, randomMask)
			want, wide := make([]T, n), make([]float32, n)

			run := func(name string, exact bool, kernel, reference func(y []T)) {
				t.Helper()
				kernel(out.data)
				reference(want)
				for i := range want {
					g, gn := bits(out.data[i], twin.get)
					w, wn := bits(want[i], twin.get)
					if out.data[i] != want[i] && g != w && (exact || !gn || !wn) {
						t.Fatalf("%s, element %d of %d: %s, want %s", name, i, n, g, w)
					}
				}
				out.check(t, name)
			}
			run("FromFloat32", true, func(y []T) { o.FromFloat32(y, f.data) }, func(y []T) { twin.fromFloat32(y, f.data) })
			run("ReLU", true, func(y []T) { o.ReLU(y, a.data) }, func(y []T) { twin.relu(y, a.data) })
			run("ReLUGrad", true, func(y []T) { o.ReLUGrad(y, a.data, b.data) }, func(y []T) { twin.reluGrad(y, a.data, b.data) })
			// The sign and payload of a NaN that arithmetic makes are the processor's affair.
			run("Add", false, func(y []T) { o.Add(y, a.data, b.data) }, func(y []T) { twin.add(y, a.data, b.data) })
			run("Scale", false, func(y []T) { o.Scale(y, a.data, s) }, func(y []T) { twin.scale(y, a.data, s) })
			run("ApplyMask", false, func(y []T) { o.ApplyMask(y, a.data, mask.data, s) }, func(y []T) { twin.applyMask(y, a.data, mask.data, s) })
			run("Normalize", true, func(y []T) { o.Normalize(y, mask.data, 0.1307, 0.3081) }, func(y []T) { twin.normalize(y, mask.data, 0.1307, 0.3081) })

			runWide := func(name string, exact bool, kernel, reference func(y []float32)) {
				t.Helper()
				kernel(acc.data)
				reference(wide)
				for i := range wide {
					g, gn := bits(acc.data[i], identity)
					w, wn := bits(wide[i], identity)
					if g != w && (exact || !gn || !wn) {
						t.Fatalf("%s, element %d of %d: %s, want %s", name, i, n, g, w)
					}
				}
				acc.check(t, name)
			}
			runWide("ToFloat32", true, func(y []float32) { o.ToFloat32(y, a.data) }, func(y []float32) { twin.toFloat32(y, a.data) })
			fill(acc.data, r, randomFloat32)
			copy(wide, acc.data)
			runWide("AddScaled", false, func(y []float32) { o.AddScaled(y, a.data, s) }, func(y []float32) { twin.addScaled(y, a.data, s) })
		})
	})
}

// Every bit pattern of the half types, against package half, which is tested against PyTorch.
func TestDecodeEveryHalf(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	forLevels(t, func(t *testing.T, v *Vec) {
		for _, e := range []element[uint16]{testFloat16, testBFloat16} {
			got, want := make([]float32, len(all)), make([]float32, len(all))
			e.ops(v).ToFloat32(got, all)
			e.codec.toFloat32(want, all)
			back := make([]uint16, len(all))
			e.ops(v).FromFloat32(back, got)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%#04x: %#x, want %#x", i, math.Float32bits(got[i]), math.Float32bits(want[i]))
				}
				if want[i] == want[i] && back[i] != all[i] {
					t.Fatalf("%#04x comes back as %#04x", all[i], back[i])
				}
			}
		}
	})
}

func TestSumColumns(t *testing.T) {
	t.Run("float32", testFloat32.sumColumns)
	t.Run("float16", testFloat16.sumColumns)
	t.Run("bfloat16", testBFloat16.sumColumns)
}

func (e element[T]) sumColumns(t *testing.T) {
	forLevels(t, func(t *testing.T, v *Vec) {
		r := rand.New(rand.NewPCG(3, 4))
		for cols := range 201 {
			rows := r.IntN(6)
			x, sum, want := newGuarded[T](rows*cols, cols%32*2&^3), newGuarded[float32](cols, cols%16*4), make([]float32, cols)
			for i := range x.data {
				x.data[i] = e.codec.put(float32(r.NormFloat64()))
			}
			for j := range want {
				sum.data[j] = float32(r.NormFloat64())
				want[j] = sum.data[j]
				for i := range rows {
					want[j] += e.codec.get(x.data[i*cols+j])
				}
			}
			e.ops(v).SumColumns(sum.data, x.data)
			for j := range want {
				if sum.data[j] != want[j] {
					t.Fatalf("column %d of %d, %d rows: %v, want %v", j, cols, rows, sum.data[j], want[j])
				}
			}
			sum.check(t, "SumColumns")
		}
	})
}

func TestGradStats(t *testing.T) {
	t.Run("float32", testFloat32.gradStats)
	t.Run("float16", testFloat16.gradStats)
	t.Run("bfloat16", testBFloat16.gradStats)
}

// Squares of float32 numbers are exact in float64; a sum of n of them in another order differs by less than n·2⁻⁵³ of itself: 1e-12
// for n = 4096.
func (e element[T]) gradStats(t *testing.T) {
	const inv = float32(1.0 / 3)
	bad16 := []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xff812000)}
	forLevels(t, func(t *testing.T, v *Vec) {
		r := rand.New(rand.NewPCG(5, 6))
		worst := 0.0
		for n := range 300 {
			if n == 299 {
				n = 4096
			}
			x := newGuarded[T](n, n%32*2&^3)
			for i := range x.data {
				x.data[i] = e.codec.put(float32(r.NormFloat64()))
			}
			got, want, bad, wantBad := 0.5, 0.5, int32(0), int32(0)
			e.ops(v).GradStats(x.data, inv, &got, &bad)
			e.codec.gradStats(x.data, inv, &want, &wantBad)
			worst = max(worst, math.Abs(got-want)/want)
			if worst > 1e-12 || bad != 0 {
				t.Fatalf("%d elements: squares %v, want %v; bad %d", n, got, want, bad)
			}
			if n == 0 {
				continue
			}
			x.data[r.IntN(n)] = e.codec.put(bad16[r.IntN(len(bad16))])
			if e.ops(v).GradStats(x.data, inv, &got, &bad); bad != 1 {
				t.Fatalf("%d elements, one not finite: not seen", n)
			}
		}
		t.Logf("largest relative error %.2g", worst)
	})
}

func TestDropoutMaskAgainstPhilox(t *testing.T) {
	forLevels(t, func(t *testing.T, v *Vec) {
		for _, rate := range []float32{0, 0.1, 0.4, 0.999} {
			const seed, purpose = 0x123456789abcdef0, philox.Dropout + 3
			d := NewDropoutStream(seed, purpose, rate)
			shapes(1, func(n, offset int) {
				epoch, position := uint32(n), uint32(offset)<<26|7
				mask := newGuarded[uint8](n, offset)
				v.DropoutMask(mask.data, d, epoch, position)
				for i, m := range mask.data {
					word := philox.MaskWord(philox.Key(seed), purpose, epoch, position, uint32(i))
					if want := float64(word) >= float64(rate)*(1<<32); want != (m == 1) || m > 1 {
						t.Fatalf("rate %v, element %d of %d: mask %d, word %#x", rate, i, n, m, word)
					}
				}
				mask.check(t, "DropoutMask")
			})
		}
	})
}

// A word equal to the threshold keeps the element; one below it does not.
func TestDropoutMaskAtTheThreshold(t *testing.T) {
	forLevels(t, func(t *testing.T, v *Vec) {
		const seed, n = 5, 200
		d, mask := NewDropoutStream(seed, philox.Dropout, 0.5), make([]uint8, n)
		for e := range uint32(n) {
			word := philox.MaskWord(philox.Key(seed), philox.Dropout, 1, 2, e)
			d.threshold = word
			if v.DropoutMask(mask, d, 1, 2); mask[e] != 1 {
				t.Fatalf("element %d: dropped at the threshold", e)
			}
			d.threshold = word + 1
			if v.DropoutMask(mask, d, 1, 2); mask[e] != 0 {
				t.Fatalf("element %d: kept below the threshold", e)
			}
		}
	})
}
