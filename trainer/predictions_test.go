package trainer

import (
	"bytes"
	"context"
	"math"
	"testing"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device/cpu"
	"halfstep/runs"
)

// fewTests is how many test images are left: no more than Predictions keeps, so that the test sees every one.
const fewTests = worstSamples - 1

// predict trains a small model for a few steps and predicts n test images; 0: all.
func predict(t *testing.T, n int, overrides ...string) (*data.Set, *runs.Predictions, Evaluation) {
	t.Helper()
	r, err := configs.Load("mlp", append([]string{"data.batch_size=64", "max_steps=20", "model.layers=[flatten, {linear: {units: 10}}]"}, overrides...))
	if err != nil {
		t.Fatal(err)
	}
	set, err := data.Open(r.Config.Data, r.Config.Seed)
	if err != nil {
		t.Fatal(err)
	}
	if n > 0 {
		set.Test.N, set.Test.Images, set.Test.Labels = n, set.Test.Images[:n*set.Height*set.Width], set.Test.Labels[:n]
	}
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := New(r.Config, set, dev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close(); dev.Close() })
	if _, err := tr.Fit(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := dev.Memory()
	p, err := tr.Predictions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if after := dev.Memory(); after != before {
		t.Errorf("memory of the device went from %+v to %+v", before, after)
	}
	e, err := tr.Evaluate(context.Background(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return set, p, e
}

// The confusion matrix has every test image once, in the row of its label, and its diagonal is the accuracy that Evaluate
// counts on the device.
func TestConfusion(t *testing.T) {
	for _, setting := range []string{"data.resident=true", "amp={enabled: true, dtype: float16}", "data.resident=false"} {
		set, p, e := predict(t, 0, setting)
		perLabel := make([]int, set.Classes)
		for _, l := range set.Test.Labels {
			perLabel[l]++
		}
		diagonal := 0
		for label, row := range p.Confusion {
			sum := 0
			for _, n := range row {
				sum += n
			}
			if sum != perLabel[label] {
				t.Errorf("%s: row %d counts %d images of %d", setting, label, sum, perLabel[label])
			}
			diagonal += row[label]
		}
		if got := float64(diagonal) / float64(set.Test.N); got != e.Accuracy {
			t.Errorf("%s: the diagonal is %v of the images, the accuracy %v", setting, got, e.Accuracy)
		}
		if len(p.Worst) != worstSamples {
			t.Errorf("%s: %d images are kept, want %d", setting, len(p.Worst), worstSamples)
		}
	}
}

// With so few images that all are kept, each is there once with its own pixels, worst first, and their mean loss is what the
// loss kernel computed.
func TestWorst(t *testing.T) {
	set, p, e := predict(t, fewTests)
	size, mean := set.Height*set.Width, 0.0
	seen := map[int]bool{}
	for k, s := range p.Worst {
		if seen[s.Index] || s.Label != int(set.Test.Labels[s.Index]) || !bytes.Equal(s.Pixels, set.Test.Images[s.Index*size:][:size]) {
			t.Errorf("image %d is there twice, or with another label or other pixels", s.Index)
		}
		seen[s.Index] = true
		if k > 0 && *s.Loss > *p.Worst[k-1].Loss {
			t.Errorf("image %d of loss %v comes after one of %v", s.Index, *s.Loss, *p.Worst[k-1].Loss)
		}
		if right, sure := s.Predicted == s.Label, math.Abs(*s.Loss+math.Log(*s.Probability)); right && sure > 1e-12 {
			t.Errorf("image %d is right with probability %v, but its loss is %v", s.Index, *s.Probability, *s.Loss)
		}
		mean += *s.Loss / fewTests
	}
	if len(seen) != fewTests {
		t.Errorf("%d images, want %d", len(seen), fewTests)
	}
	// The kernel computes in float32 or better and stores a float32: a few units of its rounding.
	if d := math.Abs(mean/e.Loss - 1); d > 4*math.Pow(2, -24) {
		t.Errorf("mean loss %v, Evaluate has %v", mean, e.Loss)
	} else {
		t.Logf("relative difference of the mean loss %.1e", d)
	}
}

// Closed forms of one row.
func TestScore(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		what          string
		row           []float32
		label         int
		probabilities bool
		predicted     int
		p, loss       float64 // NaN: none
	}{
		{"equal logits", []float32{7, 7}, 1, false, 0, 0.5, math.Ln2},
		{"a difference of 1", []float32{0, 1}, 0, false, 1, 1 / (1 + math.Exp(-1)), 1 + math.Log1p(math.Exp(-1))},
		{"no overflow", []float32{3e38, 0}, 1, false, 0, 1, 1e300}, // limited
		{"probabilities", []float32{0.25, 0.75}, 0, true, 1, 0.75, math.Log(4)},
		{"a probability of 0", []float32{0, 1}, 0, true, 1, 1, 1e300},
		{"infinite", []float32{inf, 0}, 0, false, 0, math.NaN(), math.NaN()},
		{"not a number", []float32{0, float32(math.NaN())}, 0, false, 0, math.NaN(), math.NaN()},
	} {
		s := score(c.row, c.label, c.probabilities)
		if math.IsNaN(c.p) {
			if s.Probability != nil || s.Loss != nil {
				t.Errorf("%s: %v %v, want none", c.what, *s.Probability, *s.Loss)
			}
			continue
		}
		want := min(c.loss, -math.Log(math.SmallestNonzeroFloat64))
		if s.Predicted != c.predicted || math.Abs(*s.Probability-c.p) > 1e-15 || math.Abs(*s.Loss/want-1) > 1e-15 {
			t.Errorf("%s: class %d, probability %v, loss %v; want %d, %v, %v", c.what, s.Predicted, *s.Probability, *s.Loss, c.predicted, c.p, want)
		}
	}
}
