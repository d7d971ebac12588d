package kernel

import "halfstep/model/op/ref"

// Activate is ref.Activate in float32. Against the exact values the assembly is off by up to 3 units in the last place for
// sigmoid and tanh and 12 for gelu; for gelu's tanh form by 4 and 2.5 more for each unit of |1.6·(x + 0.0447·x³)|, which is in
// its tail below zero. An element's result does not depend on its place.
func (v *Vec) Activate(kind ref.Activation, y, x []float32) {
	x = x[:len(y)]
	if kind == ref.ReLU {
		v.Float32.ReLU(y, x)
		return
	}
	if v.Level == Portable {
		ref.Activate(kind, y, x)
		return
	}
	v.activate(kind, y, x)
}

// Softmax is ref.Softmax in float32, for whole rows of C elements: exp and sum are rounded at each step.
func (v *Vec) Softmax(y, x []float32, C int) {
	if v.Level == Portable {
		ref.Softmax(y, x, C)
		return
	}
	for i := 0; i < len(x); i += C {
		row := x[i:][:C]
		top := row[0]
		for _, a := range row {
			top = max(top, a)
		}
		for j, a := range row {
			y[i+j] = a - top
		}
	}
	v.exp(y[:len(x)], y[:len(x)])
	for i := 0; i < len(x); i += C {
		row := y[i:][:C]
		var sum float32
		for _, a := range row {
			sum += a
		}
		for j := range row {
			row[j] /= sum
		}
	}
}

// ActivateGrad is ref.ActivateGrad in float32: bit for bit for relu, sigmoid and tanh, within 4·2⁻²³ of |dy| for gelu.
func (v *Vec) ActivateGrad(kind ref.Activation, dx, saved, dy []float32) {
	saved, dy = saved[:len(dx)], dy[:len(dx)]
	if kind == ref.ReLU {
		v.Float32.ReLUGrad(dx, saved, dy)
		return
	}
	if v.Level == Portable {
		ref.ActivateGrad(kind, dx, saved, dy)
		return
	}
	v.activateGrad(kind, dx, saved, dy)
}
