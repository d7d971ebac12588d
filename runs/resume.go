package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"halfstep/runs/tfevents"
)

// Resume opens an existing run folder to go on writing, and logs the event. Rows of metrics.csv and points of event files
// beyond the checkpoint are dropped, since these steps will be trained again; the log keeps its lines, and Open leaves out the
// undone ones. Checkpoints beyond it are renamed to <name>.undone. Summary and predictions of the earlier end are removed. A
// configuration or environment that changed replaces the old, which stays as config.1.yaml, config.2.yaml, and so on; a nil
// Config keeps the file as it is. A Resume that fails leaves the folder as it was.
func Resume(dir string, at Resumed, o Options) (*Run, error) {
	level, err := parseLevel(o.Level)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	r := &Run{ID: filepath.Base(abs), Dir: dir}
	if _, err := os.Stat(filepath.Join(dir, LogFile)); err != nil {
		return nil, fmt.Errorf("runs: %s is not a run folder: %w", dir, err)
	}
	if err := r.openLog(level, 0, o); err != nil {
		return nil, fmt.Errorf("runs: %s: %w", r.ID, err)
	}
	if err := r.rewind(at, o); err != nil {
		return nil, errors.Join(fmt.Errorf("runs: %s: %w", r.ID, err), r.log.Close())
	}
	r.Log(at)
	return r, nil
}

// undoes reports whether training repeats what an event told: a later step, or the end of an epoch that is not over, as
// max_steps makes one.
func (at Resumed) undoes(e Event) bool {
	if step, ok := eventStep(e); ok && step > at.Step {
		return true
	}
	epoch, ok := e.(Epoch)
	return ok && epoch.Epoch >= at.Epoch
}

// rewind puts the folder in the state it had at the checkpoint. What needs room on the disk is written first, under temporary
// names; what could still fail after that is renaming.
func (r *Run) rewind(at Resumed, o Options) error {
	if err := removeLeftovers(r.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.CheckpointDir(), 0o755); err != nil {
		return err
	}
	var s staging
	r.stageRewind(&s, at, o)
	if s.err == nil {
		s.err = r.openBoard(o)
	}
	if s.err == nil {
		s.err = setAside(r.CheckpointDir(), at.Step)
	}
	if err := s.commit(); err != nil {
		return errors.Join(err, r.dropBoard())
	}
	var err error
	if r.metrics, err = openAppend(filepath.Join(r.Dir, MetricsFile), 0); err != nil {
		return errors.Join(err, r.dropBoard())
	}
	for _, name := range []string{PredictionsFile, SummaryFile} {
		if err := os.Remove(filepath.Join(r.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, r.dropBoard(), r.metrics.Close())
		}
	}
	return nil
}

// stageRewind stages all files that are to have other content.
func (r *Run) stageRewind(s *staging, at Resumed, o Options) {
	epochs, err := readMetrics(filepath.Join(r.Dir, MetricsFile))
	if err != nil {
		s.err = err
		return
	}
	cut := map[int]bool{} // by step: undone ends of epochs, also at the checkpoint itself
	metrics := metricsHeader()
	for _, e := range epochs {
		if at.undoes(e) {
			cut[e.Step] = true
		} else {
			metrics = append(metrics, metricsRow(e)...)
		}
	}
	s.add(filepath.Join(r.Dir, MetricsFile), metrics)
	stageBoards(s, r.Dir, func(e tfevents.Event) bool {
		return e.Step > int64(at.Step) || cut[int(e.Step)] && isEpochPoint(e)
	})
	r.stageStart(s, o)
}

// stageStart stages the files that are known before training and changed, and copies of what they replace.
func (r *Run) stageStart(s *staging, o Options) {
	files, err := startFiles(o)
	if err != nil {
		s.err = errors.Join(s.err, err)
		return
	}
	for name, b := range files {
		old, err := os.ReadFile(filepath.Join(r.Dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			s.err = errors.Join(s.err, err)
		case bytes.Equal(old, b):
			continue
		default:
			s.add(freeNumbered(r.Dir, name), old)
		}
		s.add(filepath.Join(r.Dir, name), b)
	}
}

// staging collects files that are to appear together, until the first error.
type staging struct {
	files []*Staged
	err   error
}

func (s *staging) add(path string, content []byte) {
	if s.err != nil {
		return
	}
	f, err := Stage(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
	if err != nil {
		s.err = err
		return
	}
	s.files = append(s.files, f)
}

// commit makes the files appear, in their order. After an error those that have not are dropped.
func (s *staging) commit() error {
	for _, f := range s.files {
		if s.err == nil {
			s.err = f.Commit()
		} else {
			s.err = errors.Join(s.err, f.Drop())
		}
	}
	return s.err
}

// setAside renames the checkpoints beyond a step, so that none of them, damaged or of a future that will not be, counts
// as the newest. It renames all or none.
func setAside(dir string, step int) error {
	paths, err := ListCheckpoints(dir)
	if err != nil {
		return err
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return checkpointStep(filepath.Base(path)) <= step })
	for i, path := range paths {
		if err := os.Rename(path, path+undoneSuffix); err != nil {
			for _, done := range paths[:i] {
				err = errors.Join(err, os.Rename(done+undoneSuffix, done))
			}
			return err
		}
	}
	return nil
}

// undoneSuffix ends the name of a checkpoint that setAside renamed.
const undoneSuffix = ".undone"

// freeNumbered is the first free of config.1.yaml, config.2.yaml, ... for config.yaml.
func freeNumbered(dir, name string) string {
	ext := filepath.Ext(name)
	for n := 1; ; n++ {
		path := filepath.Join(dir, fmt.Sprintf("%s.%d%s", name[:len(name)-len(ext)], n, ext))
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return path
		}
	}
}
