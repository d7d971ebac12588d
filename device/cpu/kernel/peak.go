package kernel

import (
	"math"
	"unsafe"

	"halfstep/program"
)

// Peak is a loop of multiply-adds on registers alone. Its rate is what no kernel of that level and dtype can exceed:
// benchmarks give theirs as a share of it.
type Peak struct {
	run   func(n int, x, y, out unsafe.Pointer)
	one   uint64 // the bits of both multiplicands: sums of ones stay finite for any number of rounds
	flops int64
}

// peakSums is room for all accumulators of any level: 24 vectors of 64 bytes.
type peakSums [24 * 8]float64

// NewPeak gives the loop of a level for operands of a dtype; false where the level has no multiply-add of its own for it,
// as for float16, which is computed in float32.
func NewPeak(l Level, d program.DType) (Peak, bool) {
	run, flops := peakRoutine(l, d)
	if run == nil && l == Portable {
		switch d {
		case program.Float32:
			run, flops = peakPortable[float32], 2*portableSums
		case program.Float64:
			run, flops = peakPortable[float64], 2*portableSums
		}
	}
	one := uint64(math.Float32bits(1))
	switch d {
	case program.Float64:
		one = math.Float64bits(1)
	case program.BFloat16:
		one = 0x3F80_3F80 // a pair
	}
	return Peak{run, one, int64(flops)}, run != nil
}

// FLOPs is the number of floating-point operations in n rounds, two per multiply-add.
func (p *Peak) FLOPs(n int) int64 { return p.flops * int64(n) }

// Run does n rounds, at least one, on the calling goroutine.
func (p *Peak) Run(n int) {
	var sums peakSums
	p.run(n, unsafe.Pointer(&p.one), unsafe.Pointer(&p.one), unsafe.Pointer(&sums))
}

// portableSums is the number of accumulators of peakPortable: enough to hide the latency of a scalar addition.
const portableSums = 8

// peakPortable is the portable level's own rate: eight sums, product and addition rounded apart.
func peakPortable[F float32 | float64](n int, x, y, out unsafe.Pointer) {
	a, b, s := *(*F)(x), *(*F)(y), (*[portableSums]F)(out)
	s0, s1, s2, s3, s4, s5, s6, s7 := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
	for range n {
		s0 += F(a * b)
		s1 += F(a * b)
		s2 += F(a * b)
		s3 += F(a * b)
		s4 += F(a * b)
		s5 += F(a * b)
		s6 += F(a * b)
		s7 += F(a * b)
	}
	*s = [portableSums]F{s0, s1, s2, s3, s4, s5, s6, s7}
}

// peakGo adds x·y to each sum n times with one rounding, as a fused multiply-add does.
func peakGo(n int, x, y float64, sums []float64) {
	for i := range sums {
		for range n {
			sums[i] = math.FMA(x, y, sums[i])
		}
	}
}
