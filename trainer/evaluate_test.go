package trainer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"halfstep/data"
	"halfstep/optim"
	"halfstep/runs"
)

// still is a rate that moves no float32 parameter.
const still = "optim={name: sgd, lr: 1e-30}"

func evaluate(t *testing.T, tr *Trainer, name string) Evaluation {
	t.Helper()
	e, err := tr.Evaluate(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEvaluationWithoutDropout: evaluating a net with dropout gives the bits of the same net without it.
func TestEvaluationWithoutDropout(t *testing.T) {
	set, dev := images(t, 64, 200), open(t, nil, 0)
	with := newTrainer(t, load(t, smallCNN).Config, set, dev, Options{})
	without := newTrainer(t, load(t, smallCNN, "model.layers.4.dropout.rate=0", "model.layers.8.dropout.rate=0").Config, set, dev, Options{})
	a, b := evaluate(t, with, "test"), evaluate(t, without, "test")
	if !sameBits(a.Loss, b.Loss) || a.Accuracy != b.Accuracy || a.Samples != 200 {
		t.Errorf("%+v, without dropout %+v", a, b)
	}
	if again := evaluate(t, with, "test"); !sameBits(a.Loss, again.Loss) {
		t.Errorf("a second time %+v", again)
	}
}

// TestTailCountsAsItIs: the mean loss over 200 samples is the same whatever batches they come in, with a last one of 8 or of
// 72, in evaluation and in training. A sum of 200 float32 losses rounds by at most 200 ulp, 1.2e-5 of it; means over batches
// in float64 by far less.
func TestTailCountsAsItIs(t *testing.T) {
	dev := open(t, nil, 0)
	for _, loss := range []string{"{name: cross_entropy}", "{name: mse, reduction: mean}", "{name: mse, reduction: batch_mean}", "{name: mse, reduction: sum}"} {
		var first *runs.Epoch
		for _, batch := range []int{200, 96, 64, 100} {
			set := images(t, 200, 0)
			set.Test = set.Train
			c := load(t, linearNet, still, "epochs=1", "loss="+loss, fmt.Sprintf("data.batch_size=%d", batch)).Config
			_, r, _ := fit(t, c, set, dev)
			e := of[runs.Epoch](r)[0]
			if first == nil {
				first = &e
			}
			for what, got := range map[string]float64{"training": e.TrainLoss, "test": *e.TestLoss} {
				if d := math.Abs(got-first.TrainLoss) / first.TrainLoss; !(d < 1.2e-5) {
					t.Errorf("%s, batch %d: %s loss %v, in one batch %v", loss, batch, what, got, first.TrainLoss)
				}
			}
			if *e.TrainAccuracy != *first.TrainAccuracy || *e.TestAccuracy != *first.TrainAccuracy {
				t.Errorf("%s, batch %d: accuracies %v and %v, want %v", loss, batch, *e.TrainAccuracy, *e.TestAccuracy, *first.TrainAccuracy)
			}
		}
		t.Logf("%s: %v a sample", loss, first.TrainLoss)
	}
}

// TestDropLast: the incomplete batch is left out of training only.
func TestDropLast(t *testing.T) {
	for _, c := range []struct {
		drop  bool
		steps int
	}{{false, 4}, {true, 3}} {
		cfg := load(t, linearNet, "epochs=1", "data.batch_size=64", fmt.Sprintf("data.drop_last=%v", c.drop)).Config
		tr, r, result := fit(t, cfg, images(t, 200, 70), open(t, nil, 0))
		if result.Steps != c.steps || tr.state.Samples != int64(min(200, 64*c.steps)) || of[runs.Evaluation](r)[0].Samples != 70 {
			t.Errorf("drop_last %v: %d steps of %d samples, tested on %d", c.drop, result.Steps, tr.state.Samples, of[runs.Evaluation](r)[0].Samples)
		}
	}
}

// TestHeldOut: neither the images held out nor the test set change what is trained, with early choices that look at the former.
func TestHeldOut(t *testing.T) {
	dev := open(t, nil, 0)
	c := load(t, smallCNN, "data.validation=40", "checkpoint.best=true").Config
	train := func(spoil func(s *data.Set)) *recorder {
		set := hold(images(t, 200, 50), 40)
		set.Train.Images, set.Train.Labels = slices.Clone(set.Train.Images), slices.Clone(set.Train.Labels)
		set.Test.Labels = slices.Clone(set.Test.Labels)
		spoil(set)
		_, r, _ := fit(t, c, set, dev)
		return r
	}
	want := train(func(*data.Set) {})
	held := train(func(s *data.Set) {
		clear(s.Train.Images[160*784:])
		clear(s.Train.Labels[160:])
	})
	for k, w := range want.last().Tensors {
		if !slices.Equal(w.Data, held.last().Tensors[k].Data) {
			t.Errorf("%s depends on the images held out", w.Name)
		}
	}
	tested := train(func(s *data.Set) { clear(s.Test.Labels) })
	if a, b := of[runs.Epoch](want)[2], of[runs.Epoch](tested)[2]; *a.TestLoss == *b.TestLoss || *a.ValLoss != *b.ValLoss || len(want.best) != len(tested.best) {
		t.Errorf("%+v, with other test labels %+v", a, b)
	}
}

// TestPlateau: the rate of each epoch is what the schedule makes of the validation losses in the log.
func TestPlateau(t *testing.T) {
	c := load(t, smallCNN, "epochs=6", "data.validation=40", "optim.schedule={name: plateau, patience: 1, factor: 0.1, threshold: 0.2}").Config
	_, r, _ := fit(t, c, hold(images(t, 200, 50), 40), open(t, nil, 0))
	s, err := optim.NewSchedule(c.Optim, c.Epochs, 5)
	if err != nil {
		t.Fatal(err)
	}
	var rates []float64
	for _, e := range of[runs.Epoch](r) {
		want, _ := s.At(0)
		if float32(e.LR) != float32(want) {
			t.Errorf("epoch %d: rate %v, want %v", e.Epoch, e.LR, want)
		}
		rates = append(rates, e.LR)
		s.EndEpoch(5, *e.ValLoss)
	}
	if rates[0] == rates[5] {
		t.Error("the rate never fell")
	}
	t.Logf("rates %v", rates)
}

// TestBest: the best checkpoint is the one whose validation accuracy the run reports as its best.
func TestBest(t *testing.T) {
	c := load(t, smallCNN, "epochs=5", "data.validation=40", "checkpoint.best=true").Config
	set, dev := hold(images(t, 200, 50), 40), open(t, nil, 0)
	_, r, result := fit(t, c, set, dev)
	best, improved := math.Inf(-1), 0
	for _, e := range of[runs.Epoch](r) {
		if *e.ValAccuracy > best {
			best = *e.ValAccuracy
			improved++
		}
	}
	if result.BestVal == nil || *result.BestVal != best || len(r.best) != improved {
		t.Fatalf("best %v saved %d times, want %v saved %d times", result.BestVal, len(r.best), best, improved)
	}
	tr := newTrainer(t, c, set, dev, Options{})
	if err := tr.RestoreWeights(onDisk(t, r.best[len(r.best)-1])); err != nil {
		t.Fatal(err)
	}
	if e := evaluate(t, tr, "validation"); e.Accuracy != best {
		t.Errorf("the best checkpoint has accuracy %v, want %v", e.Accuracy, best)
	}
}

// TestMaxSteps: the run ends after so many updates, evaluated, also where that is the end of an epoch.
func TestMaxSteps(t *testing.T) {
	for _, c := range []struct{ steps, epochs, whole int }{{3, 1, 0}, {4, 1, 1}, {6, 2, 1}} {
		cfg := load(t, linearNet, "data.batch_size=64", fmt.Sprintf("max_steps=%d", c.steps)).Config
		_, r, result := fit(t, cfg, images(t, 200, 50), open(t, nil, 0))
		if list := of[runs.Epoch](r); len(list) != c.epochs || list[len(list)-1].Step != c.steps || math.IsNaN(list[len(list)-1].TrainLoss) {
			t.Errorf("max_steps %d: %+v", c.steps, list)
		}
		if !result.MaxSteps || result.Epochs != c.whole || result.Steps != c.steps || result.Test == nil || r.last().Step != c.steps {
			t.Errorf("max_steps %d: %+v", c.steps, result)
		}
	}
}
