package conformance

import (
	"fmt"
	"math"
	"slices"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// smoothings are label smoothings.
func smoothings() []float32 { return []float32{0, 0.1} }

// labels draws class numbers.
func (m *maker) labels(rows, c int) *tensor {
	return newTensor(program.Int32, rows).fill(func() float64 { return float64(m.r.IntN(c)) })
}

// crossEntropy is the mean loss in float64, and the size of what is added up: the error of a row in float32 is eps32 times
// its largest |x-max| + log(sum) + C.
func crossEntropy(x []float64, labels []int32, c int, s float32) (loss, size float64) {
	each := make([]float64, len(labels))
	ref.CrossEntropy(each, x, labels, c, s)
	for i, l := range each {
		loss += l
		row := x[i*c:][:c]
		size += l + slices.Max(row) - slices.Min(row) + float64(c)
	}
	rows := float64(len(labels))
	return loss / rows, size / rows
}

// logits draws rows, some of them extreme.
func (m *maker) logits(rows, c int) *tensor {
	x := m.normal(2, rows, c)
	if rows*c > 20 {
		x.put(m.r, 300, -300)
	}
	return x
}

func crossEntropyCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.rowShapes() {
		for _, smooth := range smoothings() {
			x, labels := m.logits(s[0], s[1]), m.labels(s[0], s[1])
			if s[0] == 7 { // the loss must be NaN
				x.badRows(s[1])
			}
			loss, size := crossEntropy(x.v, labels.int32s(), s[1], smooth)
			cs = append(cs, testCase{
				name: fmt.Sprintf("%v smoothing %v", s, smooth), op: program.CrossEntropy{Smoothing: smooth}, in: []*tensor{x, labels},
				out: []expect{within(program.Float32, []float64{loss}, []float64{eps32 * float64(s[0]+8) * size})},
			})
		}
	}
	return cs
}

// crossEntropyGradCases scale as a loss scale does.
func crossEntropyGradCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.rowShapes() {
		for _, smooth := range smoothings() {
			rows, c := s[0], s[1]
			x, labels, dloss := m.logits(rows, c), m.labels(rows, c), float64(1024)
			if rows == 7 && m.d != program.Float64 {
				x.badRows(c)
			}
			dx, err := make([]float64, len(x.v)), make([]float64, len(x.v))
			ref.CrossEntropyGrad(dx, x.v, labels.int32s(), dloss, rows, c, smooth)
			p, top := softmax(x.v, c), rowMaxima(x.v, c)
			for i := range dx { // as Softmax's, and the difference to a target of at most 1
				err[i] = dloss / float64(rows) * eps32 * ((math.Abs(x.v[i]-top[i/c])+float64(c)+8)*p[i] + 4)
			}
			cs = append(cs, testCase{
				name: fmt.Sprintf("%v smoothing %v", s, smooth), op: program.CrossEntropyGrad{Smoothing: smooth},
				in: []*tensor{x, labels, scalar(float32(dloss))}, out: []expect{within(m.d, dx, err, rows, c)},
				numeric: &derivative{
					f: func(a [][]float64) []float64 {
						l, _ := crossEntropy(a[0], labels.int32s(), c, smooth)
						return []float64{l}
					},
					args: [][]float64{x.v}, dy: []float64{dloss}, wrt: []int{0},
				},
			})
		}
	}
	return cs
}

// pointLoss is one pointwise loss over y and t [rows,c].
type pointLoss struct {
	loss      ref.PointLoss
	reduction ref.Reduction
	rows, c   int
}

func (l pointLoss) String() string {
	return fmt.Sprintf("%v %v %dx%d", l.loss, l.reduction, l.rows, l.c)
}

func (l pointLoss) divisor() float64 { return float64(l.reduction.Divisor(l.rows*l.c, l.rows)) }

func (l pointLoss) value(y, t []float64) float64 {
	return ref.PointwiseLossSum(l.loss, y, t) / l.divisor()
}

// size is the sum of the magnitudes that the loss's terms are made of.
func (l pointLoss) size(y, t []float64) float64 {
	sum := 0.0
	for i, v := range y {
		if l.loss == ref.MSE {
			sum += (v - t[i]) * (v - t[i])
		} else {
			sum += math.Abs(v) + math.Abs(v*t[i]) + 1
		}
	}
	return sum / l.divisor()
}

func (m *maker) pointLosses() []pointLoss {
	var ls []pointLoss
	for _, loss := range []ref.PointLoss{ref.MSE, ref.BCEWithLogits} {
		for k, s := range m.rowShapes() {
			ls = append(ls, pointLoss{loss, []ref.Reduction{ref.Mean, ref.Sum, ref.BatchMean}[k%3], s[0], s[1]})
		}
	}
	return ls
}

// targets are float32, or of y's dtype in every other case.
func (l pointLoss) targets(m *maker, k int) *tensor {
	d := m.acc()
	if k%2 == 1 {
		d = m.d
	}
	return newTensor(d, l.rows, l.c).fill(m.r.Float64)
}

func pointwiseLossCases(m *maker) []testCase {
	var cs []testCase
	for k, l := range m.pointLosses() {
		y, t := m.normal(3, l.rows, l.c), l.targets(m, k)
		if l.rows == 7 { // the loss must be NaN
			y.put(m.r, math.NaN())
		}
		cs = append(cs, testCase{
			name: l.String(), op: program.PointwiseLoss{Loss: l.loss, Reduction: l.reduction}, in: []*tensor{y, t},
			out: []expect{within(program.Float32, []float64{l.value(y.v, t.v)}, []float64{functionError * l.size(y.v, t.v)})},
		})
	}
	return append(cs, manyOnes(m)...)
}

// manyOnes is the mean and the sum of 100,000 ones (pytorch#91597): in half precision the sum would stop at 2048 or 256, or
// overflow.
func manyOnes(m *maker) []testCase {
	n := 100_000
	if m.few {
		n = 5000
	}
	one := func() float64 { return 1 }
	var cs []testCase
	for _, e := range []struct {
		r    ref.Reduction
		want float64
	}{{ref.Mean, 1}, {ref.Sum, float64(n)}, {ref.BatchMean, float64(n) / 10}} {
		cs = append(cs, testCase{
			name: fmt.Sprintf("%d ones, %v", n, e.r), op: program.PointwiseLoss{Loss: ref.MSE, Reduction: e.r},
			in:  []*tensor{newTensor(m.d, 10, n/10).fill(one), newTensor(program.Float32, 10, n/10)},
			out: []expect{exactly(program.Float32, []float64{e.want})},
		})
	}
	return cs
}

func pointwiseLossGradCases(m *maker) []testCase {
	var cs []testCase
	for k, l := range m.pointLosses() {
		y, t, dloss := m.normal(3, l.rows, l.c), l.targets(m, k), 256.0
		if l.rows == 7 && m.d != program.Float64 {
			y.put(m.r, math.NaN())
		}
		scale := dloss / l.divisor()
		dy, err := make([]float64, len(y.v)), make([]float64, len(y.v))
		ref.PointwiseLossGrad(l.loss, dy, y.v, t.v, scale)
		for i, g := range dy {
			err[i] = functionError * math.Abs(g)
			if l.loss == ref.BCEWithLogits { // sigmoid minus target cancels
				err[i] = functionError * scale
			}
		}
		cs = append(cs, testCase{
			name: l.String(), op: program.PointwiseLossGrad{Loss: l.loss, Reduction: l.reduction},
			in: []*tensor{y, t, scalar(float32(dloss))}, out: []expect{within(m.d, dy, err, l.rows, l.c)},
			numeric: &derivative{
				f: func(a [][]float64) []float64 { return []float64{l.value(a[0], t.v)} }, args: [][]float64{y.v}, dy: []float64{dloss}, wrt: []int{0},
			},
		})
	}
	return cs
}

func countCorrectCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.rowShapes() {
		x, labels := m.integers(m.d, 1, s[0], s[1]), m.labels(s[0], s[1]) // ties: the first maximum counts
		if len(x.v) > 20 {
			x.put(m.r, math.NaN(), math.NaN(), math.Inf(1), math.Inf(-1))
		}
		want := ref.CountCorrect(x.v, labels.int32s(), s[1])
		cs = append(cs, testCase{
			name: fmt.Sprint(s), op: program.CountCorrect{}, in: []*tensor{x, labels},
			out: []expect{exactly(program.Int32, []float64{float64(want)})},
		})
	}
	return cs
}
