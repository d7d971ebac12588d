package program_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"halfstep/golden"
	"halfstep/program"
)

var nan32 = float32(math.NaN())

// hyperParameters are the arguments of any torch.optim class.
type hyperParameters struct {
	LR          float32    `json:"lr"`
	Momentum    float64    `json:"momentum"`
	Dampening   float64    `json:"dampening"`
	WeightDecay float64    `json:"weight_decay"`
	Nesterov    bool       `json:"nesterov"`
	Betas       [2]float64 `json:"betas"`
	Eps         float64    `json:"eps"`
	AMSGrad     bool       `json:"amsgrad"`
	Rho         float64    `json:"rho"`
	Alpha       float64    `json:"alpha"`
	Centered    bool       `json:"centered"`
	LRDecay     float64    `json:"lr_decay"`
}

func (h hyperParameters) step(optimizer string) (program.OptimizerStep, error) {
	switch optimizer {
	case "SGD":
		return program.SGDStep{Momentum: h.Momentum, Dampening: h.Dampening, WeightDecay: h.WeightDecay, Nesterov: h.Nesterov}, nil
	case "Adam", "AdamW":
		return program.AdamStep{
			Beta1: h.Betas[0], Beta2: h.Betas[1], Eps: h.Eps, WeightDecay: h.WeightDecay,
			AMSGrad: h.AMSGrad, Decoupled: optimizer == "AdamW",
		}, nil
	case "Adadelta":
		return program.AdadeltaStep{Rho: h.Rho, Eps: h.Eps, WeightDecay: h.WeightDecay}, nil
	case "RMSprop":
		return program.RMSPropStep{Alpha: h.Alpha, Eps: h.Eps, WeightDecay: h.WeightDecay, Momentum: h.Momentum, Centered: h.Centered}, nil
	case "Adagrad":
		return program.AdagradStep{LRDecay: h.LRDecay, Eps: h.Eps, WeightDecay: h.WeightDecay}, nil
	}
	return nil, fmt.Errorf("unknown optimizer %q", optimizer)
}

// PyTorch's parameters after 1, 2, 3, 10 and 30 steps and states after 30. The tolerances are the files' own: 4 times the
// difference between PyTorch's float32 and float64 runs.
func TestOptimizersAgainstPyTorch(t *testing.T) {
	for _, name := range []string{"sgd", "adam", "adamw", "adadelta", "rmsprop", "adagrad"} {
		var file struct {
			Optimizer string          `json:"optimizer"`
			Initial   golden.Tensor   `json:"initial_parameter"`
			Gradients []golden.Tensor `json:"gradients"`
			Zeroed    []int           `json:"gradient_elements_set_to_zero"`
			Cases     []struct {
				Name       string               `json:"name"`
				Hyper      hyperParameters      `json:"hyper_parameters"`
				Parameters map[string][]float32 `json:"parameter_after_step"`
				States     map[string][]float32 `json:"state_after_step_30"`
				Tolerance  struct {
					Parameter float64            `json:"parameter"`
					States    map[string]float64 `json:"state"`
				} `json:"suggested_absolute_tolerance"`
			} `json:"cases"`
		}
		if err := golden.Load("testdata/optim_"+name+".json", &file); err != nil {
			t.Fatal(err)
		}
		for _, c := range file.Cases {
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				step, err := c.Hyper.step(file.Optimizer)
				if err != nil {
					t.Fatal(err)
				}
				p, state := file.Initial.Float32s(), zeroStates(step, file.Initial.Elems())
				seen, worst := 0, 0.0
				for k, gradient := range file.Gradients {
					g := gradient.Float32s()
					for _, i := range file.Zeroed {
						g[i] = 0
					}
					step.Step(p, g, state, program.StepScalars{LR: c.Hyper.LR, Momentum: nan32, T: int32(k + 1)})
					want, ok := c.Parameters[strconv.Itoa(k+1)]
					if !ok {
						continue
					}
					seen++
					d, at := golden.MaxAbsDiff(p, want)
					if worst = max(worst, d); d > c.Tolerance.Parameter {
						t.Errorf("step %d element %d: %v, want %v within %g", k+1, at, p[at], want[at], c.Tolerance.Parameter)
					}
				}
				t.Logf("parameter: largest difference %.2g, tolerance %.2g", worst, c.Tolerance.Parameter)
				if seen == 0 || seen != len(c.Parameters) {
					t.Errorf("compared %d steps of %d", seen, len(c.Parameters))
				}
				if len(c.States) != len(step.States()) {
					t.Errorf("states %v, want %d", step.States(), len(c.States))
				}
				for i, s := range step.States() {
					d, at := golden.MaxAbsDiff(state[i], c.States[s])
					t.Logf("%s: largest difference %.2g, tolerance %.2g", s, d, c.Tolerance.States[s])
					if d > c.Tolerance.States[s] {
						t.Errorf("%s element %d differs by %g, tolerance %g", s, at, d, c.Tolerance.States[s])
					}
				}
			})
		}
	}
}

func zeroStates(step program.OptimizerStep, n int) [][]float32 {
	state := make([][]float32, len(step.States()))
	for i := range state {
		state[i] = make([]float32, n)
	}
	return state
}

// A scheduled momentum takes the place of momentum or beta1, in every formula that uses it.
func TestScheduledMomentum(t *testing.T) {
	for _, c := range []struct{ scheduled, own program.OptimizerStep }{
		{program.SGDStep{Momentum: 0.9}, program.SGDStep{Momentum: 0.75}},
		{program.SGDStep{Momentum: 0.9, Nesterov: true}, program.SGDStep{Momentum: 0.75, Nesterov: true}},
		{program.AdamStep{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}, program.AdamStep{Beta1: 0.75, Beta2: 0.99, Eps: 1e-8}},
		{program.RMSPropStep{Alpha: 0.9, Momentum: 0.9, Eps: 1e-8}, program.RMSPropStep{Alpha: 0.9, Momentum: 0.75, Eps: 1e-8}},
	} {
		var p [2][]float32
		for k, v := range []struct {
			step     program.OptimizerStep
			momentum float32
		}{{c.scheduled, 0.75}, {c.own, nan32}} {
			p[k] = []float32{1, -2}
			state := zeroStates(v.step, 2)
			for i, g := range [][]float32{{0.5, 0.25}, {-1, 2}, {3, 1}} {
				v.step.Step(p[k], g, state, program.StepScalars{LR: 0.1, Momentum: v.momentum, T: int32(i + 1)})
			}
		}
		if !slices.Equal(p[0], p[1]) {
			t.Errorf("%T scheduled: %v, own: %v", c.own, p[0], p[1])
		}
	}
}

// With a steady gradient the variance square_avg - grad_avg² is zero and rounds to either side of it.
func TestCenteredRMSPropSteadyGradient(t *testing.T) {
	step := program.RMSPropStep{Alpha: 0.9, Eps: 1e-8, Centered: true}
	g := make([]float32, 64)
	for i := range g {
		g[i] = 0.1 + float32(i)*0.013
	}
	p, state := make([]float32, len(g)), zeroStates(step, len(g))
	negative := false
	for i := range 500 {
		step.Step(p, g, state, program.StepScalars{LR: 1e-12, Momentum: nan32, T: int32(i + 1)})
		for k := range p {
			negative = negative || state[0][k]-float32(state[1][k]*state[1][k]) < 0
		}
	}
	if !negative {
		t.Fatal("the case does not occur: choose other gradients")
	}
	for i, v := range p {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			t.Fatalf("gradient %v: parameter is %v", g[i], v)
		}
	}
}

func TestOptimizerStepCheck(t *testing.T) {
	value := func(d program.DType, shape ...int) *program.Value {
		return &program.Value{Name: "v", DType: d, Shape: shape}
	}
	f32 := func() *program.Value { return value(program.Float32, 4, 3) }
	step := program.AdamStep{Beta1: 0.9, Beta2: 0.999}
	for _, c := range []struct {
		name   string
		change func(in, inout *[]*program.Value)
		want   string
	}{
		{"good", func(_, _ *[]*program.Value) {}, ""},
		{"half gradient and copy", func(in, inout *[]*program.Value) {
			(*in)[0] = value(program.Float16, 4, 3)
			*inout = append(*inout, value(program.Float16, 4, 3))
		}, ""},
		{"no states", func(_, inout *[]*program.Value) { *inout = (*inout)[:1] }, "in-out operands"},
		{"gradient's shape", func(in, _ *[]*program.Value) { (*in)[0] = value(program.Float32, 3, 4) }, "shape"},
		{"integer gradient", func(in, _ *[]*program.Value) { (*in)[0] = value(program.Int32, 4, 3) }, "int32"},
		{"control", func(in, _ *[]*program.Value) { (*in)[1] = value(program.Float32, 1) }, "shape"},
		{"counters", func(in, _ *[]*program.Value) { (*in)[2] = value(program.Float32, program.NumCounters) }, "float32"},
		{"half parameter", func(_, inout *[]*program.Value) { (*inout)[0] = value(program.Float16, 4, 3) }, "float16"},
		{"half state", func(_, inout *[]*program.Value) { (*inout)[2] = value(program.BFloat16, 4, 3) }, "bfloat16"},
		{"float32 copy", func(_, inout *[]*program.Value) { *inout = append(*inout, f32()) }, "float32"},
		{"copy's shape", func(_, inout *[]*program.Value) { *inout = append(*inout, value(program.Float16, 12)) }, "shape"},
	} {
		in := []*program.Value{f32(), value(program.Float32, program.NumControls), value(program.Int32, program.NumCounters)}
		inout := []*program.Value{f32(), f32(), f32()}
		c.change(&in, &inout)
		switch err := step.Check(in, nil, inout); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "adam_step: ")):
			t.Errorf("%s: error %v, want one of adam_step about %q", c.name, err, c.want)
		}
	}
}
