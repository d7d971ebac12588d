package bench

import (
	"math"
	"math/rand/v2"

	"halfstep/device"
	"halfstep/half"
	"halfstep/program"
)

// matrices are a batch of matrices [batch,rows,cols] on the host.
type matrices struct {
	dtype      program.DType
	rows, cols int
	bytes      []byte
}

// newMatrices draws values between 0 and 1, the same for a seed; seed 0 leaves zeros.
func newMatrices(d program.DType, batch, rows, cols int, seed uint64) matrices {
	n := batch * rows * cols
	m := matrices{dtype: d, rows: rows, cols: cols, bytes: device.Bytes(make([]float64, (n*d.Size()+7)/8))[:n*d.Size()]}
	if seed == 0 {
		return m
	}
	r := rand.New(rand.NewPCG(seed, 0))
	switch d {
	case program.Float64:
		fillRandom(r, device.View[float64](m.bytes), func(x float64) float64 { return x })
	case program.Float32:
		fillRandom(r, device.View[float32](m.bytes), func(x float64) float32 { return float32(x) })
	case program.Float16:
		fillRandom(r, device.View[uint16](m.bytes), func(x float64) uint16 { return half.ToFloat16(float32(x)) })
	case program.BFloat16:
		fillRandom(r, device.View[uint16](m.bytes), func(x float64) uint16 { return half.ToBFloat16(float32(x)) })
	}
	return m
}

func fillRandom[E any](r *rand.Rand, dst []E, round func(float64) E) {
	for i := range dst {
		dst[i] = round(r.Float64())
	}
}

// at is one element.
func (m matrices) at(matrix, row, col int) float64 {
	i := (matrix*m.rows+row)*m.cols + col
	switch m.dtype {
	case program.Float32:
		return float64(device.View[float32](m.bytes)[i])
	case program.Float16:
		return float64(half.FromFloat16(device.View[uint16](m.bytes)[i]))
	case program.BFloat16:
		return float64(half.FromBFloat16(device.View[uint16](m.bytes)[i]))
	}
	return device.View[float64](m.bytes)[i]
}

// checkedElements is how many elements of a product are checked.
const checkedElements = 100

// productError is the largest relative error of some elements of c = a·b, drawn at random, against sums in float64.
func productError(s device.MatMulShape, a, b, c matrices) float64 {
	r := rand.New(rand.NewPCG(3, 0))
	worst := 0.0
	for range checkedElements {
		i, m, n := r.IntN(s.Batch), r.IntN(s.M), r.IntN(s.N)
		sum := 0.0
		for k := range s.K {
			sum += a.at(i, m, k) * b.at(i, k, n)
		}
		worst = math.Max(worst, math.Abs(c.at(i, m, n)-sum)/sum)
	}
	return worst
}
