package runs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"halfstep/runs/tfevents"
)

// scalars are the points that an event adds to TensorBoard's curves.
func scalars(e Event) (step int, list []tfevents.Scalar) {
	add := func(tag string, v float64) { list = append(list, tfevents.Scalar{Tag: tag, Value: float32(v)}) }
	addIf := func(tag string, v *float64) {
		if v != nil {
			add(tag, *v)
		}
	}
	switch e := e.(type) {
	case Step:
		add("loss/train", e.TrainLoss)
		addIf("accuracy/train", e.TrainAccuracy)
		add("optim/lr", e.LR)
		addIf("optim/momentum", e.Momentum)
		add("optim/grad_norm", e.GradNorm)
		add("amp/loss_scale", e.LossScale)
		add("amp/skipped_steps", float64(e.SkippedSteps))
		add("speed/images_per_s", e.ImagesPerS)
		return e.Step, list
	case Epoch:
		add(epochTag, e.TrainLoss)
		addIf("loss/test", e.TestLoss)
		addIf("loss/val", e.ValLoss)
		addIf("accuracy/train_epoch", e.TrainAccuracy)
		addIf("accuracy/test", e.TestAccuracy)
		addIf("accuracy/val", e.ValAccuracy)
		return e.Step, list
	}
	return 0, nil
}

// epochTag is a curve that every Epoch, and no other event, adds to.
const epochTag = "loss/train_epoch"

func isEpochPoint(e tfevents.Event) bool {
	return slices.ContainsFunc(e.Scalars, func(s tfevents.Scalar) bool { return s.Tag == epochTag })
}

// board is the event file that one process adds to a run. A record that is written only in part, because the disk is full, is
// taken back, since readers stop at it.
type board struct {
	mu    sync.Mutex
	f     *os.File
	size  int64 // of the whole records
	clock func() time.Time
}

// boardOf is the middle of the names of a run's event files, where others have the machine's name.
const boardOf = ".halfstep."

// boardFiles lists the event files of a run folder, oldest first.
func boardFiles(dir string) ([]string, error) {
	list, err := filepath.Glob(filepath.Join(globEscape(dir), tfevents.Prefix+"*"+boardOf+"*"))
	list = slices.DeleteFunc(list, func(path string) bool { return strings.HasSuffix(path, tempSuffix) })
	slices.Sort(list)
	return list, err
}

// newBoard adds an event file to a run folder. TensorBoard reads files in the order of their names, which start with the time.
func newBoard(dir string, clock func() time.Time) (*board, error) {
	before, err := boardFiles(dir)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s%010d%s%d", tfevents.Prefix, clock().Unix(), boardOf, len(before))
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	b := &board{f: f, clock: clock}
	if err := b.write(tfevents.Event{Version: tfevents.Version}); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return b, nil
}

func (b *board) write(e tfevents.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.WallTime = float64(b.clock().UnixNano()) / 1e9
	n, err := b.f.WriteAt(tfevents.Append(nil, e), b.size)
	if err != nil {
		return errors.Join(err, b.f.Truncate(b.size))
	}
	b.size += int64(n)
	return nil
}

// log adds the points of an event, if it has any. After Resumed a TensorBoard that is open drops the later points, which stageBoards took
// out of the files before.
func (b *board) log(e Event) error {
	if at, ok := e.(Resumed); ok {
		return b.write(tfevents.Event{Step: int64(at.Step) + 1, Restart: true})
	}
	step, list := scalars(e)
	if list == nil {
		return nil
	}
	return b.write(tfevents.Event{Step: int64(step), Scalars: list})
}

// stageBoards takes points out of a run's event files; one that has no such point stays as it is. The caller has the run for
// itself.
func stageBoards(s *staging, dir string, void func(tfevents.Event) bool) {
	files, err := boardFiles(dir)
	if err != nil {
		s.err = errors.Join(s.err, err)
		return
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			s.err = errors.Join(s.err, err)
			return
		}
		events, _ := tfevents.Decode(b) // a last record may be cut: TensorBoard leaves it out, too
		kept := b[:0:0]
		changed := false
		for _, e := range events {
			if e.Scalars != nil && void(e) {
				changed = true
			} else {
				kept = tfevents.Append(kept, e)
			}
		}
		if changed {
			s.add(path, kept)
		}
	}
}
