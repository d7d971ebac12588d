package bench

import (
	"math"
	"strings"
	"testing"

	"halfstep/program"
)

// says checks that a conclusion has all of some words and none of others.
func says(t *testing.T, conclusion string, want []string, not ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(conclusion, w) {
			t.Errorf("%q does not say %q", conclusion, w)
		}
	}
	for _, w := range not {
		if strings.Contains(conclusion, w) {
			t.Errorf("%q says %q", conclusion, w)
		}
	}
}

// batchRows makes rows of a device whose step costs fixed + batch·each milliseconds.
func batchRows(device string, fixed, each float64, batches ...int) []BatchRow {
	var rows []BatchRow
	for _, b := range batches {
		ms := fixed + each*float64(b)
		rate := float64(b) / ms * 1e3
		rows = append(rows, BatchRow{Device: device, Batch: b, MSStep: ms, ImagesPerS: rate, EpochSeconds: 60000 / rate})
	}
	return rows
}

// TestBatchConclusion on made-up machines whose cost is known.
func TestBatchConclusion(t *testing.T) {
	conclude := func(rows []BatchRow) string {
		relateBatches(rows)
		return batchConclusion(rows)
	}
	// 10 µs a step and 1 µs an image: batch 1 costs 11 µs, batch 512 522 µs, 10.8 times the rate; 10 of 11 µs are fixed.
	cpu := batchRows("cpu", 0.010, 0.001, 1, 8, 512)
	says(t, conclude(cpu), []string{"batch 512 trains 10.8 times as many images per second as batch 1", "91% of a step of 1", "(10 µs)"}, "cuda")
	// No fixed cost: batches do not matter.
	says(t, conclude(batchRows("cpu", 0, 0.001, 1, 8, 512)), []string{"no batch is faster than 1"})
	// The fastest batch is in the middle.
	middle := batchRows("cpu", 0.010, 0.001, 1, 8, 512)
	middle[2].ImagesPerS = middle[0].ImagesPerS / 2
	says(t, conclude(middle), []string{"batch 8 trains"}, "batch 512")
	// A GPU with a dear launch and cheap images wins at large batches only.
	both := append(batchRows("cpu", 0.010, 0.001, 1, 512), batchRows("cuda", 0.050, 0.0001, 1, 512)...)
	says(t, conclude(both), []string{"cpu is the faster device at batch 1, cuda at batch 512"})
	both = append(batchRows("cpu", 0.010, 0.001, 1, 512), batchRows("cuda", 0.005, 0.0001, 1, 512)...)
	says(t, conclude(both), []string{"cuda is the faster device at batch 1 and at batch 512"})
}

// TestMLPConclusion: the winner of the warm loop, and of the whole where that is another.
func TestMLPConclusion(t *testing.T) {
	row := func(net, device string, build, us float64) MLPRow {
		return MLPRow{Net: net, Device: device, Iterations: 10000, Build: build, Cold: us / 1e6, Warm: 9999 * us / 1e6, Again: us / 100, USStep: us, Asked: us / 100}
	}
	says(t, mlpConclusion([]MLPRow{row("small", "cpu", 0.1, 100)}), []string{"small: only cpu is here", "100 µs", "1 s"}, "wins")
	says(t, mlpConclusion([]MLPRow{row("small", "cpu", 0.1, 100), row("small", "cuda", 3, 300), row("large", "cpu", 0.1, 9000), row("large", "cuda", 3, 350)}),
		[]string{"small: cpu wins, 100 µs an iteration against 300 µs on cuda.", "large: cuda wins, 350 µs an iteration against 9e+03 µs on cpu."}, "Counting")
	// The post's case: the GPU's loop is a little faster, but its start takes 3 s.
	says(t, mlpConclusion([]MLPRow{row("small", "cpu", 0.1, 403), row("small", "cuda", 3.2, 353)}),
		[]string{"cuda wins, 353 µs", "Counting the start, cpu wins"})
	// Three devices: best and second.
	says(t, mlpConclusion([]MLPRow{row("n", "a", 0, 30), row("n", "b", 0, 10), row("n", "c", 0, 20)}), []string{"b wins, 10 µs an iteration against 20 µs on c"})
}

func TestTutorialConclusion(t *testing.T) {
	rows := []TutorialRow{
		{Device: "cpu", Precision: "fp32", MSStep: 300, MemPeak: 1000},
		{Device: "cpu", Precision: "bf16", MSStep: 150, MemPeak: 900},
		{Device: "cuda", Precision: "fp32", MSStep: 10, MemPeak: 1000},
		{Device: "cuda", Precision: "bf16", MSStep: 20, MemPeak: 1100},
	}
	compareRows(rows)
	says(t, tutorialConclusion(rows), []string{
		"On cpu bf16 is 2.00 times as fast as fp32, in 90% of its memory.", "On cuda bf16 is 0.50 times as fast as fp32, in 110% of its memory.",
	})
}

func TestMatMulConclusion(t *testing.T) {
	rows := []MatMulRow{{Device: "cpu", DType: "float64", BestMS: 20}, {Device: "cpu", DType: "float32", BestMS: 10}, {Device: "cuda", DType: "float64", BestMS: 40}, {Device: "cuda", DType: "float32", BestMS: 1}}
	says(t, matMulConclusion(rows), []string{"On cpu float32 is 2.00 times as fast as float64.", "float64 is 0.50 times as fast on cuda as on cpu.", "On cuda float32 is 40.00 times"})
}

func TestScalerConclusion(t *testing.T) {
	r := &ScalerResult{Steps: 100, InitScale: 1 << 16, FinalScale: 1 << 16}
	says(t, scalerConclusion(r), []string{"No gradient overflowed in 100 steps", "2^16"}, "skipped")
	r = &ScalerResult{Steps: 50, Skipped: 2, InitScale: 1 << 20, FinalScale: 1 << 19, Changes: []ScaleRow{
		{Step: 1, Cause: "backoff", Before: 1 << 20, After: 1 << 19, FirstBadTensor: "conv1/weight/grad"},
		{Step: 2, Cause: "backoff", Before: 1 << 19, After: 1 << 18, FirstBadTensor: "loss/dx"},
		{Step: 30, Cause: "growth", Before: 1 << 18, After: 1 << 19},
	}}
	says(t, scalerConclusion(r), []string{"2 of 50 steps", "step 1 at 2^20, where conv1/weight/grad overflowed first", "grew 1 times", "between 2^18 and 2^20", "ended at 2^19"})
	if Power(3) != "3" || Power(0.5) != "2^-1" || Power(1) != "2^0" {
		t.Error(Power(3), Power(0.5), Power(1))
	}
}

func TestAccuracyConclusion(t *testing.T) {
	r := &AccuracyResult{Target: 0.99, Rows: []AccuracyRow{
		{Reached: true, Seconds: 2, TestAccuracy: 0.992}, {Reached: true, Seconds: 4, TestAccuracy: 0.991}, {Seconds: 6, TestAccuracy: 0.9895},
	}}
	r.sumUp()
	says(t, r.Conclusion, []string{"2 of 3 seeds reached 99.00%", "4.00 s a seed (std 2.00)", "test accuracy 99.083%", "the mean reaches it"})
	r.Target = 0.995
	r.sumUp()
	says(t, r.Conclusion, []string{"the mean does not reach it"})
}

func TestStatistics(t *testing.T) {
	if m := median([]float64{3, 1, 2}); m != 2 {
		t.Error(m)
	}
	if m := median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Error(m)
	}
	if !math.IsNaN(median(nil)) {
		t.Error("the median of nothing is a number")
	}
	// 1, 2, 3, 4: mean 2.5, sample variance 5/3.
	if mean, std := meanStd([]float64{1, 2, 3, 4}); mean != 2.5 || math.Abs(std-math.Sqrt(5.0/3)) > 1e-15 {
		t.Error(mean, std)
	}
	if _, std := meanStd([]float64{7}); std != 0 {
		t.Error(std)
	}
}

// TestSetTimes: 1e9 FLOPs in a median of 2 ms are 500 GFLOP/s.
func TestSetTimes(t *testing.T) {
	peak := 1000.0
	r := &StepResult{Batch: 64, FLOPs: 1e9}
	r.setTimes([]float64{2, 1, 9})
	lower := 800.0
	r.setPeaks(peaks{program.Float32: lower}.or(peaks{program.Float32: peak}))
	if r.MSMedian != 2 || r.MSMin != 1 || r.ImagesPerS != 32000 || r.GFLOPS != 500 || *r.PercentOfPeak != 50 {
		t.Errorf("%+v, %v%%", r, *r.PercentOfPeak)
	}
}
