package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"halfstep/model/op/ref"
	"halfstep/program"
)

var floatTypes = []program.DType{program.Float32, program.Float16, program.BFloat16}

// Small integers make every sum exact, so that all levels agree with the chain bit for bit, ties and rounding included.
func TestConvForwardExact(t *testing.T) {
	for _, d := range floatTypes {
		t.Run(d.String(), func(t *testing.T) {
			for i, c := range convCases(1, 50, d) {
				r := rand.New(rand.NewPCG(2, uint64(i)))
				x, w := newTensor(d, c.H*c.W*c.C).fill(ints(r)), newTensor(d, c.KH*c.KW*c.C*c.OC).fill(ints(r))
				b := newTensor(program.Float32, c.OC).fill(func() float64 { return float64(r.IntN(4001) - 2000) })
				want, wantIdx, _ := c.forwardRef(x.ref, w.ref, b.ref)
				for _, l := range Levels() {
					what := fmt.Sprintf("%s: %v", l, c)
					y, idx := c.forward(t, l, x, w, b)
					equal(t, what+": y", y, want)
					for j, v := range wantIdx {
						if uint8(idx.get(j)) != v {
							t.Fatalf("%s: idx[%d] = %v, want %d", what, j, idx.get(j), v)
						}
					}
				}
			}
		})
	}
}

// ints draws small integers.
func ints(r *rand.Rand) func() float64 {
	return func() float64 { return float64(r.IntN(9) - 4) }
}

// Gradients of small integers over three images in two accumulators are exact too.
func TestConvBackwardExact(t *testing.T) {
	for _, d := range floatTypes {
		t.Run(d.String(), func(t *testing.T) {
			for i, c := range convCases(3, 50, d) {
				r := rand.New(rand.NewPCG(4, uint64(i)))
				w, images := newTensor(d, c.KH*c.KW*c.C*c.OC).fill(ints(r)), make([]backwardInputs, 3)
				for n := range images {
					images[n] = c.backwardInputs(r, ints(r))
				}
				want := c.gradients(w.ref, images)
				for _, l := range Levels() {
					what := fmt.Sprintf("%s: %v", l, c)
					g, dx := c.backward(t, l, w, images)
					for n := range dx {
						if c.needX {
							equal(t, fmt.Sprintf("%s: dx of image %d", what, n), dx[n], want.dx[n])
						}
					}
					equal(t, what+": dw", g.dw, want.dw)
					if c.bias {
						equal(t, what+": db", g.db, want.db)
					}
				}
			}
		})
	}
}

// equal wants the values of want rounded to got's dtype.
func equal(t *testing.T, what string, got *tensor, want []float64) {
	t.Helper()
	for i, v := range want {
		if w := roundTo(got.dtype, v); got.get(i) != w || math.IsNaN(w) {
			t.Fatalf("%s[%d] = %v, want %v", what, i, got.get(i), w)
		}
	}
}

// bound compares sums of terms products with the exact ones: each addition and multiplication rounds by at most 2^-24 of
// the sum of magnitudes, the result once more to its dtype, whose subnormal numbers are 2^-24 (float16) apart.
type bound struct {
	terms int
	worst float64 // largest error as a part of what is allowed
}

func (b *bound) check(t *testing.T, what string, got *tensor, want, magnitude []float64) {
	t.Helper()
	unit := map[program.DType]float64{program.Float32: 0x1p-24, program.Float16: 0x1p-11, program.BFloat16: 0x1p-8}[got.dtype]
	for i, v := range want {
		sum := float64(b.terms+2) * 0x1p-24 * magnitude[i]
		allowed := sum + (math.Abs(v)+sum)*unit + 0x1p-25
		e := math.Abs(got.get(i) - v)
		if !(e <= allowed) {
			t.Fatalf("%s[%d] = %v, want %v: off by %g, %g allowed", what, i, got.get(i), v, e, allowed)
		}
		b.worst = max(b.worst, e/allowed)
	}
}

func abs(x []float64) []float64 {
	r := make([]float64, len(x))
	for i, v := range x {
		r[i] = math.Abs(v)
	}
	return r
}

func TestConvForward(t *testing.T) {
	for _, d := range floatTypes {
		for _, l := range Levels() {
			t.Run(fmt.Sprintf("%s/%s", d, l), func(t *testing.T) {
				var worst float64
				for i, c := range convCases(5, 8, d) {
					r := rand.New(rand.NewPCG(6, uint64(i)))
					x, w := newTensor(d, c.H*c.W*c.C).fill(r.NormFloat64), newTensor(d, c.KH*c.KW*c.C*c.OC).fill(r.NormFloat64)
					b := newTensor(program.Float32, c.OC).fill(r.NormFloat64)
					y, idx := c.forward(t, l, x, w, b)
					_, _, sums := c.forwardRef(x.ref, w.ref, b.ref)
					_, _, magnitude := c.forwardRef(abs(x.ref), abs(w.ref), abs(b.ref))
					if c.relu {
						for j := range sums {
							sums[j] = max(sums[j], 0)
						}
					}
					if c.pool.Size > 0 {
						sums, magnitude = c.chosen(idx, sums, magnitude)
					}
					e := bound{terms: c.KH * c.KW * c.C}
					e.check(t, c.String(), y, sums, magnitude)
					worst = max(worst, e.worst)
				}
				t.Logf("largest error %.2f of the bound", worst)
			})
		}
	}
}

// chosen gives the sums at the positions that idx names. Rounding may change which of nearly equal sums is the maximum; y
// is compared with the sum chosen, and the exact tests pin the choice.
func (c convCase) chosen(idx *tensor, sums, magnitude []float64) (s, m []float64) {
	oh, ow := c.Out(c.H, c.W)
	ph, pw := c.pool.Out(oh, ow)
	for i := range ph * pw * c.OC {
		p, o := i/c.OC, i%c.OC
		q := int(idx.get(i))
		if q == c.pool.Size*c.pool.Size {
			s, m = append(s, 0), append(m, 0)
			continue
		}
		at := ((p/pw*c.pool.Stride+q/c.pool.Size)*ow+p%pw*c.pool.Stride+q%c.pool.Size)*c.OC + o
		s, m = append(s, sums[at]), append(m, magnitude[at])
	}
	return s, m
}

func TestConvBackward(t *testing.T) {
	for _, d := range floatTypes {
		for _, l := range Levels() {
			t.Run(fmt.Sprintf("%s/%s", d, l), func(t *testing.T) {
				var worst float64
				for i, c := range convCases(7, 8, d) {
					r := rand.New(rand.NewPCG(8, uint64(i)))
					w := newTensor(d, c.KH*c.KW*c.C*c.OC).fill(r.NormFloat64)
					images := []backwardInputs{c.backwardInputs(r, r.NormFloat64), c.backwardInputs(r, r.NormFloat64)}
					g, dx := c.backward(t, l, w, images)
					want, magnitude := c.gradients(w.ref, images), c.magnitudes(w.ref, images)
					oh, ow := c.Out(c.H, c.W)
					// A term may itself be a sum of up to four overlapping windows' gradients.
					e := bound{terms: len(images)*oh*ow + 4}
					e.check(t, c.String()+": dw", g.dw, want.dw, magnitude.dw)
					if c.bias {
						e.check(t, c.String()+": db", g.db, want.db, magnitude.db)
					}
					f := bound{terms: c.KH*c.KW*c.OC + 4}
					for n := range dx {
						if c.needX {
							f.check(t, c.String()+": dx", dx[n], want.dx[n], magnitude.dx[n])
						}
					}
					worst = max(worst, e.worst, f.worst)
				}
				t.Logf("largest error %.2f of the bound", worst)
			})
		}
	}
}

// NaN and infinity reach the loss, where overflow is looked for: ReLU and the pool let them through.
func TestConvForwardNotFinite(t *testing.T) {
	for _, l := range Levels() {
		for _, pool := range []ref.Pool{{}, {Size: 2, Stride: 2}, {Size: 3, Stride: 3}} {
			for _, d := range floatTypes {
				c := convCase{ConvShape: ConvShape{Conv: ref.Conv{KH: 1, KW: 1, Stride: 1}, H: 6, W: 6, C: 2, OC: 17, DType: d}, relu: true, pool: pool}
				x, w := newTensor(d, 72).fill(func() float64 { return 1 }), newTensor(d, 34).fill(func() float64 { return 1 })
				x.set(0, math.NaN())
				x.set(2*11, math.Inf(1))
				y, _ := c.forward(t, l, x, w, nil)
				nan, inf := 0, 0
				for i := range y.ref {
					switch v := y.get(i); {
					case math.IsNaN(v):
						nan++
					case math.IsInf(v, 1):
						inf++
					}
				}
				if nan != 17 || inf != 17 {
					t.Errorf("%s: %v: %d NaN and %d infinite outputs, want 17 each", l, c, nan, inf)
				}
			}
		}
	}
}

// What is in scratch, and where buffers lie, must not show in the results.
func TestConvRepeats(t *testing.T) {
	for _, d := range floatTypes {
		for i, c := range convCases(9, 4, d) {
			r := rand.New(rand.NewPCG(10, uint64(i)))
			w := newTensor(d, c.KH*c.KW*c.C*c.OC).fill(r.NormFloat64)
			images := []backwardInputs{c.backwardInputs(r, r.NormFloat64), c.backwardInputs(r, r.NormFloat64)}
			for _, l := range Levels()[1:] {
				a, dxa := c.backward(t, l, w, images)
				b, dxb := c.backward(t, l, w, images)
				if !same(a.dw, b.dw) || !same(a.db, b.db) || !same(dxa[0], dxb[0]) || !same(dxa[1], dxb[1]) {
					t.Fatalf("%s: %v: two runs differ", l, c)
				}
			}
		}
	}
}

// same compares bytes.
func same(a, b *tensor) bool {
	n := len(a.ref) * a.dtype.Size()
	return bytes.Equal(unsafe.Slice((*byte)(a.ptr()), n), unsafe.Slice((*byte)(b.ptr()), n))
}

func TestConvErrors(t *testing.T) {
	good := ConvShape{Conv: ref.Conv{KH: 3, KW: 3, Stride: 1}, H: 8, W: 8, C: 1, OC: 1}
	large, noStride, ints := good, good, good
	large.KH = 9
	noStride.Stride = 0
	ints.DType = program.Int32
	for _, s := range []ConvShape{large, noStride, ints, {}} {
		if _, err := NewConvForward(Portable, s, true, true, ref.Pool{}); err == nil {
			t.Errorf("forward: %+v: no error", s)
		}
		if _, err := NewConvBackward(Portable, s, program.Conv2DBackward{Conv: s.Conv}); err == nil {
			t.Errorf("backward: %+v: no error", s)
		}
	}
	for _, p := range []ref.Pool{{Size: 7, Stride: 1}, {Size: 2}, {Size: 16, Stride: 16}} {
		if _, err := NewConvForward(Portable, good, true, true, p); err == nil {
			t.Errorf("pool %+v: no error", p)
		}
	}
	if _, err := NewConvBackward(Portable, good, program.Conv2DBackward{}); err == nil {
		t.Error("shape and instruction differ: no error")
	}
}

// fence moves a tensor to right before a page that must not be touched, so that reads beyond its end show, too.
func fence(t *testing.T, x *tensor) *tensor {
	if x == nil {
		return nil
	}
	n := len(x.ref) * x.dtype.Size()
	mem, release := fenced(t, n)
	t.Cleanup(release)
	copy(mem, unsafe.Slice((*byte)(x.ptr()), n))
	return &tensor{dtype: x.dtype, ref: x.ref, buf: mem}
}

// A read or write beyond the end of an operand, of the packed weights or of scratch ends the test with a fault.
func TestConvStaysInside(t *testing.T) {
	for _, d := range floatTypes {
		for i, c := range convCases(13, 12, d) {
			r := rand.New(rand.NewPCG(14, uint64(i)))
			w, b := fence(t, newTensor(d, c.KH*c.KW*c.C*c.OC).fill(ints(r))), fence(t, newTensor(program.Float32, c.OC).fill(ints(r)))
			in := c.backwardInputs(r, ints(r))
			in.x, in.dy, in.idxOrY = fence(t, in.x), fence(t, in.dy), fence(t, in.idxOrY)
			for _, l := range Levels() {
				f, err := NewConvForward(l, c.ConvShape, c.bias, c.relu, c.pool)
				if err != nil {
					t.Fatal(err)
				}
				packed, scratch := fence(t, dirty(f.PackedBytes())), fence(t, dirty(f.ScratchBytes()))
				y, idx := fence(t, newTensor(d, len(in.dy.ref))), fence(t, newTensor(program.Uint8, len(in.dy.ref)))
				f.Pack(packed.ptr(), w.ptr())
				f.Image(in.x.ptr(), packed.ptr(), b.ptr(), y.ptr(), idx.ptr(), scratch.ptr())

				k := c.plan(t, l)
				packed, scratch = fence(t, dirty(max(k.PackedBytes(), 1))), fence(t, dirty(max(k.ScratchBytes(), 1)))
				acc, dx := fence(t, newTensor(program.Float32, 2*k.AccBytes()/4)), fence(t, newTensor(d, len(in.x.ref)))
				dw, db := fence(t, newTensor(d, len(w.ref))), fence(t, newTensor(program.Float32, c.OC))
				other := dx.ptr() // not read
				if in.idxOrY != nil {
					other = in.idxOrY.ptr()
				}
				k.Pack(packed.ptr(), w.ptr())
				k.Image(in.x.ptr(), packed.ptr(), in.dy.ptr(), other, dx.ptr(), acc.ptr(), scratch.ptr())
				k.Finish(dw.ptr(), db.ptr(), acc.ptr(), 2)
			}
		}
	}
}

// Image and Finish run in every step, on every worker: no garbage.
func TestConvAllocatesNothing(t *testing.T) {
	for _, d := range floatTypes {
		for i, c := range convCases(15, 4, d) {
			r := rand.New(rand.NewPCG(16, uint64(i)))
			w, b, in := newTensor(d, c.KH*c.KW*c.C*c.OC), newTensor(program.Float32, c.OC), c.backwardInputs(r, ints(r))
			y, idx, dx := newTensor(d, len(in.dy.ref)), newTensor(program.Uint8, len(in.dy.ref)), newTensor(d, len(in.x.ref))
			other := idx
			if in.idxOrY != nil {
				other = in.idxOrY
			}
			for _, l := range Levels()[1:] {
				f, err := NewConvForward(l, c.ConvShape, c.bias, c.relu, c.pool)
				if err != nil {
					t.Fatal(err)
				}
				k := c.plan(t, l)
				packed, scratch := dirty(max(f.PackedBytes(), k.PackedBytes())), dirty(max(f.ScratchBytes(), k.ScratchBytes()))
				acc := newTensor(program.Float32, k.AccBytes()/4)
				n := testing.AllocsPerRun(1, func() {
					f.Pack(packed.ptr(), w.ptr())
					f.Image(in.x.ptr(), packed.ptr(), b.ptr(), y.ptr(), idx.ptr(), scratch.ptr())
					k.Pack(packed.ptr(), w.ptr())
					k.Image(in.x.ptr(), packed.ptr(), in.dy.ptr(), other.ptr(), dx.ptr(), acc.ptr(), scratch.ptr())
					k.Finish(w.ptr(), b.ptr(), acc.ptr(), 1)
				})
				if n > 0 {
					t.Errorf("%s: %v: %v allocations", l, c, n)
				}
			}
		}
	}
}
