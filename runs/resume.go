package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Resume opens an existing run folder to go on writing, and logs the event. Rows of metrics.csv and points of event files
// beyond at.Step are dropped, since these steps will be trained again; the log keeps its lines, and Open leaves out the undone
// ones. Checkpoints beyond it are renamed to <name>.undone. Summary and predictions of the earlier end are removed. A configuration
// or environment that changed replaces the old, which stays as config.1.yaml, config.2.yaml, and so on; a nil Config keeps the
// file as it is.
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
	if err := r.open(level, 0, o); err != nil {
		return nil, fmt.Errorf("runs: %s: %w", r.ID, err)
	}
	if err := r.rewind(at, o); err != nil {
		return nil, errors.Join(fmt.Errorf("runs: %s: %w", r.ID, err), r.Close())
	}
	if err := r.openBoard(o); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.Log(at)
	return r, nil
}

// rewind puts the folder in the state it had at the checkpoint.
func (r *Run) rewind(at Resumed, o Options) error {
	for _, name := range []string{SummaryFile, PredictionsFile} {
		if err := os.Remove(filepath.Join(r.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := setAside(r.CheckpointDir(), at.Step); err != nil {
		return err
	}
	if err := rewindBoards(r.Dir, at.Step); err != nil {
		return err
	}
	if err := r.keepOld(o); err != nil {
		return err
	}
	if err := r.writeStart(o); err != nil {
		return err
	}
	path := filepath.Join(r.Dir, MetricsFile)
	epochs, err := readMetrics(path)
	if err != nil {
		return err
	}
	err = writeAtomic(path, func(w io.Writer) error {
		if _, err := w.Write(metricsHeader()); err != nil {
			return err
		}
		for _, e := range epochs {
			if e.Step > at.Step {
				continue
			}
			if _, err := w.Write(metricsRow(e)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// The open file is the one that was replaced.
	if err := r.metrics.Close(); err != nil {
		return err
	}
	r.metrics, err = openAppend(path, 0)
	return err
}

// setAside renames the checkpoints beyond a step, so that none of them, damaged or of a future that will not be, counts
// as the newest.
func setAside(dir string, step int) error {
	paths, err := ListCheckpoints(dir)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if checkpointStep(filepath.Base(path)) > step {
			if err := os.Rename(path, path+".undone"); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepOld renames the files that writeStart is about to replace with other content.
func (r *Run) keepOld(o Options) error {
	files, err := startFiles(o)
	if err != nil {
		return err
	}
	for name, b := range files {
		old, err := os.ReadFile(filepath.Join(r.Dir, name))
		if errors.Is(err, fs.ErrNotExist) || bytes.Equal(old, b) {
			continue
		}
		if err := renameNumbered(r.Dir, name); err != nil {
			return err
		}
	}
	return nil
}

// renameNumbered renames config.yaml to the first free of config.1.yaml, config.2.yaml, ...
func renameNumbered(dir, name string) error {
	ext := filepath.Ext(name)
	for n := 1; ; n++ {
		kept := filepath.Join(dir, fmt.Sprintf("%s.%d%s", name[:len(name)-len(ext)], n, ext))
		if _, err := os.Stat(kept); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(filepath.Join(dir, name), kept)
		}
	}
}
