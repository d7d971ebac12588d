package conformance

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"halfstep/program"
)

// TestDerivatives checks the suite's own definitions: those of gradients, in float64, against numerical derivatives of the
// definitions of what they are gradients of.
func TestDerivatives(t *testing.T) {
	for _, op := range program.Ops() {
		kind := reflect.TypeOf(op)
		for _, c := range generate(generators()[kind], program.Float64, rules(), true) {
			if c.numeric == nil {
				continue
			}
			var grads [][]float64
			for k := range c.numeric.wrt {
				grads = append(grads, c.out[k].want)
			}
			if err := c.numeric.check(rand.New(rand.NewPCG(2, 3)), grads); err != nil {
				t.Errorf("%s: %s: %v", kind.Name(), c.name, err)
			}
		}
	}
}

// rules are all fusions.
func rules() []program.Rule {
	return []program.Rule{
		program.FuseConvReLU, program.FuseConvReLUPool, program.FuseConvBackward, program.FuseLinearReLU, program.FuseLinearGrads,
	}
}

// TestChecksRefuse takes the operands of every case, which Check accepts, and gives one at a time another dtype, or one more
// dimension: Check must refuse them. The suite has valid operands of every operation.
func TestChecksRefuse(t *testing.T) {
	for _, op := range program.Ops() {
		kind := reflect.TypeOf(op)
		t.Run(kind.Name(), func(t *testing.T) {
			for _, d := range (Options{}).dtypes() {
				for _, c := range generate(generators()[kind], d, rules(), true) {
					refuses(t, c)
				}
			}
		})
	}
}

// refuses damages the operands of one case.
func refuses(t *testing.T, c testCase) {
	t.Helper()
	p := &program.Program{}
	var all [3][]*program.Value
	for _, x := range c.in {
		all[0] = append(all[0], p.NewValue("in", program.RoleActivation, x.dtype, x.shape...))
	}
	for _, x := range c.out {
		all[1] = append(all[1], p.NewValue("out", program.RoleActivation, x.like.dtype, x.like.shape...))
	}
	for _, x := range c.inout {
		all[2] = append(all[2], p.NewValue("inout", program.RoleActivation, x.before.dtype, x.before.shape...))
	}
	accepted := func() bool { return c.op.Check(all[0], all[1], all[2]) == nil }
	switch c.op.(type) {
	case program.Zero:
		return // any value
	case program.Reshape:
		all[1][0].Alias = all[0][0]
	}
	if !accepted() {
		t.Fatalf("%s: Check refuses the case's operands: %v", c.name, c.op.Check(all[0], all[1], all[2]))
	}
	_, any := c.op.(program.GradStats) // takes gradients of any shape and number
	for _, v := range slices.Concat(all[0], all[1], all[2]) {
		was := v.DType
		if v.SetDType(program.Float64); was == program.Float64 {
			v.SetDType(program.Float32)
		}
		if accepted() {
			t.Errorf("%s: Check accepts %s instead of %s%v", c.name, v, was, v.Shape)
		}
		v.SetDType(was)
		shape := v.Shape
		v.Shape = append(slices.Clone(shape), 2)
		if accepted() && !any {
			t.Errorf("%s: Check accepts %s instead of %v", c.name, v, shape)
		}
		v.Shape = shape
	}
	refusesOtherFloat(t, c, all)
	if n := len(all[0]); n > 0 {
		all[0] = append(all[0], all[0][n-1])
		if accepted() && !any {
			t.Errorf("%s: Check accepts one more input", c.name)
		}
	}
}

// refusesOtherFloat changes the first operand or the first result of the operations that have one dtype throughout.
func refusesOtherFloat(t *testing.T, c testCase, all [3][]*program.Value) {
	t.Helper()
	switch c.op.(type) {
	case program.Conv2D, program.Conv2DGradX, program.Conv2DGradW, program.Conv2DBackward, program.Activation, program.ActivationGrad,
		program.Add, program.MaxPool2D, program.AvgPool2D, program.AvgPool2DGrad, program.Dropout, program.ApplyMask, program.BatchNorm:
	default:
		return
	}
	for _, v := range []*program.Value{all[0][0], all[1][0]} {
		was := v.DType
		if v.SetDType(program.Float32); was == program.Float32 {
			v.SetDType(program.Float16)
		}
		if c.op.Check(all[0], all[1], all[2]) == nil {
			t.Errorf("%s: Check accepts %s instead of %s", c.name, v, was)
		}
		v.SetDType(was)
	}
}
