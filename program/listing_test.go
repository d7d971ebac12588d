package program_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"halfstep/amp"
	"halfstep/configs"
	"halfstep/model"
	"halfstep/optim"
	"halfstep/program"
)

// update rewrites the listings: go test ./program -run Listing -update. Read the difference before committing it.
var update = flag.Bool("update", false, "rewrite testdata/listings")

// TestListing compares the training step of every shipped config at batch 4, fused and planned without workspaces, with its
// listing in testdata/listings: any change of what a pass does shows there.
func TestListing(t *testing.T) {
	for _, name := range configs.Names() {
		t.Run(name, func(t *testing.T) {
			got := trainingStep(t, name).String()
			file := filepath.Join("testdata", "listings", filepath.FromSlash(name)+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("listing (-want +got):\n%s", d)
			}
		})
	}
}

// trainingStep is a config's step as the trainer puts it together.
func trainingStep(t *testing.T, name string) *program.Program {
	t.Helper()
	const batch, rows = 4, 100
	r, err := configs.Load(name, nil)
	fatal(t, err)
	c := r.Config
	s := model.Spec{Layers: c.Model.Layers, Loss: c.Loss, Batch: batch, Train: true, Seed: c.Seed, Input: []int{28, 28, 1}, Classes: 10}
	random := c.Data.Name == "random"
	if random {
		s.Input, s.Classes, s.Targets = []int{c.Data.Random.Features}, 0, c.Data.Random.Targets
	}
	m, err := model.Build(s)
	fatal(t, err)
	p := &program.Program{Name: "train"}
	in := program.Inputs{
		Counters: p.NewPersistent(program.CountersName, program.RoleState, program.Int32, program.NumCounters),
		Seed:     p.NewPersistent(optim.ScaleName, program.RoleState, program.Float32),
	}
	order := p.NewPersistent("train/order", program.RoleData, program.Int32, rows)
	gather := func(op program.Op, source *program.Value, name string, shape ...int) *program.Value {
		v := p.NewValue(name, program.RoleActivation, source.DType, shape...)
		if source.DType == program.Uint8 {
			v.SetDType(program.Float32)
		}
		p.Emit(program.Input, "", op, []*program.Value{source, order, in.Counters}, []*program.Value{v}, nil)
		return v
	}
	data := func(name string, d program.DType, shape ...int) *program.Value {
		return p.NewPersistent("train/"+name, program.RoleData, d, append([]int{rows}, shape...)...)
	}
	if random {
		in.X = gather(program.GatherRows{}, data("inputs", program.Float32, s.Input...), "x", batch, s.Input[0])
		in.Target = gather(program.GatherRows{}, data("targets", program.Float32, s.Targets), "target", batch, s.Targets)
	} else {
		n := c.Data.Normalize
		in.X = gather(program.GatherImages{Mean: n.Mean, Std: n.Std}, data("images", program.Uint8, 28, 28, 1), "x", batch, 28, 28, 1)
		in.Target = gather(program.GatherRows{}, data("labels", program.Int32), "labels", batch)
		if m.OneHot {
			in.Target = p.NewValue("target", program.RoleActivation, program.Float32, batch, 10)
			p.Emit(program.Input, "", program.OneHot{}, []*program.Value{p.Lookup("labels")}, []*program.Value{in.Target}, nil)
		}
	}
	l, err := program.Lower(p, m, in)
	fatal(t, err)
	finish(t, p, c, l, in)
	return p
}

// finish adds metrics, precision and update, then fuses and plans.
func finish(t *testing.T, p *program.Program, c configs.Config, l *program.Lowered, in program.Inputs) {
	t.Helper()
	row := program.RingRow{Samples: 4, HasControl: true}
	metrics := []*program.Value{in.Counters, l.Loss}
	if labels := p.Lookup("labels"); labels != nil {
		correct := p.NewValue("correct", program.RoleMetric, program.Int32)
		p.Emit(program.Forward, "loss", program.CountCorrect{}, []*program.Value{l.Logits, labels}, []*program.Value{correct}, nil)
		row.HasCorrect, metrics = true, append(metrics, correct)
	}
	u := optim.Update{LossScale: in.Seed, Counters: in.Counters, RatesLen: 25, ClipNorm: c.Optim.ClipGradNorm}
	if c.AMP.Enabled {
		d, err := program.ParseDType(c.AMP.DType)
		fatal(t, err)
		fatal(t, amp.Autocast(p, d))
		u.Scaler.Enabled = d == program.Float16
	}
	for k := range l.Grads {
		l.Grads[k].HalfCopy = p.Lookup(amp.HalfCopyName(l.Grads[k].Param.Name))
	}
	u.Grads = l.Grads
	step, err := optim.New(c.Optim)
	fatal(t, err)
	control, flags, err := optim.Append(p, step, u)
	fatal(t, err)
	ring := p.NewPersistent("train/ring", program.RoleMetric, program.Float32, 50, program.NumRing)
	p.Emit(program.Metrics, "", row, append(metrics, control, flags), nil, []*program.Value{ring})
	p.Emit(program.Metrics, "", program.Advance{Samples: 4}, nil, nil, []*program.Value{in.Counters})
	p.Fuse([]program.Rule{relu, pool, back, lin, grads})
	fatal(t, p.Verify())
	fatal(t, p.Plan(func(*program.Instr) int64 { return 0 }))
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
