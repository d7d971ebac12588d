package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"halfstep/program"
)

// Each routine of the convolution against its Go twin, on the same arguments.

// forVectorLevels runs f on the levels that have assembly.
func forVectorLevels(t *testing.T, f func(t *testing.T, l Level, r *rand.Rand)) {
	for _, l := range Levels()[1:] {
		t.Run(l.String(), func(t *testing.T) { f(t, l, rand.New(rand.NewPCG(11, uint64(l)))) })
	}
}

// outputs are two copies of an array that a routine and its twin write.
type outputs struct{ got, want *tensor }

func newOutputs(d program.DType, n int, f func() float64) outputs {
	o := outputs{newTensor(d, n).fill(f), newTensor(d, n)}
	for i, v := range o.got.ref {
		o.want.set(i, v)
	}
	return o
}

// check compares within tol, NaN being equal to NaN, and looks at the guards.
func (o outputs) check(t *testing.T, what string, tol float64) {
	t.Helper()
	o.got.checkGuards(t, what)
	for i := range o.got.ref {
		g, w := o.got.get(i), o.want.get(i)
		if d := math.Abs(g - w); !(d <= tol) && g != w && !(math.IsNaN(g) && math.IsNaN(w)) {
			t.Fatalf("%s: element %d is %v, twin %v", what, i, g, w)
		}
	}
}

// fma bounds what fused and separate rounding of terms products of magnitude below 1 may differ by: each of the two sums
// is within terms·2^-24 times its magnitude, at most terms, of the exact one.
func fma(terms int) float64 { return 2 * float64(terms+1) * float64(terms+1) * 0x1p-24 }

func plusMinus(r *rand.Rand) func() float64 { return func() float64 { return 2*r.Float64() - 1 } }

func TestConvTileTwin(t *testing.T) {
	forVectorLevels(t, func(t *testing.T, l Level, r *rand.Rand) {
		for _, bf16 := range []bool{false, true} {
			if bf16 && l < AVX512BF16 {
				continue
			}
			elem := pairType(bf16)
			d := [...]program.DType{program.Float32, program.Float16, program.BFloat16}[elem]
			per := 4 / elem.bytes() // values in an element
			for nv := 1; nv <= 2; nv++ {
				width := nv * l.convLanes()
				for m := 1; m <= l.convMaxTile(); m++ {
					kh, run := 1+r.IntN(3), 1+r.IntN(11)
					xPix, xLine := 1+r.IntN(run+2), run+m*(run+2)
					x, w := newTensor(d, (xPix*(m-1)+xLine*(kh-1)+run)*per).fill(plusMinus(r)), newTensor(d, kh*run*width*per).fill(plusMinus(r))
					bias := newTensor(program.Float32, width).fill(plusMinus(r))
					yPix := width + r.IntN(2)*5
					y := newOutputs(program.Float32, yPix*(m-1)+width, plusMinus(r))
					c := convTile{
						x: x.ptr(), w: w.ptr(), bias: bias.ptr(), y: y.got.ptr(), xPix: 4 * xPix, xJump: 4 * (xLine - run),
						yPix: 4 * yPix, kh: kh, run: run, m: m, floor: reluFloor(m%2 == 0),
					}
					l.convTile(nv, bf16, &c)
					if c.y = y.want.ptr(); bf16 {
						convTileBF16Go(&c, width)
					} else {
						convTileGo(&c, width)
					}
					y.check(t, fmt.Sprintf("tile of %d by %d, bf16 %t", m, width, bf16), fma(kh*run*per))
				}
			}
		}
	})
}

func TestConvGradWTwin(t *testing.T) {
	forVectorLevels(t, func(t *testing.T, l Level, r *rand.Rand) {
		for _, bf16 := range []bool{false, true} {
			if bf16 && l < AVX512BF16 {
				continue
			}
			elem := pairType(bf16)
			d := [...]program.DType{program.Float32, program.Float16, program.BFloat16}[elem]
			per := 4 / elem.bytes()
			for nv := 1; nv <= 2; nv++ {
				width := nv * l.convLanes()
				for m := 1; m <= l.convMaxTile(); m++ {
					rows, cols, xPix, dyPix := 1+r.IntN(4), 1+r.IntN(6), m+r.IntN(3), width+r.IntN(2)*3
					xLine, dyLine := xPix*cols+2, dyPix*cols+4
					x := newTensor(d, (xLine*(rows-1)+xPix*(cols-1)+m)*per).fill(plusMinus(r))
					dy := newTensor(d, (dyLine*(rows-1)+dyPix*(cols-1)+width)*per).fill(plusMinus(r))
					dw := newOutputs(program.Float32, m*width, plusMinus(r))
					c := convGradW{
						x: x.ptr(), dy: dy.ptr(), dw: dw.got.ptr(), xPix: 4 * xPix, dyPix: 4 * dyPix, xJump: 4 * (xLine - cols*xPix),
						dyJump: 4 * (dyLine - cols*dyPix), rows: rows, cols: cols, m: m,
					}
					l.convGradW(nv, bf16, &c)
					if c.dw = dw.want.ptr(); bf16 {
						convGradWBF16Go(&c, width)
					} else {
						convGradWGo(&c, width)
					}
					dw.check(t, fmt.Sprintf("%d by %d, bf16 %t", m, width, bf16), fma(rows*cols*per))
				}
			}
		}
	})
}

// anything draws floats of all kinds: ties of the half types, huge, infinite, not a number, zeros. The instruction that
// rounds to bfloat16 takes subnormal numbers as zero, unlike its twin, so none are drawn.
func anything(r *rand.Rand) func() float64 {
	return func() float64 {
		switch r.IntN(8) {
		case 0:
			return []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 65519, 65520, 1e38, 3.39e38}[r.IntN(9)]
		case 1:
			return (1 + float64(r.IntN(4096))/2048) * math.Copysign(1, plusMinus(r)()) // ties of float16
		case 2:
			return (1 + float64(r.IntN(512))/256) * math.Ldexp(1, r.IntN(40)-20) // ties of bfloat16
		case 3:
			return float64(r.IntN(5000)) * 0x1p-26 // subnormal numbers of float16
		}
		return r.NormFloat64()
	}
}

var rowPairs = [][2]rowType{{rowF32, rowF32}, {rowF16, rowF32}, {rowBF16, rowF32}, {rowF32, rowF16}, {rowF32, rowBF16}, {rowBF16, rowBF16}}

var rowDTypes = [...]program.DType{rowF32: program.Float32, rowF16: program.Float16, rowBF16: program.BFloat16}

func TestConvRowsTwin(t *testing.T) {
	forVectorLevels(t, func(t *testing.T, l Level, r *rand.Rand) {
		for _, p := range rowPairs {
			if p[0] == p[1] && p[0] == rowBF16 && l < AVX512BF16 {
				continue
			}
			for c := 1; c <= 70; c++ {
				n, gap := 1+c%3, c%2*3
				src := newTensor(rowDTypes[p[0]], n*(c+gap)).fill(anything(r))
				mask := newTensor(rowDTypes[max(p[0], p[1])], n*(c+gap)).fill(anything(r))
				for _, masked := range []bool{false, true} {
					dst := newOutputs(rowDTypes[p[1]], n*(c+gap), plusMinus(r))
					a := convRows{
						dst: dst.got.ptr(), src: src.ptr(), mask: mask.ptr(), n: n, c: c, dstPix: (c + gap) * p[1].bytes(),
						srcPix: (c + gap) * p[0].bytes(), maskPix: (c + gap) * max(p[0], p[1]).bytes(),
					}
					l.convRows(&a, p[0], p[1], masked)
					a.dst = dst.want.ptr()
					convRowsGo(&a, p[0], p[1], masked)
					dst.check(t, fmt.Sprintf("%v to %v, c %d, mask %t", rowDTypes[p[0]], rowDTypes[p[1]], c, masked), 0)
				}
			}
		}
	})
}

func TestConvPoolTwin(t *testing.T) {
	forVectorLevels(t, func(t *testing.T, l Level, r *rand.Rand) {
		for c := 1; c <= 40; c++ {
			for _, e := range []rowType{rowF32, rowF16, rowBF16} {
				size := 1 + r.IntN(4)
				stride, n, padded := 1+r.IntN(size), 1+r.IntN(3), roundUp(c, l.convLanes())
				row := padded * (stride*(n-1) + size)
				src := newTensor(program.Float32, row*size).fill(anything(r))
				y, idx := newOutputs(rowDTypes[e], n*(c+1)-1, plusMinus(r)), newOutputs(program.Uint8, n*(c+2)-2, func() float64 { return 9 })
				a := convPool{
					src: src.ptr(), y: y.got.ptr(), idx: idx.got.ptr(), pix: 4 * padded, row: 4 * row, step: 4 * padded * stride,
					n: n, c: c, size: size, yPix: (c + 1) * e.bytes(), idxPix: c + 2, floor: reluFloor(c%2 == 0), dead: int32(size * size),
				}
				if c%2 == 0 {
					a.relu = ^uint32(0)
				}
				l.convPool(&a, e)
				a.y, a.idx = y.want.ptr(), idx.want.ptr()
				convPoolGo(&a, e)
				what := fmt.Sprintf("%v, c %d, size %d", rowDTypes[e], c, size)
				y.check(t, what, 0)
				idx.check(t, what+": idx", 0)
			}
		}
	})
}

func TestConvUnpoolTwin(t *testing.T) {
	forVectorLevels(t, func(t *testing.T, l Level, r *rand.Rand) {
		for c := 1; c <= 40; c++ {
			for _, p := range rowPairs[:6] {
				if p[1] == rowF16 || p[0] == rowF32 && p[1] == rowBF16 || p[1] == rowBF16 && l < AVX512BF16 {
					continue // the scratch is float32 or, from bfloat16, bfloat16
				}
				size, n, padded := 1+r.IntN(4), 1+r.IntN(3), roundUp(c, l.convLanes())
				stride := size
				if p[1] == rowF32 {
					stride = 1 + r.IntN(size)
				}
				row := padded * (stride*(n-1) + size)
				dy := newTensor(rowDTypes[p[0]], n*c).fill(plusMinus(r))
				idx := newTensor(program.Uint8, n*c).fill(func() float64 { return float64(r.IntN(size*size + 1)) })
				dst := newOutputs(rowDTypes[p[1]], row*size, plusMinus(r))
				a := convUnpool{
					dst: dst.got.ptr(), dy: dy.ptr(), idx: idx.ptr(), pix: padded * p[1].bytes(), row: row * p[1].bytes(),
					step: stride * padded * p[1].bytes(), n: n, c: c, size: size, dyPix: c * p[0].bytes(), idxPix: c,
				}
				if stride < size {
					a.add = ^uint32(0)
				}
				l.convUnpool(&a, p[0], p[1])
				a.dst = dst.want.ptr()
				convUnpoolGo(&a, p[0], p[1])
				if l >= AVX512 && a.add == 0 { // padding becomes zero
					for i := range dst.want.ptrs(padded, c) {
						dst.want.set(i, 0)
					}
				}
				dst.check(t, fmt.Sprintf("%v to %v, c %d, size %d", rowDTypes[p[0]], rowDTypes[p[1]], c, size), 0)
			}
		}
	})
}

// ptrs yields the elements of t in the padding of pixels of padded channels, c of them used.
func (t *tensor) ptrs(padded, c int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range t.ref {
			if i%padded >= c && !yield(i) {
				return
			}
		}
	}
}

func TestConvSumsTwin(t *testing.T) {
	forVectorLevels(t, func(t *testing.T, l Level, r *rand.Rand) {
		for n := 1; n <= 9; n++ {
			c := l.convLanes() * (1 + n%3)
			for _, e := range []rowType{rowF32, rowBF16} {
				if e == rowBF16 && l < AVX512BF16 {
					continue
				}
				x, sum := newTensor(rowDTypes[e], n*(c+1)).fill(plusMinus(r)), newOutputs(program.Float32, c, plusMinus(r))
				l.convColSum(e, sum.got.ptr(), x.ptr(), n, c, (c+1)*e.bytes())
				convColSumGo(e, sum.want.ptr(), x.ptr(), n, c, (c+1)*e.bytes())
				sum.check(t, fmt.Sprintf("sum of %d pixels", n), 0)
			}
			acc, dst := newTensor(program.Float32, n*(c+2)).fill(plusMinus(r)), newOutputs(program.Float32, c, plusMinus(r))
			l.convSumAcc(dst.got.ptr(), acc.ptr(), c, 4*(c+2), n)
			convSumAccGo(dst.want.ptr(), acc.ptr(), c, 4*(c+2), n)
			dst.check(t, fmt.Sprintf("sum of %d accumulators", n), 0)
		}
		for n := 1; n <= 70 && l >= AVX512BF16; n++ {
			lo, hi := newTensor(program.BFloat16, n).fill(plusMinus(r)), newTensor(program.BFloat16, n).fill(plusMinus(r))
			dst := newOutputs(program.BFloat16, 2*n, plusMinus(r))
			l.convPairs(dst.got.ptr(), lo.ptr(), hi.ptr(), n)
			convPairsGo(dst.want.ptr(), lo.ptr(), hi.ptr(), n)
			dst.check(t, fmt.Sprintf("%d pairs", n), 0)
		}
	})
}

func TestConvSparseTwin(t *testing.T) {
	forVectorLevels(t, func(t *testing.T, l Level, r *rand.Rand) {
		if l < AVX512 {
			return // it has none
		}
		for c := 1; c <= 70; c++ {
			for _, e := range []rowType{rowF32, rowF16, rowBF16} {
				sparseTwin(t, l, r, c, e)
			}
		}
	})
}

// sparseTwin stages one row of gradients, then runs both products.
func sparseTwin(t *testing.T, l Level, r *rand.Rand, c int, e rowType) {
	what := fmt.Sprintf("%v, %d channels", rowDTypes[e], c)
	n, oc, in := 1+r.IntN(9), roundUp(c, 16), 16*[...]int{1, 2, 3, 4, 8, 9}[r.IntN(6)]
	dy := newTensor(rowDTypes[e], n*c).fill(func() float64 { return float64(r.IntN(2)) * plusMinus(r)() })
	idx := newTensor(program.Uint8, n*c).fill(func() float64 { return float64(r.IntN(5)) })
	pix, line := 4*in, 4*in*(2*n+2)
	room := n*(c+4) + 16
	grad, off := newOutputs(program.Float32, 16*oc, func() float64 { return 0 }), newOutputs(program.Float32, n*oc, func() float64 { return 0 })
	db, lists := newOutputs(program.Float32, oc, plusMinus(r)), newOutputs(program.Float32, 2*room, func() float64 { return 0 })
	a := convStage{dy: dy.ptr(), idx: idx.ptr(), delta: 4 * room, lists: 1, n: n, c: c, dyPix: c * e.bytes(), idxPix: c, pix: 4 * oc, xStep: int32(2 * pix)}
	for q := range 4 {
		a.windowOff[q] = int32(q/2*line + q%2*pix)
	}
	for i := range a.wOff {
		a.wOff[i] = int32(64 * sparseTaps * i)
	}
	asm, twin := a, a
	asm.grad, asm.off, asm.db, asm.list = grad.got.ptr(), off.got.ptr(), db.got.ptr(), lists.got.ptr()
	twin.grad, twin.off, twin.db, twin.list = grad.want.ptr(), off.want.ptr(), db.want.ptr(), lists.want.ptr()
	l.convStage(&asm, e)
	convStageGo(&twin, e)
	for _, k := range []struct {
		name string
		o    outputs
	}{{"gradients", grad}, {"offsets", off}, {"db", db}} {
		k.o.check(t, what+": "+k.name, 0)
	}
	lists.got.checkGuards(t, what+": lists")
	if uintptr(asm.list)-uintptr(lists.got.ptr()) != uintptr(twin.list)-uintptr(lists.want.ptr()) {
		t.Fatalf("%s: lists of different lengths", what)
	}

	gradT, offT := newOutputs(program.Float32, 16*oc, plusMinus(r)), newOutputs(program.Float32, 16*oc, plusMinus(r))
	off16 := newTensor(program.Float32, 16*oc)
	copy(unsafe.Slice(f32At(off16.ptr(), 0), n*oc), unsafe.Slice(f32At(off.want.ptr(), 0), n*oc))
	for _, k := range []struct {
		o   outputs
		src *tensor
	}{{gradT, grad.want}, {offT, off16}} {
		l.convTranspose(k.o.got.ptr(), k.src.ptr(), 1, oc/16, 64, 4*oc)
		convTransposeGo(k.o.want.ptr(), k.src.ptr(), 1, oc/16, 64, 4*oc)
		k.o.check(t, what+": transposed", 0)
	}

	x := newTensor(program.Float32, 4*line/4).fill(plusMinus(r))
	rows, vecs := 3, 3*in/16
	if vecs > 9 {
		rows, vecs = 1, min(vecs, 24)
	}
	dw, list := newOutputs(program.Float32, c*rows*vecs*16, plusMinus(r)), newTensor(program.Float32, 64)
	w := convSparseW{
		x: x.ptr(), grad: gradT.want.ptr(), off: offT.want.ptr(), dw: dw.got.ptr(), list: list.ptr(), delta: 128, line: line,
		pix: 64, dwStep: 64 * rows * vecs, n: c, body: 100*rows + vecs,
	}
	l.convSparseW(&w)
	list.checkGuards(t, what+": list")
	w.dw = dw.want.ptr()
	convSparseWGo(&w)
	dw.check(t, what+": dw", fma(n))

	weights, dx := newTensor(program.Float32, c*sparseTaps*16).fill(plusMinus(r)), newOutputs(program.Float32, 4*line/4, plusMinus(r))
	d := convSparseX{w: weights.ptr(), list: lists.want.ptr(), delta: 4 * room, pix: pix, line: line, jump: 2*line - 2*n*pix, rows: 1, cols: n}
	asmX, twinX := d, d
	asmX.dx, twinX.dx = dx.got.ptr(), dx.want.ptr()
	l.convSparseX(&asmX)
	convSparseXGo(&twinX)
	dx.check(t, what+": dx", fma(4*c))
}
