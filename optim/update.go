package optim

import (
	"errors"

	"halfstep/program"
)

// Names of the values that the update phase shares with the host.
const (
	ScaleName = "scaler/scale"   // Float32 scalar: the loss scale; 1 where there is no scaling
	RatesName = "schedule/rates" // Float32 [M,2]: Schedule.Table of the current epoch
)

// Update describes the update phase of a step.
type Update struct {
	Grads    []program.ParamGrad // in backward order: the order in which the gradients are made
	Scaler   program.GradScaler
	ClipNorm float32 // largest 2-norm over all gradients; 0: no clipping
	RatesLen int     // M: rows of the table of rates, at least the updates of an epoch
	// LossScale is the scale that the gradients carry, ScaleName; nil: it is made.
	LossScale *program.Value
	// Counters is program.CountersName; nil: it is made.
	Counters *program.Value
	// Unscaled says that the gradients carry no loss scale: they are sums of micro-batches.
	Unscaled bool
}

// StateName is the name of one state tensor of a parameter: "conv1/weight/exp_avg".
func StateName(param, state string) string { return param + "/" + state }

// Append appends the update phase to p: GradStats over all gradients, StepControl, one optimizer step for each parameter.
// It makes the persistent values that these need. It returns the control value and the flags, one for each gradient in
// backward order, which RingRow reads. A model without trainable parameters is an error.
func Append(p *program.Program, step program.OptimizerStep, u Update) (control, flags *program.Value, err error) {
	if len(u.Grads) == 0 {
		return nil, nil, errors.New("optim: no trainable parameters: nothing to update")
	}
	scale, counters := u.LossScale, u.Counters
	if scale == nil {
		scale = p.NewPersistent(ScaleName, program.RoleState, program.Float32)
	}
	if counters == nil {
		counters = p.NewPersistent(program.CountersName, program.RoleState, program.Int32, program.NumCounters)
	}
	rates := p.NewPersistent(RatesName, program.RoleData, program.Float32, u.RatesLen, 2)

	n := len(u.Grads)
	flags = p.NewValue("step/flags", program.RoleWorkspace, program.Int32, n)
	squares := p.NewValue("step/squares", program.RoleWorkspace, program.Float64, n)
	control = p.NewValue(program.ControlName, program.RoleWorkspace, program.Float32, program.NumControls)

	carried := scale
	if u.Unscaled {
		carried = p.NewValue("step/one", program.RoleWorkspace, program.Float32)
		p.Emit(program.Update, "", program.Constant{Value: 1}, nil, []*program.Value{carried}, nil)
	}
	stats := []*program.Value{carried}
	for _, g := range u.Grads {
		stats = append(stats, g.Grad)
	}
	p.Emit(program.Update, "", program.GradStats{}, stats, []*program.Value{flags, squares}, nil)
	p.Emit(program.Update, "", program.StepControl{Scaler: u.Scaler, ClipNorm: u.ClipNorm, Unscaled: u.Unscaled},
		[]*program.Value{flags, squares, rates}, []*program.Value{control}, []*program.Value{scale, counters})

	for _, g := range u.Grads {
		inout := []*program.Value{g.Param}
		for _, s := range step.States() {
			inout = append(inout, p.NewPersistent(StateName(g.Param.Name, s), program.RoleState, program.Float32, g.Param.Shape...))
		}
		if g.HalfCopy != nil {
			inout = append(inout, g.HalfCopy)
		}
		p.Emit(program.Update, g.Layer, step, []*program.Value{g.Grad, control, counters}, nil, inout)
	}
	return control, flags, nil
}
