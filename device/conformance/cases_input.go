package conformance

import (
	"fmt"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// at makes counters at a position of an epoch.
func at(epoch, position int) *tensor {
	c := newTensor(program.Int32, program.NumCounters)
	c.v[program.CounterEpoch], c.v[program.CounterPosition] = float64(epoch), float64(position)
	return c
}

// order draws sample numbers below n.
func (m *maker) order(length, n int) *tensor {
	return newTensor(program.Int32, length).fill(func() float64 { return float64(m.r.IntN(n)) })
}

// gatherImagesCases must agree bit for bit: every operation of the normalisation is defined.
func gatherImagesCases(m *maker) []testCase {
	var cs []testCase
	for k, s := range [][]int{{5, 1, 1, 1}, {7, 5, 3, 1}, {20, 28, 28, 1}, {9, 6, 7, 3}} {
		op := program.GatherImages{Mean: 0.1307, Std: 0.3081, Shift: []int{0, 2, 0, 3}[k], Seed: 0xfeedfacecafebeef}
		images := newTensor(program.Uint8, s...).fill(func() float64 { return float64(m.r.IntN(256)) })
		for _, batch := range []int{1, 3, 13} {
			order, counters := m.order(40, s[0]), at(4, 11)
			x := make([]float32, batch*s[1]*s[2]*s[3])
			ref.GatherImages(x, images.uint8s(), order.int32s(), ref.Normalized(op.Mean, op.Std), op.Shift, op.Seed, 4, 11, s[1], s[2], s[3], 0, batch)
			shape := []int{batch, s[1], s[2], s[3]}
			if batch == 3 {
				shape = []int{batch, s[1] * s[2] * s[3]}
			}
			cs = append(cs, testCase{
				name: fmt.Sprintf("%v to %v", s, shape), op: op, in: []*tensor{images, order, counters},
				out: []expect{exactly(m.d, rounded(m.d, fromFloat32s(x)), shape...)},
			})
		}
	}
	return cs
}

// rows picks batch rows of src [N,d...].
func rows(src *tensor, order *tensor, position, batch int) (v []float64, shape []int) {
	elems := len(src.v) / src.shape[0]
	for n := range batch {
		v = append(v, src.v[int(order.v[position+n])*elems:][:elems]...)
	}
	return v, append([]int{batch}, src.shape[1:]...)
}

func gatherRowsCases(m *maker) []testCase {
	var cs []testCase
	for _, batch := range []int{1, 7, 33} {
		for _, src := range []*tensor{
			m.normalOf(program.Float32, 1, 9, 13), m.normalOf(program.Float32, 1, 5, 1), m.normalOf(program.Float32, 1, 6, 3, 5),
			m.integers(program.Int32, 9, 17), m.integers(program.Int32, 9, 8, 3),
		} {
			order := m.order(50, src.shape[0])
			want, shape := rows(src, order, 5, batch)
			d := m.d
			if src.dtype == program.Int32 {
				d = program.Int32
			}
			cs = append(cs, testCase{
				name: fmt.Sprintf("%d of %s%v", batch, src.dtype, src.shape), op: program.GatherRows{}, in: []*tensor{src, order, at(0, 5)},
				out: []expect{exactly(d, rounded(d, want), shape...)},
			})
		}
	}
	return cs
}

func oneHotCases(m *maker) []testCase {
	var cs []testCase
	for _, s := range m.rowShapes() {
		labels := m.labels(s[0], s[1])
		y := make([]float64, s[0]*s[1])
		ref.OneHot(y, labels.int32s(), s[1])
		cs = append(cs, testCase{
			name: fmt.Sprint(s), op: program.OneHot{}, in: []*tensor{labels}, out: []expect{exactly(program.Float32, y, s[0], s[1])},
		})
	}
	return cs
}
