package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"halfstep/program"
)

// The routines of each level against their twins in Go.

// twinsOf gives the routines in Go that work on the same packed form as r.
func twinsOf(s GEMMShape, r gemmRoutines) gemmRoutines {
	t := newPortableGEMM(s, r.rows, r.cols, r.heights)
	t.tile = nil
	for w := r.vector; w <= r.cols; w += r.vector {
		var tiles []gemmTileFunc
		for h := r.heights; h <= r.rows; h += r.heights {
			switch {
			case r.perStep == 2:
				tiles = append(tiles, gemmPairs(h, w, s.TransA))
			case s.A == program.Float64 && s.TransA:
				tiles = append(tiles, gemmTileCol[float64](h, w))
			case s.A == program.Float64:
				tiles = append(tiles, gemmTileRow[float64](h, w))
			case s.TransA:
				tiles = append(tiles, gemmTileCol[float32](h, w))
			default:
				tiles = append(tiles, gemmTileRow[float32](h, w))
			}
		}
		t.tile = append(t.tile, tiles)
	}
	if r.perStep == 2 {
		t.packRows = gemmPackPairRows
		t.packCols, t.packPanels = gemmPackPairPanels(r.rows), gemmPackPairPanels(r.cols)
		t.packTransposed = gemmPackPairTransposed(r.cols)
	}
	return t
}

// forGEMMRoutines runs f for the routines of each level above the portable and each dtype.
func forGEMMRoutines(t *testing.T, f func(t *testing.T, s GEMMShape, r, twin gemmRoutines)) {
	for _, l := range Levels()[1:] {
		for _, d := range []program.DType{program.Float32, program.Float16, program.BFloat16, program.Float64} {
			for _, trans := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%v/%v", l, d, trans), func(t *testing.T) {
					s := GEMMShape{A: d, B: d, C: d, TransA: trans}
					r := newGEMMRoutines(l, s)
					f(t, s, r, twinsOf(s, r))
				})
			}
		}
	}
}

// randomElems is n elements of d from a normal distribution.
func randomElems(n int, d program.DType, r *rand.Rand) []byte {
	b := newGuarded[byte](n*d.Size(), 0).data
	for i := range n {
		put(b, d, i, r.NormFloat64())
	}
	return b
}

func TestGEMMPackAgainstTwins(t *testing.T) {
	forGEMMRoutines(t, func(t *testing.T, s GEMMShape, r, twin gemmRoutines) {
		random := rand.New(rand.NewPCG(1, 3))
		const stride, rows = 90, 90 // of the source, in elements
		src := randomElems(stride*rows, s.A, random)
		// compare packs both ways and compares the elements at the given places.
		compare := func(what string, f, g gemmPackFunc, ds, k, n int, places func(yield func(at int))) {
			dst := [2][]byte{newGuarded[byte](1<<18, 0).data, newGuarded[byte](1<<18, 0).data}
			f(address(dst[0]), address(src), ds, stride*s.A.Size(), k, n)
			g(address(dst[1]), address(src), ds, stride*s.A.Size(), k, n)
			places(func(at int) {
				a, b := dst[0][at:at+r.packed], dst[1][at:at+r.packed]
				if !slices.Equal(a, b) {
					t.Fatalf("%s of %d by %d: byte %d: %x, twin %x", what, k, n, at, a, b)
				}
			})
		}
		for range 60 {
			k, n := 1+random.IntN(rows-1), 1+random.IntN(stride-1)
			steps := ceilDiv(k, r.perStep)
			ds := 4096
			compare("packRows", r.packRows, twin.packRows, ds, k, min(n, 60), func(yield func(int)) {
				for i := range min(n, 60) {
					for j := range steps {
						yield(i*ds + j*r.packed)
					}
				}
			})
			panels := func(width, n int) func(func(int)) {
				return func(yield func(int)) {
					for i := range steps {
						for j := range n {
							yield(j/width*16384 + (i*width+j%width)*r.packed)
						}
					}
				}
			}
			compare("packCols", r.packCols, twin.packCols, 16384, k, n, panels(r.rows, n))
			compare("packPanels", r.packPanels, twin.packPanels, 16384, k, n, panels(r.cols, n))
			cols := 1 + n%r.cols
			compare("packTransposed", r.packTransposed, twin.packTransposed, 0, k, cols, panels(r.cols, cols))
		}
	})
}

// Assembly contracts multiply-adds, the twin rounds each product too: they differ by less than 2(k+1) roundings of the sum of
// magnitudes, here below 16 a term. VDPBF16PS rounds as its twin does, each product being exact.
func TestGEMMTileAgainstTwins(t *testing.T) {
	forGEMMRoutines(t, func(t *testing.T, s GEMMShape, r, twin gemmRoutines) {
		random := rand.New(rand.NewPCG(1, 4))
		d := program.Float32
		switch {
		case s.A == program.Float64:
			d = program.Float64
		case r.perStep == 2:
			d = program.BFloat16
		}
		worst := 0.0
		for _, k := range []int{1, 2, 7, 40} {
			a, b := randomElems(r.rows*k*r.perStep, d, random), randomElems(r.cols*k*r.perStep, d, random)
			sums := d
			if d == program.BFloat16 {
				sums = program.Float32
			}
			init := randomElems(r.rows*r.cols, sums, random)
			as := k * r.packed
			if s.TransA {
				as = r.rows * r.packed
			}
			for w, tiles := range r.tile {
				for h, tile := range tiles {
					cols := (w + 1) * r.vector
					var out [2]guarded[byte]
					for i, f := range []gemmTileFunc{tile, twin.tile[w][h]} {
						out[i] = newGuarded[byte]((h+1)*r.heights*cols*r.sum, 0)
						f(k, address(a), as, address(b), r.cols*r.packed, cols, address(init), r.cols*r.sum, address(out[i].data), cols*r.sum)
						out[i].check(t, "tile")
					}
					for i := range (h + 1) * r.heights * cols {
						x, y := get(out[0].data, sums, i), get(out[1].data, sums, i)
						bound := 2 * float64(k+1) * unit(sums) * 16 * float64(k+1)
						if r.perStep == 2 {
							bound = 0
						}
						worst = max(worst, math.Abs(x-y))
						if !(math.Abs(x-y) <= bound) {
							t.Fatalf("k %d, %d rows, %d columns: element %d is %g, twin %g", k, (h+1)*r.heights, cols, i, x, y)
						}
					}
				}
			}
		}
		t.Logf("largest difference: %.2g", worst)
	})
}

func TestGEMMStoreAgainstTwins(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 5))
	for _, l := range Levels()[1:] {
		for _, s := range gemmKinds() {
			if s.A == program.Float64 || s.TransA || s.TransB || s.Bias || s.ColSum {
				continue
			}
			r := newGEMMRoutines(l, s)
			twin := gemmStore(s, r.cols)
			tile := newGuarded[float32](r.rows*r.cols, 0).data
			fill(tile, random, randomFloat32)
			for cols := 1; cols <= r.cols; cols++ {
				n := r.rows * cols
				mask := randomElems(n, s.C, random)
				for i, v := range []float64{math.NaN(), 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1)} {
					put(mask, s.C, i, v)
				}
				var c [2]guarded[byte]
				for i, f := range []gemmStoreFunc{r.store, twin} {
					c[i] = newGuarded[byte](n*s.C.Size(), 0)
					f(address(c[i].data), cols*s.C.Size(), unsafe.Pointer(&tile[0]), r.rows, cols, address(mask))
					c[i].check(t, "C")
				}
				if !slices.Equal(c[0].data, c[1].data) {
					t.Fatalf("%v, %+v, %d columns: differs from twin", l, s, cols)
				}
			}
		}
	}
}
