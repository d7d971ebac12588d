package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"halfstep/device"
	"halfstep/program"
	"halfstep/runs"
)

// worstSamples is how many images Predictions keeps.
const worstSamples = 24

// Predictions is what the parameters, as they are, make of the test images. It runs the evaluation's programs instruction by
// instruction and reads their logits, so that it needs no memory on the device. It is nil where there are no test images with
// classes, or where the device cannot run so.
func (t *Trainer) Predictions(ctx context.Context) (*runs.Predictions, error) {
	e := t.evals["test"]
	if e == nil || t.set.Classes == 0 {
		return nil, nil
	}
	logits, err := t.logits(ctx, e)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("trainer: predictions: %w", err)
	}
	p := &runs.Predictions{
		Split: e.split.name, Step: t.state.attempts(), Samples: e.split.n, Shape: []int{t.set.Height, t.set.Width, t.set.Channels},
	}
	for range t.set.Classes {
		p.Confusion = append(p.Confusion, make([]int, t.set.Classes))
	}
	layers := t.cfg.Model.Layers
	probabilities := layers[len(layers)-1].Kind == "softmax"
	all := make([]runs.Sample, e.split.n)
	for i := range all {
		all[i] = score(logits[i*t.set.Classes:][:t.set.Classes], int(t.set.Test.Labels[i]), probabilities)
		all[i].Index = i
		p.Confusion[all[i].Label][all[i].Predicted]++
	}
	slices.SortStableFunc(all, func(a, b runs.Sample) int { return cmp.Compare(lossOr(b), lossOr(a)) })
	p.Worst = all[:min(worstSamples, len(all))]
	size := t.set.Height * t.set.Width * t.set.Channels
	for k := range p.Worst {
		p.Worst[k].Pixels = t.set.Test.Images[p.Worst[k].Index*size:][:size]
	}
	return p, nil
}

// lossOr is a sample's loss; more than any where its outputs are not finite.
func lossOr(s runs.Sample) float64 {
	if s.Loss == nil {
		return math.Inf(1)
	}
	return *s.Loss
}

// logits are the model's outputs over a split, [N,C].
func (t *Trainer) logits(ctx context.Context, e *evaluator) ([]float32, error) {
	if err := device.Write(t.store, evalCounters, make([]int32, program.NumCounters)); err != nil {
		return nil, err
	}
	r := make([]float32, 0, e.split.n*t.set.Classes)
	visit := func(i *program.Instr, read func(*program.Value) []float32) bool {
		if _, ok := i.Op.(program.CountCorrect); ok {
			r = append(r, read(i.In[0])...)
		}
		return true // the program's end moves the counters to the next batch
	}
	if e.full != nil {
		for b := range e.split.n / e.full.samples {
			if err := t.feedEvaluation(e.full, e, b*e.full.samples); err != nil {
				return nil, err
			}
			if err := e.full.exec.Trace(ctx, visit); err != nil {
				return nil, err
			}
		}
	}
	if e.tail != nil {
		if err := t.feedEvaluation(e.tail, e, e.split.n-e.tail.samples); err != nil {
			return nil, err
		}
		if err := e.tail.exec.Trace(ctx, visit); err != nil {
			return nil, err
		}
	}
	if len(r) != cap(r) {
		return nil, fmt.Errorf("%d outputs of %d samples, want %d", len(r), e.split.n, cap(r))
	}
	return r, nil
}

// score turns a row of outputs and its label into a Sample. Probabilities are the softmax of the outputs, or the outputs
// themselves where they are probabilities already. A probability of 0 gives the largest loss that a float64 logarithm has.
func score(row []float32, label int, probabilities bool) runs.Sample {
	s := runs.Sample{Label: label}
	for k, v := range row {
		if v > row[s.Predicted] {
			s.Predicted = k
		}
	}
	probability, loss := float64(row[s.Predicted]), -math.Log(float64(row[label]))
	if !probabilities {
		total := logSumExp(row)
		probability, loss = math.Exp(probability-total), total-float64(row[label])
	}
	loss = min(loss, -math.Log(math.SmallestNonzeroFloat64))
	if finite([]float32{float32(probability), float32(loss)}) {
		s.Probability, s.Loss = &probability, &loss
	}
	return s
}

// logSumExp is ln Σ exp(row), without overflow.
func logSumExp(row []float32) float64 {
	largest := float64(slices.Max(row))
	sum := 0.0
	for _, v := range row {
		sum += math.Exp(float64(v) - largest)
	}
	return largest + math.Log(sum)
}

// writePredictions adds predictions.json to the folder of a run that ended well.
func (s *Session) writePredictions() error {
	p, err := s.trainer.Predictions(context.Background())
	if err != nil || p == nil {
		return err
	}
	return s.run.WritePredictions(p)
}
