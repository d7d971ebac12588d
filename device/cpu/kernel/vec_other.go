//go:build !amd64

package kernel

import (
	"math"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// Only the portable level exists here.

func (v *Vec) accelerate() {}

func (v *Vec) activate(kind ref.Activation, y, x []float32) { ref.Activate(kind, y, x) }

func (v *Vec) activateGrad(kind ref.Activation, dx, saved, dy []float32) {
	ref.ActivateGrad(kind, dx, saved, dy)
}

func (v *Vec) exp(y, x []float32) {
	for i, a := range x {
		y[i] = float32(math.Exp(float64(a)))
	}
}

func (o *Optimizer) accelerated(*Block, program.StepScalars) int { return 0 }
