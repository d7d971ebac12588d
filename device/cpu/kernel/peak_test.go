package kernel

import (
	"testing"
	"unsafe"

	"halfstep/program"
)

// TestPeak runs every level's loop on values whose sums are exact in any order and any precision, compares each sum with
// the twin's and the number of sums with the FLOPs that are claimed.
func TestPeak(t *testing.T) {
	const rounds = 1000
	for _, l := range Levels() {
		for _, d := range []program.DType{program.Float32, program.Float64, program.BFloat16, program.Float16} {
			p, ok := NewPeak(l, d)
			want := d == program.Float32 || d == program.Float64 || d == program.BFloat16 && l == AVX512BF16
			if ok != want {
				t.Errorf("%v %v: there is a loop: %v, want %v", l, d, ok, want)
			}
			if !ok {
				continue
			}
			var sums peakSums
			p.run(rounds, unsafe.Pointer(&p.one), unsafe.Pointer(&p.one), unsafe.Pointer(&sums))
			perSum := 1 // products in one sum a round
			if d == program.BFloat16 {
				perSum = 2
			}
			twin := []float64{0}
			peakGo(rounds*perSum, 1, 1, twin)
			count := 0
			for _, s := range sumsOf(d, &sums) {
				switch s {
				case twin[0]:
					count++
				case 0: // beyond the level's accumulators
				default:
					t.Fatalf("%v %v: sum %v, want %v", l, d, s, twin[0])
				}
			}
			if got := 2 * int64(count) * int64(perSum) * rounds; got != p.FLOPs(rounds) {
				t.Errorf("%v %v: %d FLOPs were done, %d are claimed", l, d, got, p.FLOPs(rounds))
			}
		}
	}
}

func sumsOf(d program.DType, s *peakSums) []float64 {
	if d == program.Float64 {
		return s[:]
	}
	var r []float64
	for _, f := range unsafe.Slice((*float32)(unsafe.Pointer(s)), 2*len(s)) {
		r = append(r, float64(f))
	}
	return r
}
