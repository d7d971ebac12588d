package trainer

import (
	"context"
	"errors"
	"slices"

	"halfstep/device"
	"halfstep/optim"
	"halfstep/program"
)

// firstBad names the first tensor that was not finite in a skipped update, whose batch starts at position. Where the
// parameters are still those of that update, it is replayed with every value checked, in the order of the program:
// "linear2/dx". Where later updates were applied already, or the device cannot replay, it is the first gradient, in
// backward order, that was not finite.
func (t *Trainer) firstBad(ctx context.Context, row []float32, position int, unchanged bool) (string, error) {
	tensor := "?"
	if k := int(row[program.RingFirstBad]); k > 0 {
		tensor = t.train.grads[k-1] + "/grad"
	}
	if !unchanged {
		return tensor, nil
	}
	found, err := t.replay(context.WithoutCancel(ctx), row[program.RingLossScale], position, int(row[program.RingCount]))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		return "", err
	case found != "":
		tensor = found
	}
	return tensor, nil
}

// replay runs forward and backward of an update of so many samples once more and gives the first value that is not finite;
// "" when all are. Counters, scale and sums are left as they were.
func (t *Trainer) replay(ctx context.Context, scale float32, position, samples int) (found string, err error) {
	now := t.state
	defer func() {
		t.state = now
		w := &writer{store: t.store}
		t.clearSums(w)
		put(w, program.CountersName, now.counters[:])
		put(w, optim.ScaleName, []float32{now.scale})
		err = errors.Join(err, w.err)
	}()
	if err := device.Write(t.store, optim.ScaleName, []float32{scale}); err != nil {
		return "", err
	}
	end := position + samples
	for found == "" && err == nil && position < end {
		u := t.train
		if end-position < u.samples {
			u = t.tail
		}
		if t.update != nil {
			err = t.weigh(u.samples, samples)
		}
		t.state.counters[program.CounterPosition] = int32(position)
		err = errors.Join(err, device.Write(t.store, program.CountersName, t.state.counters[:]))
		if err == nil {
			err = t.feed(u, position)
		}
		if err == nil {
			found, err = u.firstBad(ctx)
		}
		position += u.samples
	}
	return found, err
}

// clearSums makes the gradient sums of accumulation zero, which they are between updates.
func (t *Trainer) clearSums(w *writer) {
	if t.update == nil {
		return
	}
	for _, p := range t.params {
		if p.Trainable {
			put(w, p.Name+sumSuffix, make([]float32, p.Elems()))
		}
	}
}

// firstBad runs input, forward and backward of the unit's program and gives the first value that is not finite.
func (u *unit) firstBad(ctx context.Context) (found string, err error) {
	last := u.lastBackward()
	err = u.exec.Trace(ctx, func(i *program.Instr, read func(*program.Value) []float32) bool {
		for _, v := range slices.Concat(i.Out, i.InOut) {
			if !finite(read(v)) {
				found = v.Name
				return false
			}
		}
		return i != last
	})
	return found, err
}

// lastBackward is the last instruction before the update.
func (u *unit) lastBackward() *program.Instr {
	var last *program.Instr
	for _, i := range u.program.Instrs {
		if i.Phase <= program.Backward {
			last = i
		}
	}
	return last
}

func finite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 { // inf and NaN alike
			return false
		}
	}
	return true
}
