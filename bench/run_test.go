package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/device/cpu"
	"halfstep/device/cpu/kernel"
	"halfstep/program"
)

// keys are the keys of v as JSON.
func keys(t *testing.T, v any) []string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	var r []string
	for k := range m {
		r = append(r, k)
	}
	return r
}

func load(t *testing.T, name string, overrides ...string) *configs.Resolved {
	t.Helper()
	r, err := configs.Load(name, append([]string{"device=cpu"}, overrides...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestStep: the keys that scripts read, and figures that fit each other.
func TestStep(t *testing.T) {
	r, err := Step(context.Background(), load(t, "mlp", "data.batch_size=32", "optim.accumulate=2"), StepOptions{Steps: 3, Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	have := keys(t, r)
	for _, k := range []string{
		"config", "device", "isa", "threads", "dtype", "batch", "ms_step_median", "ms_step_min", "images_per_s", "flops_per_step", "gflops",
		"fma_peak_gflops", "percent_of_peak", "mem_planned_bytes", "mem_peak_bytes",
	} {
		if !slices.Contains(have, k) {
			t.Errorf("no key %s in %v", k, have)
		}
	}
	if r.Config != "mlp" || r.Device != "cpu" || r.DType != "float32" || r.Batch != 64 {
		t.Errorf("%+v", r)
	}
	if r.MSMin <= 0 || r.MSMedian < r.MSMin || r.MemPeak != r.MemPlanned {
		t.Errorf("%+v", r)
	}
	// 784-512-512-10, no gradient of the images.
	if want := int64(2 * 64 * (2*784*512 + 3*(512*512+512*10))); r.FLOPs != want {
		t.Errorf("%d FLOPs a step, want %d", r.FLOPs, want)
	}
	share := 0.0
	for _, i := range r.Profile {
		share += i.Share
	}
	if math.Abs(share-1) > 1e-9 {
		t.Errorf("the profile's shares sum up to %v", share)
	}
	var total float64
	for _, p := range PhaseTotals(r.Profile) {
		total += p.Share
	}
	if math.Abs(total-1) > 1e-9 {
		t.Errorf("the phases' shares sum up to %v", total)
	}
}

// TestProfileRows on a program of two instructions: 1000 FLOPs in 10 ns are 100 GFLOP/s.
func TestProfileRows(t *testing.T) {
	peak := 400.0
	x, w, y := value(5, 10), value(10, 10), value(5, 10)
	instrs := []*program.Instr{
		{Op: program.Linear{}, In: []*program.Value{x, w}, Out: []*program.Value{y}, Phase: program.Forward, Layer: "linear1"},
		{Op: program.Zero{}, InOut: []*program.Value{y}, Phase: program.Update},
	}
	rows := profileRows(instrs, []int{1, 1}, []float64{10, 30, 0}, &peak)
	if len(rows) != 2 {
		t.Fatalf("%+v", rows)
	}
	if r := rows[0]; r.FLOPs != 1000 || r.GFLOPS != 100 || *r.PercentOfPeak != 25 || r.Share != 0.25 || r.MS != 1e-5 || r.Layer != "linear1" || r.DType != "float32" {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.FLOPs != 0 || r.GFLOPS != 0 || r.PercentOfPeak != nil || r.Share != 0.75 {
		t.Errorf("%+v", r)
	}
	// Twice in a step, beside a loader on the host.
	rows = profileRows(instrs, []int{2, 1}, []float64{20, 30, 50}, &peak)
	if rows[0].Op != "host" || rows[0].Share != 0.5 || rows[1].FLOPs != 2000 || rows[1].GFLOPS != 100 {
		t.Errorf("%+v", rows)
	}
}

// TestMatMul: C is the product, on every level and dtype and whether workers share each product or take whole ones.
//
// Tolerance: the operands are given, so only sums and the result round: K additions in float32 have a relative error of at
// most K·2^-24 for positive terms, float64's K·2^-53; the result adds 2^-11 (float16), 2^-8 (bfloat16).
func TestMatMul(t *testing.T) {
	worst := map[program.DType]float64{}
	for _, l := range kernel.Levels() {
		dev, err := cpu.Open(cpu.Options{Level: &l, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		for _, s := range []device.MatMulShape{{Batch: 3, M: 7, N: 33, K: 19}, {Batch: 1, M: 1, N: 1, K: 1}, {Batch: 2, M: 130, N: 300, K: 260}} {
			for d, unit := range map[program.DType]float64{
				program.Float64: 0, program.Float32: 0, program.Float16: 0x1p-11, program.BFloat16: 0x1p-8,
			} {
				s.DType = d
				row, err := matMulRow(context.Background(), dev, s, 2)
				if err != nil {
					t.Fatal(err)
				}
				tolerance := unit + float64(s.K)*0x1p-24
				if d == program.Float64 {
					tolerance = float64(s.K+1) * 0x1p-53
				}
				worst[d] = math.Max(worst[d], row.MaxError/tolerance)
				if !(row.MaxError <= tolerance) {
					t.Errorf("%v %v: relative error %.2g, allowed %.2g", l, s, row.MaxError, tolerance)
				}
			}
		}
	}
	t.Logf("largest error as a share of the tolerance: %v", worst)
}

// TestMatMulRequests: what cannot be done is an error that names the flag.
func TestMatMulRequests(t *testing.T) {
	for flag, o := range map[string]MatMulOptions{
		"--m": {M: -1}, "--runs": {Runs: -3}, "--dtypes": {DTypes: []string{"int8"}}, "--batch, --m, --k, --n": {M: 1 << 22, N: 1 << 22, K: 1, Device: "cpu"},
	} {
		var e *Error
		if _, err := MatMul(context.Background(), o); !errors.As(err, &e) || e.Flag != flag {
			t.Errorf("%+v: %v, want an error on %s", o, err, flag)
		}
	}
}

// TestPeak: which peak a dtype is measured against.
func TestPeak(t *testing.T) {
	dev, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	p := measurePeaks(dev, program.Float64, program.Float32, program.BFloat16)
	if p[program.Float32] <= 0 || p[program.Float64] <= 0 {
		t.Fatalf("%+v", p)
	}
	if *p.of(program.Float16) != p[program.Float32] || *p.of(program.Float64) != p[program.Float64] {
		t.Error("float16 is computed in float32, float64 in float64")
	}
	t.Logf("float32 %.0f GFLOP/s, float64 %.0f GFLOP/s on one thread", p[program.Float32], p[program.Float64])
}

// TestMLP: the post's net at a small size, for more iterations than an epoch lists; every part is timed.
func TestMLP(t *testing.T) {
	c, err := mlpSetting(MLPSize{8, 32, 16, 4})
	if err != nil {
		t.Fatal(err)
	}
	row, err := mlpRow(context.Background(), c, 1500, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(*row)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is zero", v.Type().Field(i).Name)
		}
	}
	if _, err := MLP(context.Background(), MLPOptions{Iterations: 1}); err == nil {
		t.Error("one iteration is no loop")
	}
}

// TestBatch: rows ascend, and a batch above the data is refused.
func TestBatch(t *testing.T) {
	r, err := Batch(context.Background(), BatchOptions{Device: "cpu", BatchSizes: []int{64, 1}, Steps: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || r.Rows[0].Batch != 1 || r.Rows[1].Batch != 64 || r.Rows[0].SpeedUp != 1 || r.Conclusion == "" {
		t.Errorf("%+v", r)
	}
	var e *Error
	if _, err := Batch(context.Background(), BatchOptions{Device: "cpu", BatchSizes: []int{60001}}); !errors.As(err, &e) {
		t.Error(err)
	}
}

// TestScaler: the path starts at the scale that was asked for, each change begins where the one before ended, and whatever
// overflowed has a name.
func TestScaler(t *testing.T) {
	r, err := Scaler(context.Background(), load(t, "mlp_amp", append(ScalerOverrides(), "max_steps=40")...))
	if err != nil {
		t.Fatal(err)
	}
	if r.Steps != 40 || r.Skipped == 0 || r.InitScale != 1<<24 {
		t.Fatalf("%+v", r)
	}
	scale, skipped := r.InitScale, 0
	for _, c := range r.Changes {
		if c.Before != scale {
			t.Errorf("step %d: from %v, but the scale was %v", c.Step, c.Before, scale)
		}
		scale = c.After
		if c.Cause == "backoff" {
			skipped++
			if c.FirstBadTensor == "" || c.After != c.Before/2 {
				t.Errorf("%+v", c)
			}
		}
	}
	if scale != r.FinalScale || skipped != r.Skipped {
		t.Errorf("the path ends at %v after %d skips; the run at %v after %d", scale, skipped, r.FinalScale, r.Skipped)
	}
}

// TestTimeToAccuracy: an easy target ends after the first epoch that reaches it, an impossible one after all epochs.
func TestTimeToAccuracy(t *testing.T) {
	small := []string{"epochs=2", "data.batch_size=1024", "amp.enabled=true", "amp.dtype=bfloat16"}
	r, err := TimeToAccuracy(context.Background(), load(t, "mlp", small...), AccuracyOptions{Target: 0.5, Seeds: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || r.Rows[0].Seed != 42 || r.Rows[1].Seed != 43 || r.Rows[0].Epochs != 1 || !r.Rows[0].Reached {
		t.Errorf("%+v", r)
	}
	r, err = TimeToAccuracy(context.Background(), load(t, "mlp", small...), AccuracyOptions{Target: 1, Seeds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Rows[0].Epochs != 2 || r.Rows[0].Reached || r.Rows[0].Seconds < r.Rows[0].EvalSeconds {
		t.Errorf("%+v", r)
	}
	for _, o := range []AccuracyOptions{{Target: 99, Seeds: 1}, {Target: 0.9}} {
		if _, err := TimeToAccuracy(context.Background(), load(t, "mlp"), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// TestTutorial on a net of the same layers, but small.
func TestTutorialRow(t *testing.T) {
	c := load(t, tutorialConfig, "data.batch_size=8", "data.random.samples=40", "data.random.features=16", "data.random.targets=4096", "max_steps=7").Config
	set, err := data.Open(c.Data, c.Seed)
	if err != nil {
		t.Fatal(err)
	}
	c.Model.Layers[0].Units, c.Model.Layers[2].Units = 8, 8
	row, err := tutorialRow(context.Background(), c, set, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	if row.Steps != 7 || row.MemPeak != row.MemPlanned || row.FinalLoss <= 0 || row.MSStep <= 0 {
		t.Errorf("%+v", row)
	}
}
