package trainer

import (
	"bytes"
	"context"
	"testing"

	"halfstep/program"
)

// Profiling times every instruction of a step, micro-batches and loader included, and leaves training as if it had not been.
func TestProfileLeavesNoTrace(t *testing.T) {
	set := images(t, 140, 40)
	for _, c := range []struct {
		name      string
		overrides []string
		samples   int
		micros    int
	}{
		{"whole steps", nil, 32, 1},
		{"micro-batches", []string{"optim.accumulate=2"}, 64, 2},
		{"batches from the host", []string{"data.resident=false"}, 32, 1},
		{"micro-batches from the host in float16", []string{"data.resident=false", "optim.accumulate=2", "amp.enabled=true"}, 64, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := load(t, smallCNN, append(c.overrides, "epochs=1")...).Config
			plain, _, _ := fit(t, cfg, set, open(t, nil, 2))

			tr := newTrainer(t, cfg, set, open(t, nil, 2), Options{})
			if err := tr.Undisturbed(func() error {
				p, err := tr.Profile(context.Background(), 7) // more than an epoch has
				if err == nil {
					checkProfile(t, p, tr, c.samples, c.micros)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if err := tr.BeginEpoch(); err != nil {
				t.Fatal(err)
			}
			for more := true; more; {
				var err error
				if more, err = tr.Turn(context.Background(), 2); err != nil {
					t.Fatal(err)
				}
			}
			e, err := tr.EndEpoch(context.Background())
			if err != nil || e == nil || !tr.Done() {
				t.Fatalf("evaluation %v, done %v, error %v", e, tr.Done(), err)
			}
			if updates, samples := tr.Trained(); updates != tr.UpdatesAnEpoch() || samples != 140 {
				t.Errorf("%d updates of %d samples, want %d of 140", updates, samples, tr.UpdatesAnEpoch())
			}
			want, got := checkpoint(t, plain), checkpoint(t, tr)
			for k, x := range want.Tensors {
				if !bytes.Equal(x.Data, got.Tensors[k].Data) {
					t.Errorf("%s differs from that of Fit", x.Name)
				}
			}
		})
	}
}

func checkProfile(t *testing.T, p *Profile, tr *Trainer, samples, micros int) {
	t.Helper()
	if p.Samples != samples || len(p.Times) != 7 || len(p.Runs) != len(p.Instrs) {
		t.Fatalf("%d samples, %d steps, %d instructions run as %v", p.Samples, len(p.Times), len(p.Instrs), p.Runs)
	}
	updates := 0
	for k, i := range p.Instrs {
		want := micros
		if k >= len(tr.Program().Instrs) {
			want = 1
		}
		if _, ok := i.Op.(program.OptimizerStep); ok {
			updates++
		}
		if p.Runs[k] != want {
			t.Errorf("%s runs %d times, want %d", i.Op.Name(), p.Runs[k], want)
		}
	}
	if updates == 0 {
		t.Error("no update was profiled")
	}
	for _, times := range p.Times {
		if len(times) != len(p.Instrs)+1 {
			t.Fatalf("%d times of %d instructions", len(times), len(p.Instrs))
		}
		if loader := times[len(p.Instrs)]; (loader > 0) == tr.cfg.Data.Resident {
			t.Errorf("resident %v: the loader took %v ns", tr.cfg.Data.Resident, loader)
		}
		if times[1] <= 0 {
			t.Error("an instruction took no time")
		}
	}
}
