package trainer

import (
	"context"
	"fmt"
	"time"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/model"
	"halfstep/philox"
	"halfstep/program"
)

// loader makes batches on the host: data.resident: false, the way data loaders work, kept to show what one costs. For each
// batch one goroutine decodes sample after sample (bytes to normalised float32, moved by the augmentation), collates them
// and copies the batch to the device, and the device waits for it: PyTorch's DataLoader with num_workers=0. Evaluation is
// fed the same way. The values are, bit for bit, those that program.GatherImages and program.GatherRows make of resident
// data; in half precision the step casts the float32 batch, as autocast does.
type loader struct {
	set   *data.Set
	cfg   configs.Data
	seed  uint64
	store device.Store

	epoch uint32
	order []int32 // of the epoch that is trained
	next  int     // where in order the next batch to train on starts

	sample    []float32 // one decoded image
	x, target []float32 // the collated batch; they grow to the largest
	labels    []int32

	seconds float64 // spent in feed so far
}

// newLoader is nil where the data is resident.
func newLoader(c configs.Config, set *data.Set, s device.Store) *loader {
	if c.Data.Resident {
		return nil
	}
	return &loader{set: set, cfg: c.Data, seed: c.Seed, store: s, sample: make([]float32, set.Height*set.Width*set.Channels)}
}

// batchName is the store's name of a part of a program's batch (x, target or labels) that comes from the host.
func batchName(program, part string) string { return "batch/" + program + "/" + part }

// hostBatch is the input phase where batches come from the host: persistent values that the loader writes.
func (a *assembler) hostBatch(p *program.Program, m *model.Model, batch int, in *program.Inputs) {
	value := func(part string, d program.DType, shape ...int) *program.Value {
		return p.NewPersistent(batchName(p.Name, part), program.RoleActivation, d, shape...)
	}
	in.X = value("x", program.Float32, append([]int{batch}, a.spec(batch, m.Train).Input...)...)
	if a.set.Features > 0 {
		in.Target = value("target", program.Float32, batch, a.set.Targets)
		return
	}
	in.Target = a.classTarget(p, m, value("labels", program.Int32, batch))
}

// begin starts an epoch of training at a position.
func (l *loader) begin(epoch int, order []int32, position int) {
	l.epoch, l.order, l.next = uint32(epoch), order, position
}

// batch says which samples a batch is made of.
type batch struct {
	from     *data.Split
	order    []int32
	position int
	train    bool // augmented
}

// training is the batch of the epoch at a position.
func (l *loader) training(position int) batch {
	return batch{&l.set.Train, l.order, position, true}
}

// evaluation is the batch of a split at a position.
func (l *loader) evaluation(e *evaluator, position int) batch {
	from := &l.set.Train
	if e.split.source == "test" {
		from = &l.set.Test
	}
	return batch{from, e.order, position, false}
}

// feed makes a batch for a unit's program and copies it to the device.
func (l *loader) feed(u *unit, b batch) error {
	start := time.Now()
	defer func() { l.seconds += time.Since(start).Seconds() }()
	w := &writer{store: l.store}
	order := b.order[b.position:][:u.samples]
	if b.from.Inputs != nil {
		l.x = collateRows(l.x, b.from.Inputs, order, l.set.Features)
		l.target = collateRows(l.target, b.from.Targets, order, l.set.Targets)
		put(w, batchName(u.program.Name, "target"), l.target)
	} else {
		l.images(b, order)
		put(w, batchName(u.program.Name, "labels"), l.labels)
	}
	put(w, batchName(u.program.Name, "x"), l.x)
	if w.err != nil {
		return fmt.Errorf("trainer: batch at %d: %w", b.position, w.err)
	}
	return nil
}

// images fills x and labels.
func (l *loader) images(b batch, order []int32) {
	size := len(l.sample)
	l.x, l.labels = resized(l.x, len(order)*size), resized(l.labels, len(order))
	for i, n := range order {
		dy, dx := 0, 0
		if b.train {
			dy, dx = l.shift(uint32(b.position + i))
		}
		l.decode(b.from.Images[int(n)*size:][:size], dy, dx)
		copy(l.x[i*size:], l.sample)
		l.labels[i] = b.from.Labels[n]
	}
}

// shift is by how many rows and columns the image at a position of the epoch moves; see ref.GatherImages.
func (l *loader) shift(position uint32) (dy, dx int) {
	n := l.cfg.Augment.Shift
	if n == 0 {
		return 0, 0
	}
	words, side := philox.Block(philox.Key(l.seed), [4]uint32{0, position, l.epoch, philox.Augment}), uint32(2*n+1)
	return int(words[0]%side) - n, int(words[1]%side) - n
}

// decode normalises one image [H,W,C], moved by dy rows down and dx columns to the right. Zero bytes come in.
func (l *loader) decode(image []byte, dy, dx int) {
	height, width, channels := l.set.Height, l.set.Width, l.set.Channels
	mean, std := l.cfg.Normalize.Mean, l.cfg.Normalize.Std
	k := 0
	for h := range height {
		for w := range width {
			fromH, fromW := h-dy, w-dx
			inside := fromH >= 0 && fromH < height && fromW >= 0 && fromW < width
			for c := range channels {
				var b byte
				if inside {
					b = image[(fromH*width+fromW)*channels+c]
				}
				l.sample[k] = (float32(b)/255 - mean) / std
				k++
			}
		}
	}
}

// collateRows copies the rows of src [N,size] that order names.
func collateRows(dst, src []float32, order []int32, size int) []float32 {
	dst = resized(dst, len(order)*size)
	for i, n := range order {
		copy(dst[i*size:], src[int(n)*size:][:size])
	}
	return dst
}

// resized is a slice of n elements, in the memory of s where that is large enough.
func resized[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}

// run runs a unit's program for n batches of training, and feeds it where the data is not resident.
func (t *Trainer) run(ctx context.Context, u *unit, n int) error {
	if t.loader == nil {
		return u.exec.Run(ctx, n)
	}
	for range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.feedNext(u); err != nil {
			return err
		}
		if err := u.exec.Run(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

// feedNext brings the next batch to train on, where the data is not resident.
func (t *Trainer) feedNext(u *unit) error {
	if t.loader == nil {
		return nil
	}
	position := t.loader.next
	t.loader.next += u.samples
	return t.feed(u, position)
}

// feed brings the batch of the epoch at a position where the data is not resident.
func (t *Trainer) feed(u *unit, position int) error {
	if t.loader == nil {
		return nil
	}
	return t.loader.feed(u, t.loader.training(position))
}

// feedEvaluation brings the batch of a split at a position where the data is not resident.
func (t *Trainer) feedEvaluation(u *unit, e *evaluator, position int) error {
	if t.loader == nil {
		return nil
	}
	return t.loader.feed(u, t.loader.evaluation(e, position))
}

// runEvaluation runs a unit's program for n batches of a split from a position on.
func (t *Trainer) runEvaluation(ctx context.Context, u *unit, e *evaluator, position, n int) error {
	if t.loader == nil {
		return u.exec.Run(ctx, n)
	}
	for k := range n {
		if err := t.feedEvaluation(u, e, position+k*u.samples); err != nil {
			return err
		}
		if err := u.exec.Run(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}
