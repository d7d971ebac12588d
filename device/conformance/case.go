package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"

	"halfstep/program"
)

// testCase is one instruction with its operands and what must come out.
type testCase struct {
	name  string
	op    program.Op
	in    []*tensor
	out   []expect
	inout []change
	// judge sees all outputs where their definition leaves a choice; nil: expect says all.
	judge func(got [][]float64) error
	// numeric compares the expected outputs with numerical derivatives; nil where the operation is no gradient.
	numeric *derivative
}

// expect is an output: its type and shape, the elements wanted, and the allowed difference of each (nil: none; any NaN
// equals any other).
type expect struct {
	like *tensor
	want []float64 // nil: testCase.judge decides
	tol  []float64
}

// change is an in-out operand before and after.
type change struct {
	before *tensor
	want   []float64
	tol    []float64
}

// exactly expects elements bit for bit.
func exactly(d program.DType, want []float64, shape ...int) expect {
	return expect{like: newTensor(d, shape...), want: want}
}

// within expects elements that are off by at most err before they are rounded to d.
func within(d program.DType, want, err []float64, shape ...int) expect {
	return expect{like: newTensor(d, shape...), want: want, tol: stores(d, want, err)}
}

// judged leaves an output to testCase.judge.
func judged(d program.DType, shape ...int) expect { return expect{like: newTensor(d, shape...)} }

// unchanged expects an in-out operand to stay as it is.
func unchanged(t *tensor) change { return change{before: t, want: t.v} }

// worst is the largest error of a comparison, as such and as a share of its tolerance.
type worst struct{ err, share float64 }

func (w *worst) merge(o worst) { w.err, w.share = max(w.err, o.err), max(w.share, o.share) }

// compare checks elements; the error names the first that is off.
func compare(what string, got, want, tol []float64) (worst, error) {
	var w worst
	for i, g := range got {
		limit := 0.0
		if tol != nil {
			limit = tol[i]
		}
		if !closeTo(g, want[i], limit) {
			return w, fmt.Errorf("%s[%d] is %v, want %v ± %.2g", what, i, g, want[i], limit)
		}
		if e := math.Abs(g - want[i]); e > 0 && limit > 0 { // false for equal infinities and NaNs
			w.merge(worst{e, e / limit})
		}
	}
	return w, nil
}

// maker makes the operands of cases.
type maker struct {
	d program.DType // of activations and weights; Float64 for the check of derivatives, which no device sees
	r *rand.Rand
	// has tells which fused forms the device runs.
	has map[program.Rule]bool
	few bool // for a slow device: fewer and smaller shapes
}

// acc is the dtype of what is never half: biases, statistics, sums.
func (m *maker) acc() program.DType {
	if m.d == program.Float64 {
		return m.d
	}
	return program.Float32
}

// normal draws elements of the case's dtype.
func (m *maker) normal(scale float64, shape ...int) *tensor { return m.normalOf(m.d, scale, shape...) }

// normal32 draws elements of the accumulation's dtype.
func (m *maker) normal32(scale float64, shape ...int) *tensor {
	return m.normalOf(m.acc(), scale, shape...)
}

func (m *maker) normalOf(d program.DType, scale float64, shape ...int) *tensor {
	return newTensor(d, shape...).fill(func() float64 { return scale * m.r.NormFloat64() })
}

// integers draws whole numbers from -n to n: sums of their products are exact in any order as long as they are below 2²⁴, so
// that results must agree bit for bit.
func (m *maker) integers(d program.DType, n int, shape ...int) *tensor {
	return newTensor(d, shape...).fill(func() float64 { return float64(m.r.IntN(2*n+1) - n) })
}

// draw is integers when whole, else normal.
func (m *maker) draw(whole bool, d program.DType, scale float64, shape ...int) *tensor {
	if whole {
		return m.integers(d, 2, shape...)
	}
	return m.normalOf(d, scale, shape...)
}

// sums expects sums of products: bit for bit when the operands are whole.
func sums(whole bool, d program.DType, want, err []float64, shape ...int) expect {
	if whole {
		return exactly(d, rounded(d, want), shape...)
	}
	return within(d, want, err, shape...)
}

// sizes are numbers of elements of elementwise operations: around vector lengths, chunks and tasks of several chunks.
func (m *maker) sizes() []int {
	if m.few {
		return []int{1, 7, 33, 257}
	}
	return []int{1, 7, 13, 33, 257, 4099, 40007}
}
