package runs

import (
	"errors"
	"fmt"
	"io"
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
		add("loss/train_epoch", e.TrainLoss)
		addIf("loss/test", e.TestLoss)
		addIf("loss/val", e.ValLoss)
		addIf("accuracy/train_epoch", e.TrainAccuracy)
		addIf("accuracy/test", e.TestAccuracy)
		addIf("accuracy/val", e.ValAccuracy)
		return e.Step, list
	}
	return 0, nil
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

// boardFiles lists the event files of a run folder, oldest first, and the temporary ones that a process killed while it rewrote
// them left behind.
func boardFiles(dir string) (list, left []string, err error) {
	all, err := filepath.Glob(filepath.Join(globEscape(dir), tfevents.Prefix+"*"+boardOf+"*"))
	for _, path := range all {
		if strings.HasSuffix(path, tempSuffix) {
			left = append(left, path)
		} else {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list, left, err
}

// newBoard adds an event file to a run folder. TensorBoard reads files in the order of their names, which start with the time.
func newBoard(dir string, clock func() time.Time) (*board, error) {
	before, _, err := boardFiles(dir)
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
		return nil, errors.Join(err, f.Close())
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

// log adds the points of an event, if it has any. After Resumed a TensorBoard that is open drops the points that rewindBoards took
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

// rewindBoards takes the points beyond a step out of a run's event files. The caller has the run for itself.
func rewindBoards(dir string, step int) error {
	files, left, err := boardFiles(dir)
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	for _, path := range files {
		if err := rewindBoard(path, step); err != nil {
			return err
		}
	}
	return nil
}

// rewindBoard leaves a file as it is where it has no such point.
func rewindBoard(path string, step int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	events, _ := tfevents.Decode(b) // a last record may be cut: TensorBoard leaves it out, too
	void := func(e tfevents.Event) bool { return e.Scalars != nil && e.Step > int64(step) }
	if !slices.ContainsFunc(events, void) {
		return nil
	}
	return writeAtomic(path, func(w io.Writer) error {
		for _, e := range slices.DeleteFunc(events, void) {
			if _, err := w.Write(tfevents.Append(nil, e)); err != nil {
				return err
			}
		}
		return nil
	})
}
