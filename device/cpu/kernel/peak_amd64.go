package kernel

import (
	"unsafe"

	"halfstep/program"
)

// peakRoutine gives the assembly loop of a level and the FLOPs of one of its rounds; nil where there is none.
func peakRoutine(l Level, d program.DType) (run func(n int, x, y, out unsafe.Pointer), flops int) {
	const sums512, sums256 = 24, 12
	switch {
	case l >= AVX512BF16 && d == program.BFloat16:
		return peakBF16PairAVX512, 2 * sums512 * 32
	case l >= AVX512 && d == program.Float32:
		return peakF32AVX512, 2 * sums512 * 16
	case l >= AVX512 && d == program.Float64:
		return peakF64AVX512, 2 * sums512 * 8
	case l == AVX2 && d == program.Float32:
		return peakF32AVX2, 2 * sums256 * 8
	case l == AVX2 && d == program.Float64:
		return peakF64AVX2, 2 * sums256 * 4
	}
	return nil, 0
}
