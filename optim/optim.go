// Package optim turns the configured optimizer and learning-rate schedule into what a training step needs: the optimizer's
// op, the table of rates of each epoch, and the instructions of the update. Names and behaviour are torch.optim's.
package optim

import (
	"fmt"

	"halfstep/configs"
	"halfstep/program"
)

// New gives the op of the configured optimizer. An unknown name, Nesterov momentum without momentum or with dampening, and
// a cycled momentum of an optimizer that has none are errors, as in PyTorch.
func New(c configs.Optim) (program.OptimizerStep, error) {
	momentum := c.Momentum
	if cyclesMomentum(c.Schedule) && momentum == 0 {
		// PyTorch's OneCycleLR writes the momentum into the optimizer before the first step. Here it decides whether there
		// is a buffer; the value itself comes with each update.
		momentum = c.Schedule.MaxMomentum
	}
	switch c.Name {
	case "sgd":
		if c.Nesterov && (momentum == 0 || c.Dampening != 0) {
			return nil, fmt.Errorf("optim: sgd: nesterov needs a momentum and no dampening, not momentum %v and dampening %v",
				momentum, c.Dampening)
		}
		return program.SGDStep{Momentum: momentum, Dampening: c.Dampening, WeightDecay: c.WeightDecay, Nesterov: c.Nesterov}, nil
	case "adam", "adamw":
		return program.AdamStep{
			Beta1: c.Beta1, Beta2: c.Beta2, Eps: c.Eps, WeightDecay: c.WeightDecay, Decoupled: c.Name == "adamw", AMSGrad: c.AMSGrad,
		}, nil
	case "rmsprop":
		return program.RMSPropStep{
			Alpha: c.Alpha, Eps: c.Eps, WeightDecay: c.WeightDecay, Momentum: momentum, Centered: c.Centered,
		}, nil
	case "adadelta", "adagrad":
		if cyclesMomentum(c.Schedule) {
			return nil, fmt.Errorf("optim: %s has no momentum for one_cycle to cycle: set cycle_momentum: false", c.Name)
		}
		if c.Name == "adadelta" {
			return program.AdadeltaStep{Rho: c.Rho, Eps: c.Eps, WeightDecay: c.WeightDecay}, nil
		}
		return program.AdagradStep{LRDecay: c.LRDecay, Eps: c.Eps, WeightDecay: c.WeightDecay}, nil
	}
	return nil, fmt.Errorf("optim: unknown optimizer %q: want sgd, adam, adamw, adadelta, rmsprop or adagrad", c.Name)
}

func cyclesMomentum(s configs.Schedule) bool { return s.Name == "one_cycle" && s.CycleMomentum }
