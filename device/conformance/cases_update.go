package conformance

import (
	"fmt"
	"math"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// gradStatsCases have gradients of several sizes, finite and not, one of them large but finite: its square overflows float32.
func gradStatsCases(m *maker) []testCase {
	var cs []testCase
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}
	for k, scale := range []float32{1, 65536, 3} {
		in := []*tensor{scalar(scale)}
		for j, n := range m.sizes() {
			g := m.normal(float64(scale), 1, n)
			switch { // in the last element, which of the largest lies in the last chunk, or in the first
			case j == k || k == 2 && j == len(m.sizes())-1:
				g.put(m.r, bad[k])
			case j == k+2:
				g.put(m.r, 1, bad[k])
			}
			in = append(in, g)
		}
		in = append(in, m.normalOf(program.Float32, 1, 5).put(m.r, 3e38), newTensor(m.d, 9))
		flags, squares := gradStats(in[1:], scale)
		tol := make([]float64, len(squares))
		for j, s := range squares { // sums in float64, in an order that may differ
			tol[j] = float64(len(in[1+j].v)+2) * 0x1p-52 * s
		}
		cs = append(cs, testCase{
			name: fmt.Sprintf("scale %v", scale), op: program.GradStats{}, in: in,
			out: []expect{
				exactly(program.Int32, flags, len(flags)),
				{like: newTensor(program.Float64, len(squares)), want: squares, tol: tol},
			},
		})
	}
	return cs
}

// gradStats is the definition.
func gradStats(grads []*tensor, scale float32) (flags, squares []float64) {
	for _, g := range grads {
		var flag, sum float64
		v := g.float32s()
		for len(v) > 0 {
			n := min(ref.SumChunk, len(v))
			bad, s := ref.GradStats(v[:n], program.InverseScale(scale))
			if bad {
				flag = 1
			}
			sum += s
			v = v[n:]
		}
		flags, squares = append(flags, flag), append(squares, sum)
	}
	return flags, squares
}

// stepControlCase is the state before one decision.
type stepControlCase struct {
	name    string
	op      program.StepControl
	bad     int // index of a bad gradient; -1: none
	scale   float32
	tracker int32
	updates int32 // of this epoch
}

func stepControlCases(m *maker) []testCase {
	scaler := program.GradScaler{Enabled: true, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 4, MinScale: 1, MaxScale: 1 << 24}
	free := scaler
	free.MinScale, free.MaxScale = 0, 0
	var cs []testCase
	for _, s := range []stepControlCase{
		{"no scaling", program.StepControl{}, -1, 1, 0, 0},
		{"no scaling, bad gradient", program.StepControl{}, 2, 1, 0, 1},
		{"finite", program.StepControl{Scaler: scaler}, -1, 65536, 1, 0},
		{"grows", program.StepControl{Scaler: scaler}, -1, 65536, 3, 2},
		{"stays at the largest scale", program.StepControl{Scaler: scaler}, -1, 1 << 24, 3, 2},
		{"stays at the last finite scale", program.StepControl{Scaler: free}, -1, 0x1p127, 3, 2},
		{"backs off", program.StepControl{Scaler: scaler}, 0, 65536, 3, 1},
		{"stays at the smallest scale", program.StepControl{Scaler: scaler}, 3, 1, 0, 1},
		{"backs off below one", program.StepControl{Scaler: free}, 3, 1, 0, 1},
		{"clips", program.StepControl{Scaler: scaler, ClipNorm: 1.5}, -1, 1024, 0, 0},
		{"need not clip", program.StepControl{ClipNorm: 1e6}, -1, 1, 0, 0},
		{"sums of micro-batches", program.StepControl{Scaler: scaler, Unscaled: true, ClipNorm: 0.5}, -1, 4096, 0, 0},
		{"past the table of rates", program.StepControl{}, -1, 1, 0, 99},
	} {
		cs = append(cs, s.make(m))
	}
	return cs
}

func (s stepControlCase) make(m *maker) testCase {
	const grads, rows = 4, 3
	flags, squares := newTensor(program.Int32, grads), newTensor(program.Float64, grads).fill(m.r.Float64)
	if s.bad >= 0 {
		flags.v[s.bad], squares.v[s.bad] = 1, math.Inf(1)
	}
	rates := tensorOf(program.Float32, []float64{0.1, math.NaN(), 0.01, 0.9, 0.001, 0.8}, rows, 2)
	scale, counters := scalar(s.scale), newTensor(program.Int32, program.NumCounters)
	for i := range counters.v {
		counters.v[i] = float64(10 + i)
	}
	counters.v[program.CounterGrowthTracker], counters.v[program.CounterEpochUpdates] = float64(s.tracker), float64(s.updates)
	control, newScale, newCounters := make([]float32, program.NumControls), scale.float32s(), counters.int32s()
	s.op.Decide(control, flags.int32s(), squares.v, rates.float32s(), newScale, newCounters)
	want := fromFloat32s(control)
	// the norm and the factor made from it may differ by a rounding
	tol := scaled(eps32, magnitude(want))
	for _, k := range []int{program.ControlApply, program.ControlLR, program.ControlMomentum, program.ControlLossScale} {
		tol[k] = 0
	}
	return testCase{
		name: s.name, op: s.op, in: []*tensor{flags, squares, rates},
		out: []expect{{like: newTensor(program.Float32, program.NumControls), want: want, tol: tol}},
		inout: []change{
			{before: scale, want: fromFloat32s(newScale)},
			{before: counters, want: fromInts(newCounters)},
		},
	}
}

func accumulateCases(m *maker) []testCase {
	var cs []testCase
	for _, n := range m.sizes() {
		g, acc := m.normal(64, 1, n), m.normalOf(program.Float32, 1, 1, n)
		if n > 30 {
			g.put(m.r, math.NaN(), math.Inf(1)) // overflow must not disappear in the sum
		}
		inv := program.InverseScale(48)
		want, tol := make([]float64, n), make([]float64, n)
		for i := range want {
			want[i] = float64(float32(acc.v[i]) + float32(float32(g.v[i])*inv))
			tol[i] = eps32 * (math.Abs(acc.v[i]) + math.Abs(g.v[i])) // the multiply-add may be contracted
		}
		cs = append(cs, testCase{
			name: fmt.Sprint(n), op: program.Accumulate{}, in: []*tensor{g, scalar(48)}, inout: []change{{before: acc, want: want, tol: tol}},
		})
	}
	return cs
}

func scaleCases(*maker) []testCase {
	return []testCase{{
		op: program.Scale{}, in: []*tensor{scalar(65536), scalar(0.3)},
		out: []expect{exactly(program.Float32, []float64{float64(float32(65536) * float32(0.3))})},
	}}
}

func zeroCases(m *maker) []testCase {
	var cs []testCase
	for _, d := range []program.DType{m.d, program.Float32, program.Int32, program.Uint8} {
		for _, n := range m.sizes() {
			x := newTensor(d, n).fill(func() float64 { return float64(1 + m.r.IntN(9)) })
			cs = append(cs, testCase{name: fmt.Sprintf("%s %d", d, n), op: program.Zero{}, inout: []change{{before: x, want: make([]float64, n)}}})
		}
	}
	return cs
}

func advanceCases(m *maker) []testCase {
	var cs []testCase
	for _, op := range []program.Advance{{Samples: 512}, {Samples: 13, Attempt: true}} {
		before := m.integers(program.Int32, 100, program.NumCounters)
		want := append([]float64(nil), before.v...)
		want[program.CounterPosition] += float64(op.Samples)
		if op.Attempt {
			want[program.CounterAttempts]++
		}
		cs = append(cs, testCase{name: fmt.Sprintf("%+v", op), op: op, inout: []change{{before: before, want: want}}})
	}
	return cs
}

func addScalarCases(*maker) []testCase {
	count := func(v float64) *tensor { return tensorOf(program.Int32, []float64{v}) }
	sum := float64(float32(1.1) + float32(0.3))
	weighted := float64(float32(1.1) + float32(float32(0.3)*float32(0.7)))
	return []testCase{
		{name: "count", op: program.AddScalar{}, in: []*tensor{count(41)}, inout: []change{{before: count(1), want: []float64{42}}}},
		{name: "loss", op: program.AddScalar{}, in: []*tensor{scalar(0.3)}, inout: []change{{before: scalar(1.1), want: []float64{sum}}}},
		{
			name: "weighted loss", op: program.AddScalar{Weighted: true}, in: []*tensor{scalar(0.3), scalar(0.7)},
			inout: []change{{before: scalar(1.1), want: []float64{weighted}, tol: []float64{2 * eps32}}},
		}, // a contracted multiply-add
	}
}

func ringRowCases(m *maker) []testCase {
	var cs []testCase
	const ringRows = 5
	for k, op := range []program.RingRow{{Samples: 64}, {Samples: 3, HasCorrect: true}, {Samples: 512, HasControl: true}, {Samples: 10, HasCorrect: true, HasControl: true}} {
		for _, attempts := range []float64{1, 5, 12} { // the first row, the last, after wrapping around
			ring, counters := m.normalOf(program.Float32, 1, ringRows, program.NumRing), newTensor(program.Int32, program.NumCounters)
			counters.v[program.CounterAttempts] = attempts
			in := []*tensor{counters, scalar(2.5)}
			var correct, flags []int32
			var ctl []float32
			if op.HasCorrect {
				in = append(in, tensorOf(program.Int32, []float64{7}))
				correct = []int32{7}
			}
			if op.HasControl {
				c, f := control(float32(k%2), 0.5, 0.01, 0), ints(0, int32(1-k%2), 0, 1)
				in = append(in, c, f)
				ctl, flags = c.float32s(), f.int32s()
			}
			want := ring.float32s()
			op.Fill(want, counters.int32s(), 2.5, correct, ctl, flags)
			cs = append(cs, testCase{
				name: fmt.Sprintf("%+v attempt %v", op, attempts), op: op, in: in, inout: []change{{before: ring, want: fromFloat32s(want)}},
			})
		}
	}
	return cs
}
