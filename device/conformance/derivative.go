package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// derivative says of a case's outputs which gradients they are: of the sum of f(args)·dy, output k by args[wrt[k]].
type derivative struct {
	f    func(args [][]float64) []float64
	args [][]float64
	dy   []float64
	wrt  []int
}

// directions is the number of random directions in which each gradient is checked.
const directions = 3

// check compares gradients, computed in float64 without rounding, with central differences of f along random directions. With
// a step of 1e-7 the difference errs by 1e-14 of the third derivative and by 2⁻⁵²/1e-7 of the summed terms, both below 1e-8 of what is
// summed here; the limit is 1e-6 of it. A small step seldom crosses a kink of ReLU or a max pool.
func (d *derivative) check(r *rand.Rand, grads [][]float64) error {
	const h = 1e-7
	for k, arg := range d.wrt {
		for range directions {
			dir := make([]float64, len(d.args[arg]))
			var want, size float64
			for i := range dir {
				dir[i] = r.NormFloat64()
				want += grads[k][i] * dir[i]
				size += math.Abs(grads[k][i] * dir[i])
			}
			up, total := d.along(arg, dir, h)
			down, _ := d.along(arg, dir, -h)
			got := (up - down) / (2 * h)
			if math.Abs(got-want) > 1e-6*(size+total) {
				return fmt.Errorf("gradient by operand %d is %v along a random direction, numerically %v", arg, want, got)
			}
		}
	}
	return nil
}

// along is the sum of f·dy at args[arg] + h·dir, and the sum of the terms' magnitudes.
func (d *derivative) along(arg int, dir []float64, h float64) (sum, size float64) {
	args := append([][]float64(nil), d.args...)
	args[arg] = plus(args[arg], scaled(h, dir))
	for i, y := range d.f(args) {
		sum += y * d.dy[i]
		size += math.Abs(y * d.dy[i])
	}
	return sum, size
}
