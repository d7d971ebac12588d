package optim

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"halfstep/configs"
	"halfstep/golden"
)

// schedulerArguments are the arguments of any torch.optim.lr_scheduler class.
type schedulerArguments struct {
	BaseLR        float64 `json:"base_lr"`
	StepSize      int     `json:"step_size"`
	Gamma         float64 `json:"gamma"`
	Milestones    []int   `json:"milestones"`
	TMax          int     `json:"T_max"`
	EtaMin        float64 `json:"eta_min"`
	WarmupFactor  float64 `json:"warmup_start_factor"`
	Warmup        int     `json:"warmup_total_iters"`
	CosineTMax    int     `json:"cosine_T_max"`
	CosineEtaMin  float64 `json:"cosine_eta_min"`
	MaxLR         float64 `json:"max_lr"`
	TotalSteps    int     `json:"total_steps"`
	PctStart      float64 `json:"pct_start"`
	Anneal        string  `json:"anneal_strategy"`
	DivFactor     float64 `json:"div_factor"`
	FinalDiv      float64 `json:"final_div_factor"`
	BaseMomentum  float64 `json:"base_momentum"`
	MaxMomentum   float64 `json:"max_momentum"`
	Mode          string  `json:"mode"`
	Factor        float64 `json:"factor"`
	Patience      int     `json:"patience"`
	Threshold     float64 `json:"threshold"`
	ThresholdMode string  `json:"threshold_mode"`
	Cooldown      int     `json:"cooldown"`
	MinLR         float64 `json:"min_lr"`
}

// schedule gives the same schedule as configured here, over how many positions.
func (a schedulerArguments) schedule(class string) (s configs.Schedule, total int, err error) {
	switch class {
	case "StepLR":
		return configs.Schedule{Name: "step", StepSize: a.StepSize, Gamma: a.Gamma}, 60, nil
	case "MultiStepLR":
		return configs.Schedule{Name: "multistep", Milestones: a.Milestones, Gamma: a.Gamma}, 60, nil
	case "ExponentialLR":
		return configs.Schedule{Name: "exponential", Gamma: a.Gamma}, 60, nil
	case "CosineAnnealingLR":
		return configs.Schedule{Name: "cosine", EtaMin: a.EtaMin}, a.TMax, nil
	case "SequentialLR(LinearLR,CosineAnnealingLR)":
		return configs.Schedule{Name: "cosine", EtaMin: a.CosineEtaMin, Warmup: a.Warmup, WarmupFactor: a.WarmupFactor},
			a.Warmup + a.CosineTMax, nil
	case "OneCycleLR":
		return configs.Schedule{
			Name: "one_cycle", MaxLR: a.MaxLR, PctStart: a.PctStart, Anneal: a.Anneal, DivFactor: a.DivFactor,
			FinalDiv: a.FinalDiv, CycleMomentum: true, BaseMomentum: a.BaseMomentum, MaxMomentum: a.MaxMomentum,
		}, a.TotalSteps, nil
	case "ReduceLROnPlateau":
		return configs.Schedule{
			Name: "plateau", Monitor: map[string]string{"min": "val_loss", "max": "val_accuracy"}[a.Mode], Factor: a.Factor,
			Patience: a.Patience, Threshold: a.Threshold, ThresholdMode: a.ThresholdMode, Cooldown: a.Cooldown, MinLR: a.MinLR,
		}, 60, nil
	}
	return s, 0, fmt.Errorf("unknown scheduler %q", class)
}

// PyTorch's rates at 60 positions, to the file's tolerance: PyTorch multiplies step by step, so that the closed forms
// differ in the last bits.
func TestSchedulesAgainstPyTorch(t *testing.T) {
	const abs, rel = 1e-12, 1e-9
	var file struct {
		Cases []struct {
			Scheduler string             `json:"scheduler"`
			Arguments schedulerArguments `json:"arguments"`
			LRs       []float64          `json:"learning_rates"`
			Momenta   []float64          `json:"momenta"`
			Metrics   []float64          `json:"metrics"`
		} `json:"cases"`
	}
	if err := golden.Load("testdata/sched.json", &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	for k, c := range file.Cases {
		t.Run(fmt.Sprintf("%d %s", k, c.Scheduler), func(t *testing.T) {
			sch, total, err := c.Arguments.schedule(c.Scheduler)
			if err != nil {
				t.Fatal(err)
			}
			s, err := NewSchedule(configs.Optim{LR: c.Arguments.BaseLR, Schedule: sch}, total, 1)
			if err != nil {
				t.Fatal(err)
			}
			worst := 0.0
			for i, want := range c.LRs {
				if c.Metrics != nil {
					s.EndEpoch(1, c.Metrics[i])
				}
				lr, momentum := s.At(i)
				worst = max(worst, math.Abs(lr-want)/want)
				if !(math.Abs(lr-want) <= abs+rel*want) {
					t.Errorf("position %d: rate %v, want %v", i, lr, want)
				}
				if c.Momenta == nil {
					if !math.IsNaN(momentum) {
						t.Errorf("position %d: momentum %v, want NaN", i, momentum)
					}
				} else if !(math.Abs(momentum-c.Momenta[i]) <= rel*c.Momenta[i]) {
					t.Errorf("position %d: momentum %v, want %v", i, momentum, c.Momenta[i])
				}
			}
			t.Logf("largest relative difference %.2g, tolerance %g", worst, rel)
		})
	}
}

// The linear warm-up alone stays at the full rate afterwards; constant always has it.
func TestWarmupAndConstant(t *testing.T) {
	s, err := NewSchedule(configs.Optim{LR: 0.5, Schedule: configs.Schedule{Name: "linear_warmup", Warmup: 4, WarmupFactor: 0.2}}, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	// factor 0.2 + 0.8·t/4, exact to a few roundings of float64
	for i, want := range []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5} {
		if lr, _ := s.At(i); math.Abs(lr-want) > 1e-15 {
			t.Errorf("position %d: %v, want %v", i, lr, want)
		}
	}
	s, err = NewSchedule(configs.Optim{LR: 0.5}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if lr, momentum := s.At(1000); lr != 0.5 || !math.IsNaN(momentum) {
		t.Errorf("constant: %v, %v", lr, momentum)
	}
}

// A cycle too short to have two phases gives finite rates within its bounds all the same, and stays at its end.
func TestShortOneCycle(t *testing.T) {
	for _, pct := range []float64{0, 0.3, 0.5, 1} {
		for total := 1; total <= 4; total++ {
			sch := oneCycleConfig()
			sch.PctStart = pct
			s, err := NewSchedule(configs.Optim{Schedule: sch}, total, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i := range total + 2 {
				if lr, m := s.At(i); !(lr >= 0.5/25/1e4*0.999 && lr <= 0.5*1.001 && m >= 0.849 && m <= 0.951) {
					t.Errorf("pct_start %v, %d positions, at %d: rate %v momentum %v", pct, total, i, lr, m)
				}
			}
		}
	}
}

func oneCycleConfig() configs.Schedule {
	return configs.Schedule{
		Name: "one_cycle", MaxLR: 0.5, PctStart: 0.3, Anneal: "cos", DivFactor: 25, FinalDiv: 1e4,
		CycleMomentum: true, BaseMomentum: 0.85, MaxMomentum: 0.95,
	}
}

// drawConfig draws a schedule of any kind.
func drawConfig(t *rapid.T) configs.Optim {
	c := configs.Optim{LR: 0.1, Schedule: oneCycleConfig()}
	sch := &c.Schedule
	sch.Name = rapid.SampledFrom([]string{
		"constant", "step", "multistep", "exponential", "cosine", "linear_warmup", "one_cycle", "plateau",
	}).Draw(t, "name")
	sch.StepSize, sch.Gamma, sch.Milestones = 2, 0.9, []int{1, 3, 3}
	sch.Warmup, sch.WarmupFactor = 1, 0.1
	sch.Monitor, sch.Factor, sch.Patience, sch.Cooldown = "val_loss", 0.5, 1, 1
	if sch.Name != "plateau" && rapid.Bool().Draw(t, "per update") {
		sch.Per = "update"
	}
	return c
}

// Skipped updates do not advance a schedule: each applied update of the run has the rate of its own number (per: update) or
// of the number of epochs before in which any was applied (per: epoch).
func TestSkippedUpdatesDoNotAdvance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		if c.Schedule.Name == "plateau" {
			return // no position: TestScheduleResume covers it
		}
		const updatesPerEpoch = 4
		epochs := rapid.SliceOfN(rapid.SliceOfN(rapid.Bool(), updatesPerEpoch, updatesPerEpoch), 2, 8).Draw(t, "applied")
		s, err := NewSchedule(c, len(epochs), updatesPerEpoch)
		if err != nil {
			t.Fatal(err)
		}
		updates, useful := 0, 0
		for _, attempts := range epochs {
			table, applied := s.Table(updatesPerEpoch), 0
			for _, ok := range attempts {
				if !ok {
					continue
				}
				position := useful
				if c.Schedule.Per == "update" {
					position = updates
				}
				lr, momentum := s.At(position)
				if want := [2]float32{float32(lr), float32(momentum)}; !sameRow(table[applied], want) {
					t.Fatalf("update %d in epoch position %d: %v, want %v", updates, useful, table[applied], want)
				}
				applied++
				updates++
			}
			if applied > 0 {
				useful++
			}
			s.EndEpoch(applied, 1)
		}
	})
}

func sameRow(a, b [2]float32) bool {
	return math.Float32bits(a[0]) == math.Float32bits(b[0]) && (a[1] == b[1] || (a[1] != a[1] && b[1] != b[1]))
}

// A schedule restored from JSON gives the same tables as one that never stopped.
func TestScheduleResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		type epoch struct {
			applied int
			metric  float64
		}
		draw := rapid.Custom(func(t *rapid.T) epoch {
			return epoch{rapid.IntRange(0, 4).Draw(t, "applied"), rapid.SampledFrom([]float64{
				1, 0.5, 0.25, 2, math.NaN(), math.Inf(1),
			}).Draw(t, "metric")}
		})
		epochs := rapid.SliceOfN(draw, 2, 12).Draw(t, "epochs")
		stop := rapid.IntRange(0, len(epochs)-1).Draw(t, "stop")
		a, err := NewSchedule(c, len(epochs), 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range epochs[:stop] {
			a.EndEpoch(e.applied, e.metric)
		}
		saved, err := json.Marshal(a.State())
		if err != nil {
			t.Fatal(err)
		}
		var state State
		if err := json.Unmarshal(saved, &state); err != nil {
			t.Fatal(err)
		}
		b, err := NewSchedule(c, len(epochs), 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.SetState(state); err != nil {
			t.Fatal(err)
		}
		for _, e := range epochs[stop:] {
			if x, y := a.Table(4), b.Table(4); !slices.EqualFunc(x, y, sameRow) {
				t.Fatalf("never stopped: %v, resumed: %v", x, y)
			}
			a.EndEpoch(e.applied, e.metric)
			b.EndEpoch(e.applied, e.metric)
		}
	})
}

// An epoch without any applied update leaves plateau as it was; a state already taken does not follow.
func TestPlateauWaitsForUpdates(t *testing.T) {
	s, err := NewSchedule(configs.Optim{LR: 1, Schedule: configs.Schedule{Name: "plateau", Monitor: "val_loss", Factor: 0.5}}, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.EndEpoch(1, 2)
	before := s.State()
	for range 5 {
		s.EndEpoch(0, 2)
	}
	if lr, _ := s.At(0); lr != 1 {
		t.Errorf("rate %v after epochs without updates, want 1", lr)
	}
	s.EndEpoch(1, 2)
	if lr, _ := s.At(0); lr != 0.5 {
		t.Errorf("rate %v after an epoch without improvement, want 0.5", lr)
	}
	if before.Plateau.LR != 1 || before.Updates != 1 {
		t.Errorf("state taken before changed: %+v, %+v", before, *before.Plateau)
	}
}

func TestScheduleErrors(t *testing.T) {
	for _, c := range []struct {
		schedule configs.Schedule
		epochs   int
		want     string
	}{
		{configs.Schedule{Name: "cosin"}, 3, "unknown"},
		{configs.Schedule{Per: "batch"}, 3, "per:"},
		{configs.Schedule{}, 0, "0 epochs"},
		{configs.Schedule{Name: "step"}, 3, "step_size"},
		{configs.Schedule{Name: "cosine", Warmup: 3}, 3, "warmup 3 leaves nothing of 3"},
		{configs.Schedule{Name: "one_cycle", Anneal: "poly"}, 3, "anneal"},
		{configs.Schedule{Name: "one_cycle"}, 3, "div_factor"},
		{configs.Schedule{Name: "plateau", Monitor: "test_loss"}, 3, "monitor"},
		{configs.Schedule{Name: "plateau", Monitor: "val_loss", ThresholdMode: "x"}, 3, "threshold_mode"},
		{configs.Schedule{Name: "plateau", Monitor: "val_loss", Per: "update"}, 3, "per: epoch"},
	} {
		if _, err := NewSchedule(configs.Optim{Schedule: c.schedule}, c.epochs, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one about %q", c.schedule, err, c.want)
		}
	}
	s, err := NewSchedule(configs.Optim{Schedule: configs.Schedule{Name: "plateau", Monitor: "val_loss"}}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []State{{}, {Updates: -1, Plateau: &PlateauState{}}, {Epochs: -1, Plateau: &PlateauState{}}} {
		if err := s.SetState(bad); err == nil {
			t.Errorf("state %+v is accepted", bad)
		}
	}
}
