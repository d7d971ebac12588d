package amp

import (
	"halfstep/device"
	"halfstep/program"
)

// Memory is the memory of a training run by category, in bytes, as planned before it runs. Resident data (images, labels,
// order, learning rates) is counted apart: it depends on the data set, not on the model or its precision.
type Memory struct {
	Parameters     int64 `json:"parameters"`
	HalfCopies     int64 `json:"half_copies"`
	Gradients      int64 `json:"gradients"`
	OptimizerState int64 `json:"optimizer_state"` // with the loss scale, counters and running statistics
	Activations    int64 `json:"activations"`     // at the arena's fullest, with gaps between values
	Workspace      int64 `json:"workspace"`       // scratch of kernels, and the metrics ring

	ResidentData int64 `json:"-"`
	Arena        int64 `json:"-"` // size of the scratch arena: gradients, activations and workspace together
}

// Peak is the sum of all categories but resident data.
func (m Memory) Peak() int64 {
	return m.Parameters + m.HalfCopies + m.Gradients + m.OptimizerState + m.Activations + m.Workspace
}

// Plan sums up programs that share one store and one scratch arena, which is as large as the largest needs. Categories
// inside the arena are those of that program at its fullest; what its layout loses to gaps counts as activations.
func Plan(programs ...*program.Program) Memory {
	var store [program.NumRoles]int64
	seen := map[string]bool{}
	var largest *program.Program
	for _, p := range programs {
		for _, v := range p.Persistent() {
			if !seen[v.Name] {
				seen[v.Name] = true
				store[v.Role] += v.Bytes
			}
		}
		if largest == nil || p.Peak > largest.Peak {
			largest = p
		}
	}
	m := Memory{
		Parameters: store[program.RoleParam], HalfCopies: store[program.RoleHalfCopy],
		Gradients: store[program.RoleGrad], OptimizerState: store[program.RoleState],
		Activations: store[program.RoleActivation], Workspace: store[program.RoleMetric], ResidentData: store[program.RoleData],
	}
	if largest == nil {
		return m
	}
	in := largest.PeakByRole
	m.Arena = largest.Peak
	m.Gradients += in[program.RoleGrad]
	m.Workspace += in[program.RoleWorkspace] + in[program.RoleMetric]
	m.Activations += m.Arena - in[program.RoleGrad] - in[program.RoleWorkspace] - in[program.RoleMetric]
	return m
}

// Measured compares a plan with what the device measured: the peak without resident data, and whether the two agree to
// the byte.
func (m Memory) Measured(d device.Memory) (peak int64, agrees bool) {
	peak = d.Peak - m.ResidentData
	return peak, peak == m.Peak()
}
