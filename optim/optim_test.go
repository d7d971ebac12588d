package optim

import (
	"strings"
	"testing"

	"halfstep/configs"
	"halfstep/program"
)

func TestNew(t *testing.T) {
	cycle := configs.Schedule{Name: "one_cycle", CycleMomentum: true, MaxMomentum: 0.95}
	for _, c := range []struct {
		config configs.Optim
		want   program.OptimizerStep
	}{
		{
			configs.Optim{Name: "sgd", Momentum: 0.9, WeightDecay: 1e-4, Nesterov: true},
			program.SGDStep{Momentum: 0.9, WeightDecay: 1e-4, Nesterov: true},
		},
		{configs.Optim{Name: "sgd", Momentum: 0.9, Dampening: 0.3}, program.SGDStep{Momentum: 0.9, Dampening: 0.3}},
		{configs.Optim{Name: "sgd", Schedule: cycle}, program.SGDStep{Momentum: 0.95}},
		{
			configs.Optim{Name: "adam", Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1, Schedule: cycle},
			program.AdamStep{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1},
		},
		{
			configs.Optim{Name: "adamw", Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1},
			program.AdamStep{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1, Decoupled: true},
		},
		{configs.Optim{Name: "adam", Beta2: 0.9, AMSGrad: true}, program.AdamStep{Beta2: 0.9, AMSGrad: true}},
		{configs.Optim{Name: "adamw", Beta2: 0.9, AMSGrad: true}, program.AdamStep{Beta2: 0.9, Decoupled: true, AMSGrad: true}},
		{
			configs.Optim{Name: "adadelta", Rho: 0.9, Eps: 1e-6, WeightDecay: 0.1},
			program.AdadeltaStep{Rho: 0.9, Eps: 1e-6, WeightDecay: 0.1},
		},
		{
			configs.Optim{Name: "rmsprop", Alpha: 0.99, Eps: 1e-8, WeightDecay: 0.1, Momentum: 0.5, Centered: true},
			program.RMSPropStep{Alpha: 0.99, Eps: 1e-8, WeightDecay: 0.1, Momentum: 0.5, Centered: true},
		},
		{
			configs.Optim{Name: "adagrad", LRDecay: 0.05, Eps: 1e-10, WeightDecay: 0.1},
			program.AdagradStep{LRDecay: 0.05, Eps: 1e-10, WeightDecay: 0.1},
		},
	} {
		got, err := New(c.config)
		if err != nil || got != c.want {
			t.Errorf("%+v: %#v, %v; want %#v", c.config, got, err, c.want)
		}
	}
}

func TestNewErrors(t *testing.T) {
	for _, c := range []struct {
		config configs.Optim
		want   string
	}{
		{configs.Optim{Name: "lion"}, `unknown optimizer "lion"`},
		{configs.Optim{Name: "sgd", Nesterov: true}, "nesterov"},
		{configs.Optim{Name: "sgd", Nesterov: true, Momentum: 0.9, Dampening: 0.1}, "nesterov"},
		{configs.Optim{Name: "adadelta", Schedule: configs.Schedule{Name: "one_cycle", CycleMomentum: true}}, "cycle_momentum: false"},
		{configs.Optim{Name: "adagrad", Schedule: configs.Schedule{Name: "one_cycle", CycleMomentum: true}}, "cycle_momentum: false"},
	} {
		if _, err := New(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one about %q", c.config, err, c.want)
		}
	}
}
