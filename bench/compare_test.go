package bench

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"halfstep/configs"
	"halfstep/device/cpu"
	"halfstep/program"
	"halfstep/trainer"
)

// A machine of round numbers: 100 GFLOP/s in float32, 200 in bfloat16, 10 GB/s.
func onPaper(d program.DType, least float64, instrs ...cost) evidence {
	e := evidence{name: d.String() + " on paper", dtype: d, instrs: instrs, least: least, peak: 100e9, native: d != program.Float16, bandwidth: 10e9}
	if d == program.BFloat16 {
		e.peak = 200e9
	}
	e.step = e.seconds()
	return e
}

const ms, us = 1e-3, 1e-6

// Which cause a single instruction's time is put down to, by hand.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name                       string
		cost                       cost
		launch, memory, arithmetic float64
	}{
		{"multiply-adds at 80 of 100 GFLOP/s", cost{seconds: 10 * ms, flops: 800e6, bytes: 1e6, phase: program.Forward}, 1 * us, 0, 10*ms - 1*us},
		{"8 of 10 GB/s", cost{seconds: 10 * ms, bytes: 80e6, phase: program.Update}, 1 * us, 10*ms - 1*us, 0},
		{"from a cache, faster than memory", cost{seconds: 1 * ms, bytes: 80e6, phase: program.Update}, 1 * us, 1*ms - 1*us, 0},
		{"both limits near, multiply-adds the tighter one", cost{seconds: 10 * ms, flops: 900e6, bytes: 60e6, phase: program.Forward}, 1 * us, 0, 10*ms - 1*us},
		{"both limits near, memory the tighter one", cost{seconds: 10 * ms, flops: 600e6, bytes: 90e6, phase: program.Forward}, 1 * us, 10*ms - 1*us, 0},
		{"as short as any", cost{seconds: 1 * us, flops: 10, bytes: 10, phase: program.Forward}, 1 * us, 0, 0},
		{"shorter than any", cost{seconds: 0.5 * us, phase: program.Forward}, 0.5 * us, 0, 0},
		{"mostly fixed", cost{seconds: 10 * us, fixed: 8 * us, flops: 1000, phase: program.Backward}, 8 * us, 0, 2 * us},
		{"fixed, but it is the parameters' update", cost{seconds: 10 * us, fixed: 10 * us, phase: program.Update}, 1 * us, 0, 9 * us},
		{"fixed, but as traffic of weights", cost{seconds: 10 * us, fixed: 10 * us, bytes: 80e3, phase: program.Forward}, 1 * us, 9 * us, 0},
		{"fixed, but far too long for an overhead", cost{seconds: 30 * ms, fixed: 30 * ms, phase: program.Forward}, 200 * us, 0, 30*ms - 200*us},
	} {
		c.cost.runs = 1
		e := onPaper(program.Float32, 1*us, c.cost)
		launch, memory, arithmetic := e.split(c.cost)
		// Sums and differences of a few numbers: a few units in the last place.
		for k, d := range []float64{launch - c.launch, memory - c.memory, arithmetic - c.arithmetic} {
			if math.Abs(d) > 1e-15 {
				t.Errorf("%s: part %d is off by %g: launch %g, memory %g, arithmetic %g", c.name, k, d, launch, memory, arithmetic)
			}
		}
	}
}

// The verdict on steps made up of figures that leave no doubt, and the figures in its words.
func TestVerdictOnPaper(t *testing.T) {
	product := cost{op: "conv2d", phase: program.Forward, seconds: 10 * ms, flops: 800e6, bytes: 4e6, runs: 1}
	stream := cost{op: "adam_step", phase: program.Update, seconds: 10 * ms, bytes: 90e6, runs: 1}
	gather := cost{op: "gather_images", phase: program.Input, seconds: 1 * ms, bytes: 1 << 40, runs: 1}
	other := cost{op: "gelu", phase: program.Forward, seconds: 30 * ms, bytes: 1e6, runs: 1}
	short := func(n int) []cost {
		return slices.Repeat([]cost{{op: "tiny", phase: program.Forward, seconds: 2 * us, fixed: 2 * us, bytes: 64, flops: 64, runs: 1}}, n)
	}
	slow := product
	slow.flops = 8e6
	waiting := onPaper(program.Float32, us, product, gather)
	waiting.loader = 40 * ms
	launches := onPaper(program.Float32, us, short(20)...)
	launches.probe, launches.longer = 64, 1.04
	unknown := onPaper(program.Float32, us, product)
	unknown.peak = 0
	sparse := product
	sparse.flops, sparse.sparse = 2e9, true
	above := sparse
	above.sparse = false
	for _, c := range []struct {
		name  string
		e     evidence
		bound string
		share float64 // to a percent
		words []string
	}{
		{"multiply-adds", onPaper(program.Float32, us, product, gather), boundArithmetic, 10.0 / 11, []string{"arithmetic (91% of the step)", "its products (conv2d) run at 80 GFLOP/s of at most 100."}},
		{"other arithmetic", onPaper(program.Float32, us, product, other), boundArithmetic, 1, []string{"gelu, which do no multiply-adds"}},
		{"slow products", onPaper(program.Float32, us, slow), boundArithmetic, 1, []string{"1 GFLOP/s of at most 100 and move 0.4 of 10.0 GB/s: neither limit explains it"}},
		{"products with zeros", onPaper(program.Float32, us, sparse), boundArithmetic, 1, []string{"200 GFLOP/s of at most 100, counting products with zeros"}},
		{"above the peak", onPaper(program.Float32, us, above), boundArithmetic, 1, []string{"200 GFLOP/s of at most 100, which was measured when the machine was busier"}},
		{"no peak known", unknown, boundArithmetic, 1, []string{"(conv2d) run at 80 GFLOP/s."}},
		{"memory", onPaper(program.Float32, us, stream, stream, gather), boundMemory, 20.0 / 21, []string{"9.0 GB/s in adam_step", "reaches 10.0"}},
		{"launches", launches, boundLaunch, 1, []string{"20 instructions of 2.00 µs on average", "at batch 64 a step takes 1.04x as long"}},
		{"loader", waiting, boundInput, 41.0 / 51, []string{"on the host takes 40.00 ms", "data.resident: true"}},
		{"gathering", onPaper(program.Float32, us, gather, short(1)[0]), boundInput, 1, []string{"gathering the batch"}},
	} {
		s := c.e.shares()
		share := map[string]float64{boundInput: s.Input, boundLaunch: s.Launch, boundMemory: s.Memory, boundArithmetic: s.Arithmetic}[c.bound]
		if s.largest() != c.bound || math.Abs(share-c.share) > 0.01 {
			t.Errorf("%s: bound by %s, shares %+v; want %s with %.2f", c.name, s.largest(), s, c.bound, c.share)
		}
		if sum := s.Input + s.Launch + s.Memory + s.Arithmetic; math.Abs(sum-1) > 1e-12 {
			t.Errorf("%s: shares add up to %v", c.name, sum)
		}
		text := c.e.bound()
		for _, w := range append(c.words, "bound by", c.bound) {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q does not say %q", c.name, text, w)
			}
		}
		t.Log(text)
	}
}

// Whether half precision pays, and the reason, on figures for each reason.
func TestGainOnPaper(t *testing.T) {
	product := func(seconds float64) cost {
		return cost{op: "linear", phase: program.Forward, seconds: seconds, flops: 800e6, bytes: 4e6, runs: 1}
	}
	stream := func(seconds float64, bytes int64) cost {
		return cost{op: "adam_step", phase: program.Update, seconds: seconds, bytes: bytes, runs: 1}
	}
	scalar := cost{op: "softmax", phase: program.Forward, seconds: 30 * ms, runs: 1}
	short := slices.Repeat([]cost{{op: "tiny", phase: program.Forward, seconds: 2 * us, fixed: 2 * us, runs: 1}}, 20)
	of := func(d program.DType, instrs ...cost) evidence { return onPaper(d, us, instrs...) }
	waiting := func(e evidence) evidence {
		e.loader = 40 * ms
		e.step += e.loader
		return e
	}
	tf32 := func(instrs ...cost) evidence {
		e := of(program.Float32, instrs...)
		e.tf32, e.peak, e.native = true, 0, true
		return e
	}
	plain := of(program.BFloat16, product(10*ms))
	plain.peak, plain.native = 100e9, true
	for _, c := range []struct {
		name       string
		full, half evidence
		words      []string
	}{
		{
			"faster multiply-adds", of(program.Float32, product(10*ms)), of(program.BFloat16, product(5*ms)),
			[]string{"(2.00x)", "pays", "160 GFLOP/s instead of 80 (at most 200 and 100)"},
		},
		{
			"faster products without faster multiply-adds", of(program.Float32, product(10*ms)), of(program.Float16, product(8*ms)),
			[]string{"(1.25x)", "pays", "100 GFLOP/s instead of 80, on operands half as wide"},
		},
		{
			"less traffic", of(program.Float32, product(10*ms), stream(10*ms, 90e6)), of(program.Float16, product(10*ms), stream(6*ms, 54e6)),
			[]string{"(1.25x)", "pays", "58.0 MB instead of 94.0"},
		},
		{
			"computed in float32", of(program.Float32, product(10*ms)), of(program.Float16, product(10*ms)),
			[]string{"(1.00x)", "does not pay", "multiplies float16 in float32", "80 GFLOP/s instead of 80"},
		},
		{"slower", of(program.Float32, product(10*ms)), of(program.Float16, product(12*ms)), []string{"(0.83x)", "costs time", "67 GFLOP/s instead of 80"}},
		{"no faster multiply-adds", of(program.Float32, product(10*ms)), plain, []string{"no faster in bfloat16 (at most 100 GFLOP/s, 100 in float32)"}},
		{"faster ones that are not reached", of(program.Float32, product(10*ms)), of(program.BFloat16, product(10*ms)), []string{"though 200 would be possible"}},
		{"input", waiting(of(program.Float32, product(ms))), waiting(of(program.BFloat16, product(ms/2))), []string{"does not pay", "the input takes as long"}},
		{"launches", of(program.Float32, short...), of(program.BFloat16, short...), []string{"does not pay", "20 instructions of 2.00 µs"}},
		{
			"state in float32", of(program.Float32, stream(10*ms, 90e6)), of(program.BFloat16, stream(10*ms, 88e6)),
			[]string{"does not pay", "88.0 MB instead of 90.0", "state stay float32"},
		},
		{"other arithmetic", of(program.Float32, product(ms), scalar), of(program.BFloat16, product(ms/2), scalar), []string{"does not pay", "no multiply-add"}},
		{"tf32, faster", of(program.Float32, product(10*ms)), tf32(product(5 * ms)), []string{"(2.00x): tf32 pays", "160 GFLOP/s instead of 80, on tensor cores"}},
		{"tf32, slower", of(program.Float32, product(10*ms)), tf32(product(12 * ms)), []string{"tf32 costs time", "67 GFLOP/s instead of 80."}},
		{"tf32, memory", of(program.Float32, stream(10*ms, 90e6)), tf32(stream(10*ms, 90e6)), []string{"tf32 does not pay", "as many bytes"}},
		{"tf32, launches", of(program.Float32, short...), tf32(short...), []string{"tf32 does not pay", "20 instructions of 2.00 µs"}},
		{"tf32, other arithmetic", of(program.Float32, product(ms), scalar), tf32(product(ms/2), scalar), []string{"tf32 does not pay", "no multiply-add; multiply-adds run at 1600"}},
	} {
		text := gain(c.full, c.half)
		for _, w := range c.words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q does not say %q", c.name, text, w)
			}
		}
		t.Log(text)
	}
}

// A machine that does other things meanwhile is told of.
func TestBusy(t *testing.T) {
	row := func(mean, fastest float64) *contender {
		return &contender{training: 10 * mean, updates: 10, fastest: fastest}
	}
	quiet := comparison{rows: []*contender{row(1, 1), row(1.1, 1), row(9, 1), {}}}
	if s := quiet.busy(); s != "" {
		t.Errorf("a quiet machine: %s", s)
	}
	loaded := comparison{rows: []*contender{row(2, 1), row(1, 1), row(9, 1)}}
	if s := loaded.busy(); !strings.Contains(s, "2.0x their shortest time") {
		t.Errorf("a busy machine: %q", s)
	}
	if s := (&comparison{rows: []*contender{{}}}).busy(); s != "" {
		t.Errorf("nothing measured: %q", s)
	}
}

func TestFixedPart(t *testing.T) {
	// 3 + 2·batch: 3 whatever the batch.
	for _, c := range []struct {
		a, b         float64
		batch, other int
		want         float64
	}{{3 + 2*8, 3 + 2*4, 8, 4, 3}, {3 + 2, 3 + 4, 1, 2, 3}, {8, 8, 16, 8, 8}, {8, 3, 2, 1, 0}, {8, 9, 2, 1, 8}} {
		if got := fixedPart(c.a, c.b, c.batch, c.other); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func compareConfig(t *testing.T, yaml string) *configs.Resolved {
	t.Helper()
	path := t.TempDir() + "/case.yaml"
	if err := os.WriteFile(path, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := configs.Load(path, []string{"device=cpu"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Cases made to be bound by each cause, measured: the verdict must find it. Every cause is far ahead of the others here, so
// that a busy machine does not change it.
func TestVerdictMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it measures for seconds")
	}
	for _, c := range []struct{ bound, yaml string }{
		{boundLaunch, `
epochs: 1
max_steps: 500
data: {name: random, batch_size: 1, random: {samples: 2048, features: 8, targets: 4}}
model: {layers: [{linear: {units: 8}}, sigmoid, {linear: {units: 8}}, sigmoid, {linear: {units: 4}}]}
loss: {name: mse}
optim: {name: sgd}
`},
		{boundArithmetic, `
epochs: 1
data: {name: random, batch_size: 256, random: {samples: 512, features: 1024, targets: 1024}}
model: {layers: [{linear: {units: 1024}}, relu, {linear: {units: 1024}}]}
loss: {name: mse}
optim: {name: sgd}
`},
		{boundMemory, `
epochs: 1
data: {name: random, batch_size: 1, random: {samples: 16, features: 65536, targets: 64}}
model: {layers: [{linear: {units: 64}}]}
loss: {name: mse}
optim: {name: adam}
`},
		{boundInput, `
epochs: 1
max_steps: 60
data: {name: mnist, batch_size: 256, resident: false, augment: {shift: 2}}
model: {layers: [flatten, {linear: {units: 10}}]}
optim: {name: sgd}
`},
	} {
		result, err := Compare(context.Background(), compareConfig(t, c.yaml), CompareOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := result.Rows[0]
		if r.BoundBy != c.bound {
			t.Errorf("made to be bound by %s: %+v", c.bound, r)
		}
		t.Log(result.Machine, r.Verdict)
		if r.Seconds <= 0 || r.ImagesPerS <= 0 || r.MSForward <= 0 || r.MSBackward <= 0 || r.MSUpdate <= 0 || r.MSInput <= 0 {
			t.Errorf("made to be bound by %s: a time is missing: %+v", c.bound, r)
		}
		if r.MemPeakBytes != r.MemPlannedBytes {
			t.Errorf("made to be bound by %s: peak %d bytes, planned %d", c.bound, r.MemPeakBytes, r.MemPlannedBytes)
		}
	}
}

const compareNet = `
epochs: 2
data: {name: mnist, batch_size: 512, validation: 59000}
model: {layers: [flatten, {linear: {units: 16}}, relu, {linear: {units: 10}}]}
optim: {name: adam}
`

// Rows in turns train exactly as runs on their own do.
func TestCompareTrainsAsTrainDoes(t *testing.T) {
	r := compareConfig(t, compareNet)
	o := CompareOptions{Precisions: []string{"fp32", "fp16"}, BatchSizes: []int{100, 300}, Seeds: 2}
	c, err := Compare(context.Background(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Rows) != 4 || !c.TookTurns || c.Epochs != 2 || c.Err != nil {
		t.Fatalf("%+v", c)
	}
	n := 0
	for _, p := range o.Precisions {
		for _, b := range o.BatchSizes {
			row := c.Rows[n]
			n++
			if row.Precision != p || row.BatchSize != b {
				t.Fatalf("row %d is %s %d, want %s %d", n, row.Precision, row.BatchSize, p, b)
			}
			var accuracy, skipped []float64
			for seed := range uint64(o.Seeds) {
				cfg, err := trainer.Precision(r.Config, p)
				if err != nil {
					t.Fatal(err)
				}
				cfg.Data.BatchSize, cfg.Seed, cfg.RunsDir = b, cfg.Seed+seed, t.TempDir()
				s, _, err := trainer.Train(context.Background(), &configs.Resolved{Config: cfg}, trainer.SessionOptions{})
				if err != nil {
					t.Fatal(err)
				}
				accuracy, skipped = append(accuracy, *s.TestAccuracy), append(skipped, float64(s.SkippedSteps))
				if seed == 1 && (row.FinalLossScale != s.FinalLossScale || row.MemPlannedBytes != s.MemPlannedBytes || row.MemPeakBytes != s.MemPeakBytes) {
					t.Errorf("%s %d: scale %v, memory %d and %d; the run has %v, %d and %d", p, b, row.FinalLossScale, row.MemPlannedBytes, row.MemPeakBytes,
						s.FinalLossScale, s.MemPlannedBytes, s.MemPeakBytes)
				}
			}
			mean, std := meanStd(accuracy)
			skips, _ := meanStd(skipped)
			if row.AccuracyMean == nil || row.AccuracyStd == nil || *row.AccuracyMean != mean || *row.AccuracyStd != std || row.SkippedSteps != skips {
				t.Errorf("%s %d: %+v; the runs have accuracy %v ± %v, %v skipped", p, b, row, mean, std, skips)
			}
			if row.SecondsNotResident == nil || row.MSEvaluation == nil || row.Verdict == "" || row.BoundBy == "" {
				t.Errorf("%s %d: something is missing: %+v", p, b, row)
			}
		}
	}
	if first := c.Rows[0]; first.Speedup != 1 || first.MemoryRatio != 1 {
		t.Errorf("first row: %+v", first)
	}
	if last := c.Rows[3]; last.Speedup != c.Rows[0].Seconds/last.Seconds || last.MemoryRatio != float64(last.MemPeakBytes)/float64(c.Rows[0].MemPeakBytes) {
		t.Errorf("last row: %+v", last)
	}
}

// What cannot be followed is refused in one line with exit code 2, before anything runs.
func TestCompareRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		o    CompareOptions
		want string
	}{
		{"precision", CompareOptions{Precisions: []string{"fp32", "fp12"}}, `--precision: "fp12", want fp32, tf32, fp16 or bf16`},
		{"tf32 on the CPU", CompareOptions{Precisions: []string{"fp32", "tf32"}}, "--precision: tf32 needs an NVIDIA GPU, the device is cpu; take fp32 there, or device=cuda"},
		{"batch 0", CompareOptions{BatchSizes: []int{512, 0}}, "--batch-sizes: 0"},
		{"batch above the data", CompareOptions{BatchSizes: []int{512, 1001}}, "fp32 at batch 1001: trainer: data.batch_size: 1001, but there are only 1000"},
		{"epochs", CompareOptions{Epochs: -1}, "--epochs: -1"},
		{"seeds", CompareOptions{Seeds: -1}, "--seeds: -1"},
	} {
		c.o.Progress = func(s string) { t.Errorf("%s: ran: %s", c.name, s) }
		_, err := Compare(context.Background(), compareConfig(t, compareNet), c.o)
		var own *Error
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") ||
			!errors.As(err, &own) && trainer.ExitCode(err) != trainer.ExitUsage {
			t.Errorf("%s: error %v with exit code %d, want %q", c.name, err, trainer.ExitCode(err), c.want)
		}
	}
	huge := compareConfig(t, strings.Replace(compareNet, "units: 16", "units: 2000000000", 1))
	if _, err := Compare(context.Background(), huge, CompareOptions{}); trainer.ExitCode(err) != trainer.ExitUsage || !strings.Contains(err.Error(), "bytes are free") {
		t.Errorf("a net of 2 billion units: %v", err)
	}
	many := compareConfig(t, compareNet)
	many.Config.Optim.Accumulate = 3
	var own *Error
	if _, err := Compare(context.Background(), many, CompareOptions{}); !errors.As(err, &own) {
		t.Errorf("3 micro-batches of 512 of 1000 samples: %v", err)
	}
}

// A row that diverges is told and does not end the others.
func TestCompareDivergence(t *testing.T) {
	r := compareConfig(t, strings.Replace(compareNet, "{name: adam}", "{name: sgd, lr: 1.0e30}", 1))
	r.Config.AMP.GradScaler.MaxConsecutiveSkips = 2
	c, err := Compare(context.Background(), r, CompareOptions{Precisions: []string{"bf16", "fp32"}})
	if err != nil {
		t.Fatal(err)
	}
	if trainer.ExitCode(c.Err) != trainer.ExitDiverged {
		t.Errorf("exit code %d of %v", trainer.ExitCode(c.Err), c.Err)
	}
	for _, row := range c.Rows {
		if !strings.Contains(row.Verdict, "diverged") || row.Error == "" || row.BoundBy != "" {
			t.Errorf("%+v", row)
		}
	}
}

// The bandwidth of a size that fits in a cache is at least about that of memory, and no figure is missing.
func TestLimits(t *testing.T) {
	d, err := cpu.Open(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l := newLimits(d)
	l.need(1000)
	l.need(40000)
	l.measurePeaks()
	if err := l.measureBandwidth(); err != nil {
		t.Fatal(err)
	}
	t.Log(l, l.bandwidth(1000)/1e9, l.bandwidth(40000)/1e9)
	for _, n := range []int64{1000, 40000, 1 << 40} {
		if l.bandwidth(n) <= 0 {
			t.Errorf("no bandwidth for %d bytes", n)
		}
	}
	for n, want := range map[int64]int64{1: smallestStream, smallestStream + 1: 2 * smallestStream, 1 << 20: 1 << 20, 1 << 40: largestStream} {
		if got := streamSize(n); got != want {
			t.Errorf("size %d stands for %d, want %d", got, n, want)
		}
	}
	if flops, native := l.peak(program.Float16); native || flops != l.peaks[program.Float32] || flops <= 0 {
		t.Errorf("float16: %v, %v; want float32's peak %v", flops, native, l.peaks[program.Float32])
	}
	if m := d.Memory(); m.Allocated != 0 {
		t.Errorf("%d bytes are left", m.Allocated)
	}
}
