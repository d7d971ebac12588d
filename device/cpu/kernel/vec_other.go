//go:build !amd64

package kernel

import "halfstep/program"

func (v *Vec) accelerate() {}

func (o *Optimizer) accelerated(*Block, program.StepScalars) int { return 0 }
