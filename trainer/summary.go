package trainer

import (
	"fmt"
	"strings"

	"halfstep/program"
)

// LayerRow is one layer of a summary.
type LayerRow struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Output  []int    `json:"output"`
	DType   string   `json:"dtype"`
	Params  int      `json:"parameters"`
	FLOPs   int64    `json:"flops"`
	Runs    []string `json:"runs"` // instructions of the forward pass that run for it
	FusedIn string   `json:"fused_in"`
}

// Summarise tells what became of each layer. A layer that was fused away computes in the instruction of the one before.
func (t *Trainer) Summarise() []LayerRow {
	var rows []LayerRow
	for _, l := range t.train.model.Layers {
		r := LayerRow{Name: l.Name, Kind: l.Kind, Output: l.OutShape, Params: l.Params, FLOPs: l.FLOPs}
		for _, i := range t.train.program.Instrs {
			if i.Phase != program.Forward || len(i.Out) == 0 {
				continue
			}
			if i.Layer == l.Name {
				r.Runs = append(r.Runs, i.Op.Name())
				r.DType = i.Out[0].DType.String()
			}
		}
		if len(r.Runs) == 0 && len(rows) > 0 {
			before := rows[len(rows)-1]
			r.DType, r.FusedIn = before.DType, before.FusedIn
			if r.FusedIn == "" {
				r.FusedIn = before.Name
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// Describe sums up the step in a few lines: parameters, arithmetic, instructions, every cast, memory.
func (t *Trainer) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d parameters, %.2f GFLOP a step of %d samples\n", t.parameters(), float64(t.FLOPs())/1e9, t.train.samples)
	fmt.Fprintf(&b, "%d instructions a step, %d more were fused away\n", len(t.train.program.Instrs), t.train.fused)
	var casts []string
	for _, i := range t.train.program.Instrs {
		if _, ok := i.Op.(program.Cast); ok {
			casts = append(casts, fmt.Sprintf("  %s -> %s", i.In[0], i.Out[0].DType))
		}
	}
	if t.UsesTF32() {
		b.WriteString("float32 products are computed in tf32\n")
	}
	fmt.Fprintf(&b, "%d casts of activations a step\n", len(casts))
	for _, c := range casts {
		b.WriteString(c + "\n")
	}
	for _, v := range t.train.program.Values {
		if v.Role == program.RoleHalfCopy {
			fmt.Fprintf(&b, "  %s: half copy, written by the optimizer beside its float32 master\n", v)
		}
	}
	m := t.memory
	fmt.Fprintf(&b, "planned memory %d bytes: parameters %d, half copies %d, gradients %d, optimizer state %d, activations %d, workspace %d; resident data %d",
		m.Peak(), m.Parameters, m.HalfCopies, m.Gradients, m.OptimizerState, m.Activations, m.Workspace, m.ResidentData)
	return b.String()
}
