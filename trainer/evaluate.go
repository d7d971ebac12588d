package trainer

import (
	"context"
	"fmt"
	"math"
	"time"

	"halfstep/device"
	"halfstep/program"
	"halfstep/runs"
)

// evaluator runs the forward-only programs over one split.
type evaluator struct {
	split      split
	order      []int32
	full, tail *unit // nil when the split has fewer, or no more, samples than a batch
}

// Evaluation is the result of one pass over a split.
type Evaluation struct {
	Loss     float64
	Accuracy float64 // NaN where there are no classes
	Samples  int
	Seconds  float64
}

func (t *Trainer) buildEvaluators() error {
	t.evals = map[string]*evaluator{}
	splits := map[string]*evaluator{}
	if n := t.set.Test.N; n > 0 {
		splits["test"] = &evaluator{split: split{"test", "test", n}, order: identity(n)}
	}
	if n := len(t.set.ValIndex); n > 0 {
		splits["validation"] = &evaluator{split: split{"validation", "train", n}, order: t.set.ValIndex}
	}
	for _, name := range []string{"test", "validation"} {
		e := splits[name]
		if e == nil {
			continue
		}
		if err := t.buildEvaluator(e); err != nil {
			return err
		}
		t.evals[name] = e
	}
	return nil
}

func (t *Trainer) buildEvaluator(e *evaluator) error {
	batch := evalBatch(t.cfg)
	name := "evaluate-" + e.split.name
	if e.split.n >= batch {
		p, err := t.asm.evaluate(name, batch, e.split)
		if err != nil {
			return err
		}
		e.full = t.add(p, batch)
	}
	if rest := e.split.n % batch; rest > 0 {
		p, err := t.asm.evaluate(name+"-tail", rest, e.split)
		if err != nil {
			return err
		}
		e.tail = t.add(p, rest)
	}
	return nil
}

func identity(n int) []int32 {
	r := make([]int32, n)
	for i := range r {
		r[i] = int32(i)
	}
	return r
}

// Evaluate runs the model over a split, "test" or "validation", with dropout off and running statistics.
func (t *Trainer) Evaluate(ctx context.Context, name string) (Evaluation, error) {
	e := t.evals[name]
	if e == nil {
		return Evaluation{}, fmt.Errorf("trainer: evaluate: there is no %s split", name)
	}
	start := time.Now()
	if err := device.Write(t.store, evalCounters, make([]int32, program.NumCounters)); err != nil {
		return Evaluation{}, fmt.Errorf("trainer: evaluate: %w", err)
	}
	batches := 0
	if e.full != nil {
		batches = e.split.n / e.full.samples
		if err := t.runEvaluation(ctx, e.full, e, 0, batches); err != nil {
			return Evaluation{}, err
		}
	}
	if e.tail != nil {
		batches++
		if err := t.runEvaluation(ctx, e.tail, e, e.split.n-e.tail.samples, 1); err != nil {
			return Evaluation{}, err
		}
	}
	ring, err := device.Read[float32](t.store, evalRing, t.asm.evalRows()*program.NumRing)
	if err != nil {
		return Evaluation{}, fmt.Errorf("trainer: evaluate: %w", err)
	}
	var s sums
	for b := range batches {
		s.add(ring[b*program.NumRing:][:program.NumRing], t.asm.summedLoss())
	}
	return Evaluation{Loss: s.loss(), Accuracy: s.accuracy(t.set.Classes), Samples: int(s.Count), Seconds: time.Since(start).Seconds()}, nil
}

// sums add up rows of a ring, so that a smaller last batch counts as what it is.
type sums struct {
	Loss    float   `json:"loss"` // of samples
	Correct float64 `json:"correct"`
	Count   float64 `json:"count"`
}

// add counts a row in. Its loss is a mean over the batch's samples, or their sum where summed.
func (s *sums) add(row []float32, summed bool) {
	n := float64(row[program.RingCount])
	if summed {
		s.Loss += float(row[program.RingLoss])
	} else {
		s.Loss += float(float64(row[program.RingLoss]) * n)
	}
	s.Correct += float64(row[program.RingCorrect])
	s.Count += n
}

func (s *sums) loss() float64 { return float64(s.Loss) / s.Count }

func (s *sums) accuracy(classes int) float64 {
	if classes == 0 {
		return math.NaN()
	}
	return s.Correct / s.Count
}

// event is an evaluation as the log has it.
func (e Evaluation) event(name string, epoch, step int) runs.Evaluation {
	ev := runs.Evaluation{
		Split: name, Epoch: epoch, Step: step, Samples: e.Samples, Seconds: e.Seconds,
		ImagesPerS: float64(e.Samples) / e.Seconds,
	}
	if name == "test" {
		ev.TestLoss, ev.TestAccuracy = &e.Loss, number(e.Accuracy)
	} else {
		ev.ValLoss, ev.ValAccuracy = &e.Loss, number(e.Accuracy)
	}
	return ev
}
