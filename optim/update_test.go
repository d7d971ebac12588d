package optim

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"halfstep/configs"
	"halfstep/program"
)

// twoParams is a program with two parameters and gradients, and its update phase.
func twoParams(t interface{ Fatal(...any) }, step program.OptimizerStep, u Update) (p *program.Program, control, flags *program.Value) {
	p = &program.Program{Name: "train"}
	for _, v := range []struct {
		layer, name string
		shape       []int
		half        bool
	}{{"linear2", "weight", []int{3, 2}, true}, {"linear2", "bias", []int{2}, false}} {
		param := p.NewPersistent(v.layer+"/"+v.name, program.RoleParam, program.Float32, v.shape...)
		g := program.ParamGrad{Param: param, Layer: v.layer, Grad: p.NewValue(param.Name+"/grad", program.RoleGrad, program.Float32, v.shape...)}
		if v.half {
			g.HalfCopy = p.NewPersistent(param.Name+"/float16", program.RoleHalfCopy, program.Float16, v.shape...)
			g.Grad.SetDType(program.Float16)
		}
		u.Grads = append(u.Grads, g)
	}
	control, flags, err := Append(p, step, u)
	if err != nil {
		t.Fatal(err)
	}
	return p, control, flags
}

func names(vs []*program.Value) string {
	s := make([]string, len(vs))
	for i, v := range vs {
		s[i] = v.Name
	}
	return strings.Join(s, " ")
}

func TestAppend(t *testing.T) {
	u := Update{Scaler: program.GradScaler{Enabled: true, GrowthFactor: 2}, ClipNorm: 1.5, RatesLen: 7}
	p, control, flags := twoParams(t, program.AdamStep{Beta1: 0.9, Beta2: 0.99}, u)
	for i, want := range []struct{ layer, op, in, out, inout string }{
		{"", "grad_stats", "scaler/scale linear2/weight/grad linear2/bias/grad", "step/flags step/squares", ""},
		{"", "step_control", "step/flags step/squares schedule/rates", "step/control", "scaler/scale step/counters"},
		{
			"linear2", "adam_step", "linear2/weight/grad step/control step/counters", "",
			"linear2/weight linear2/weight/exp_avg linear2/weight/exp_avg_sq linear2/weight/float16",
		},
		{
			"linear2", "adam_step", "linear2/bias/grad step/control step/counters", "",
			"linear2/bias linear2/bias/exp_avg linear2/bias/exp_avg_sq",
		},
	} {
		in := p.Instrs[i]
		if err := in.Op.Check(in.In, in.Out, in.InOut); err != nil {
			t.Errorf("instruction %d: %v", i, err)
		}
		if in.Phase != program.Update || in.Layer != want.layer || in.Op.Name() != want.op ||
			names(in.In) != want.in || names(in.Out) != want.out || names(in.InOut) != want.inout {
			t.Errorf("instruction %d: %s %q in (%s) out (%s) inout (%s), want %+v",
				i, in.Op.Name(), in.Layer, names(in.In), names(in.Out), names(in.InOut), want)
		}
	}
	if len(p.Instrs) != 4 {
		t.Errorf("%d instructions, want 4", len(p.Instrs))
	}
	if c, ok := p.Instrs[1].Op.(program.StepControl); !ok || c.Scaler != u.Scaler || c.ClipNorm != 1.5 {
		t.Errorf("step control is %+v", p.Instrs[1].Op)
	}
	if control.Name != program.ControlName || flags.Name != "step/flags" || !slices.Equal(flags.Shape, []int{2}) {
		t.Errorf("returned %v and %v", control, flags)
	}
	for name, role := range map[string]program.Role{
		ScaleName: program.RoleState, RatesName: program.RoleData, program.CountersName: program.RoleState,
		"linear2/bias/exp_avg": program.RoleState, program.ControlName: program.RoleWorkspace,
	} {
		v := p.Lookup(name)
		if v == nil || v.Role != role || v.Persistent != (role != program.RoleWorkspace) {
			t.Errorf("%s: %+v, want %s", name, v, role)
		}
	}
}

// The scale and counters of the forward pass are used where they are given.
func TestAppendGivenValues(t *testing.T) {
	given := &program.Program{}
	u := Update{
		RatesLen:  1,
		LossScale: given.NewPersistent("other/scale", program.RoleState, program.Float32),
		Counters:  given.NewPersistent("other/counters", program.RoleState, program.Int32, program.NumCounters),
	}
	p, _, _ := twoParams(t, program.SGDStep{}, u)
	if got := names(p.Instrs[1].InOut); got != "other/scale other/counters" {
		t.Errorf("step control moves %s", got)
	}
	if p.Lookup(ScaleName) != nil || p.Lookup(program.CountersName) != nil {
		t.Error("values are made twice")
	}
}

// Sums of micro-batches carry no loss scale: GradStats divides by one, and the optimizer's gradient is the sum itself.
func TestAppendUnscaled(t *testing.T) {
	p, control, _ := twoParams(t, program.SGDStep{}, Update{Scaler: program.GradScaler{Enabled: true}, RatesLen: 1, Unscaled: true})
	m := machine{}
	m.at(p.Lookup(ScaleName))[0] = 1024
	m.at(p.Lookup("linear2/bias/grad"))[1] = 3
	m.run(p)
	if got := m.at(control); got[program.ControlGradScale] != 1 || got[program.ControlGradNorm] != 3 || got[program.ControlLossScale] != 1024 {
		t.Errorf("control is %v, want gradient scale 1, norm 3, loss scale 1024", got)
	}
}

func TestAppendNothing(t *testing.T) {
	if _, _, err := Append(&program.Program{}, program.SGDStep{}, Update{RatesLen: 1}); err == nil {
		t.Error("no parameters: no error")
	}
}

// machine runs update phases by the ops' documentation, slowly, on float32 memory (integers are exact).
type machine map[*program.Value][]float32

func (m machine) at(v *program.Value) []float32 {
	if m[v] == nil {
		m[v] = make([]float32, v.Elems())
	}
	return m[v]
}

func (m machine) run(p *program.Program) {
	for _, i := range p.Instrs {
		switch op := i.Op.(type) {
		case program.Constant:
			m.at(i.Out[0])[0] = op.Value
		case program.GradStats:
			m.stats(i)
		case program.StepControl:
			counters := convert[int32](m.at(i.InOut[1]))
			op.Decide(m.at(i.Out[0]), convert[int32](m.at(i.In[0])), convert[float64](m.at(i.In[1])), m.at(i.In[2]), m.at(i.InOut[0]), counters)
			copy(m.at(i.InOut[1]), convert[float32](counters))
		case program.OptimizerStep:
			m.step(op, i)
		}
	}
}

func convert[To, From int32 | float32 | float64](v []From) []To {
	to := make([]To, len(v))
	for i := range v {
		to[i] = To(v[i])
	}
	return to
}

func (m machine) stats(i *program.Instr) {
	inverse := program.InverseScale(m.at(i.In[0])[0])
	for k, g := range i.In[1:] {
		flag, sum := float32(0), float32(0)
		for _, x := range m.at(g) {
			if x-x != 0 {
				flag = 1
			}
			sum += float32(x*inverse) * float32(x*inverse)
		}
		m.at(i.Out[0])[k], m.at(i.Out[1])[k] = flag, sum
	}
}

func (m machine) step(op program.OptimizerStep, i *program.Instr) {
	control, counters := m.at(i.In[1]), m.at(i.In[2])
	if control[program.ControlApply] == 0 {
		return
	}
	g := slices.Clone(m.at(i.In[0]))
	for k := range g {
		g[k] *= control[program.ControlGradScale]
	}
	var state [][]float32
	for _, s := range i.InOut[1 : 1+len(op.States())] {
		state = append(state, m.at(s))
	}
	op.Step(m.at(i.InOut[0]), g, state, program.StepScalars{
		LR: control[program.ControlLR], Momentum: control[program.ControlMomentum], T: int32(counters[program.CounterUpdates]),
	})
}

// A run in which some gradients overflow leaves exactly what a run of its finite gradients alone leaves: t, the schedule
// and the states know nothing of skipped steps. Scales are powers of two, so that unscaling is exact.
func TestSkippedStepsLeaveNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.SampledFrom([]program.OptimizerStep{
			program.SGDStep{Momentum: 0.9, Dampening: 0.5},
			program.AdamStep{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8},
			program.AdagradStep{LRDecay: 0.5, Eps: 1e-8},
		}).Draw(t, "optimizer")
		overflows := rapid.SliceOfN(rapid.Bool(), 1, 12).Draw(t, "overflows")
		c := configs.Optim{LR: 0.1, Schedule: configs.Schedule{Name: "exponential", Gamma: 0.5, Per: "update"}}
		var params [2][]float32
		for k, skipping := range []bool{true, false} {
			p, _, _ := twoParams(t, step, Update{
				Scaler:   program.GradScaler{Enabled: skipping, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 2},
				RatesLen: len(overflows),
			})
			params[k] = runUpdates(t, p, c, overflows, skipping)
		}
		for i := range params[0] {
			if math.Float32bits(params[0][i]) != math.Float32bits(params[1][i]) {
				t.Fatalf("with skipped steps %v, without %v", params[0], params[1])
			}
		}
	})
}

// runUpdates attempts an update for each element of overflows, or only where there is no overflow, and returns parameters
// and states.
func runUpdates(t *rapid.T, p *program.Program, c configs.Optim, overflows []bool, skipping bool) []float32 {
	m := machine{}
	s, err := NewSchedule(c, 1, len(overflows))
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range s.Table(len(overflows)) {
		copy(m.at(p.Lookup(RatesName))[2*i:], row[:])
	}
	scale := m.at(p.Lookup(ScaleName))
	scale[0] = 1
	for n, overflow := range overflows {
		if overflow && !skipping {
			continue
		}
		for k, name := range []string{"linear2/weight/grad", "linear2/bias/grad"} {
			g := m.at(p.Lookup(name))
			for i := range g {
				g[i] = float32(math.Sin(float64(7*n+3*k+i))) * scale[0]
			}
			if overflow && k == n%2 {
				g[0] = []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}[n%3]
			}
		}
		m.run(p)
	}
	var all []float32
	for _, v := range p.Persistent() {
		if strings.HasPrefix(v.Name, "linear2/") && v.DType == program.Float32 {
			all = append(all, m.at(v)...)
		}
	}
	return all
}
