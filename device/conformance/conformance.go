// Package conformance is the one suite that every device, at every instruction-set level, passes. Run walks
// program.Ops, so that a device cannot forget an operation, and compares each with its definition: the loops of package ref
// in float64 on operands rounded to their dtype, StepControl.Decide, RingRow.Fill, the optimizers' Step. Then it runs whole
// training steps of small random networks, fused and unfused.
//
// Tolerances follow from the dtype in which sums accumulate and from the rounding of the result (tolerance.go). Where sums
// are exact, because operands are small whole numbers, and for masks, argmax bytes, casts, counters and optimizers, results
// must agree bit for bit.
package conformance

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"halfstep/device"
	"halfstep/program"
)

// Options adapt the suite to a device.
type Options struct {
	// DTypes are those that the device computes in; nil: float32, float16 and bfloat16.
	DTypes []program.DType
	// Reference opens a device that whole training steps are also compared with, as the CPU's portable level; nil: none.
	Reference func(testing.TB) device.Device
	// Slow says that the device is a simulator: fewer and smaller shapes and networks.
	Slow bool
}

func (o Options) dtypes() []program.DType {
	if o.DTypes != nil {
		return o.DTypes
	}
	return []program.DType{program.Float32, program.Float16, program.BFloat16}
}

// Run is the suite. open opens the device and closes it when its test ends.
func Run(t *testing.T, open func(testing.TB) device.Device, o Options) {
	dev := open(t)
	t.Run("contract", func(t *testing.T) { contract(t, dev) })
	t.Run("ops", func(t *testing.T) { operations(t, dev, o) })
	t.Run("fusion", func(t *testing.T) { fusion(t, dev, o) })
}

// operations runs all cases of each operation.
func operations(t *testing.T, dev device.Device, o Options) {
	for _, op := range program.Ops() {
		kind := reflect.TypeOf(op)
		t.Run(kind.Name(), func(t *testing.T) {
			if generators()[kind] == nil {
				t.Fatal("the suite has no case of this operation: add one to generators")
			}
			for _, d := range o.dtypes() {
				t.Run(d.String(), func(t *testing.T) { runCases(t, dev, kind, d, o.Slow) })
			}
		})
	}
}

// generate makes the cases of one operation in one dtype, always the same.
func generate(g generator, d program.DType, fusions []program.Rule, few bool) []testCase {
	m := &maker{d: d, r: rand.New(rand.NewPCG(1, uint64(d))), has: map[program.Rule]bool{}, few: few}
	for _, r := range fusions {
		m.has[r] = true
	}
	return g(m)
}

func runCases(t *testing.T, dev device.Device, kind reflect.Type, d program.DType, few bool) {
	var all worst
	cases := generate(generators()[kind], d, dev.Fusions(), few)
	for _, c := range cases {
		w, err := judge(dev, c)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		all.merge(w)
	}
	t.Logf("%s %s: %d cases, largest error %.3g, largest share of a tolerance %.3f", kind.Name(), d, len(cases), all.err, all.share)
}

// subset draws some of the rules.
func subset(r *rand.Rand, all []program.Rule) []program.Rule {
	return slices.DeleteFunc(slices.Clone(all), func(program.Rule) bool { return r.IntN(2) == 0 })
}
