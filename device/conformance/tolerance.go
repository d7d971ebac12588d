package conformance

import (
	"math"

	"halfstep/program"
)

// eps32 is the distance from 1 to the next float32. One float32 operation errs by at most half of it, relatively; sums in
// tensor cores drop bits instead of rounding and err by at most the whole.
const eps32 = 0x1p-23

// epsilon is the distance from 1 to the next number of a dtype.
func epsilon(d program.DType) float64 {
	switch d {
	case program.Float16:
		return 0x1p-10
	case program.BFloat16:
		return 0x1p-7
	}
	return eps32
}

// tiny is the error allowed of results near zero: the spacing of subnormal float16s; of the other two, whose subnormals a
// device may flush to zero, the smallest normal number.
func tiny(d program.DType) float64 {
	if d == program.Float16 {
		return 0x1p-24
	}
	return 0x1p-126
}

// store is the tolerance of a result that is off by err before it is rounded to d: err, and half a unit of d in the last
// place of a number as large as |want| + err.
func store(d program.DType, want, err float64) float64 {
	return err + epsilon(d)/2*(math.Abs(want)+err) + tiny(d)
}

// stores applies store to every element.
func stores(d program.DType, want, err []float64) []float64 {
	r := make([]float64, len(want))
	for i := range want {
		r[i] = store(d, want[i], err[i])
	}
	return r
}

// sumError bounds the error of float32 sums of terms products, in any order: every product and every addition errs by at most
// eps32 times the sum of the products' magnitudes, size.
func sumError(terms int, size []float64) []float64 { return scaled(float64(terms+1)*eps32, size) }

// scaled is f·v.
func scaled(f float64, v []float64) []float64 {
	r := make([]float64, len(v))
	for i, x := range v {
		r[i] = f * x
	}
	return r
}

// plus is a + b.
func plus(a, b []float64) []float64 {
	r := make([]float64, len(a))
	for i, x := range a {
		r[i] = x + b[i]
	}
	return r
}

// closeTo reports whether got is within tol of want; NaNs equal each other, infinities only themselves.
func closeTo(got, want, tol float64) bool {
	if got == want || got != got && want != want {
		return true
	}
	return !math.IsInf(want, 0) && math.Abs(got-want) <= tol
}
