// Package runs is the run folder: the structured log, metrics, summary and checkpoints of one training run, and reading
// them back for tables and reports. docs/LOGS.md describes every file and key.
//
//	runs/20261130T095132Z-cnn_amp-1f0c77a2/
//	    config.yaml         the resolved configuration
//	    sources.json        where each of its values came from
//	    environment.json    version, machine, device
//	    log.jsonl           one JSON object an event
//	    metrics.csv         one row an epoch
//	    checkpoints/        step-00001234.safetensors, best.safetensors
//	    events.out.tfevents.*  with log.tensorboard: the metrics for TensorBoard
//	    summary.json        written last
package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap/zapcore"
)

// The names in a run folder, beside SummaryFile.
const (
	ConfigFile      = "config.yaml"
	SourcesFile     = "sources.json"
	EnvironmentFile = "environment.json"
	LogFile         = "log.jsonl"
	MetricsFile     = "metrics.csv"
	CheckpointsDir  = "checkpoints"
)

// Options are what a run records from its start.
type Options struct {
	Config      []byte            // the resolved configuration as YAML
	Sources     map[string]string // where each value came from, by dotted key; nil: no sources.json
	Environment Environment
	Level       string           // least level that is logged: debug, info, warn or error; empty is info
	Echo        io.Writer        // receives a copy of every line of the log; nil: none
	Clock       func() time.Time // time of the log's lines; nil: time.Now
	TensorBoard bool             // write an event file, too
}

// Run is a run folder that is being written. Its methods may be called from several goroutines.
type Run struct {
	ID  string // the folder's name
	Dir string

	logger  *logger
	log     *appendFile
	metrics *appendFile
	board   *board // nil: none
	errs    errorKeeper
}

// maxTries is how many short ids Create tries. Ids are 32 random bits, so a second try is already rare.
const maxTries = 100

// Create makes base/<time>-<name>-<short id>, a folder that no other run has or will have, and opens its log. The time is
// UTC, so that names sort by start. A Create that fails leaves no folder.
func Create(base, name string, now time.Time, o Options) (*Run, error) {
	level, err := parseLevel(o.Level)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	dir, err := makeDir(base, now.UTC().Format("20060102T150405Z")+"-"+cleanName(name))
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	r := &Run{ID: filepath.Base(dir), Dir: dir}
	if err := r.begin(level, o); err != nil {
		return nil, errors.Join(fmt.Errorf("runs: %s: %w", r.ID, err), os.RemoveAll(dir))
	}
	return r, nil
}

// begin writes what a new folder has before training, and opens what is to be written.
func (r *Run) begin(level zapcore.Level, o Options) (err error) {
	if err := r.writeStart(o); err != nil {
		return err
	}
	if err := r.openLog(level, os.O_EXCL, o); err != nil {
		return err
	}
	if r.metrics, err = openAppend(filepath.Join(r.Dir, MetricsFile), os.O_EXCL); err != nil {
		return errors.Join(err, r.log.Close())
	}
	if _, err = r.metrics.Write(metricsHeader()); err == nil {
		err = r.openBoard(o)
	}
	if err != nil {
		return errors.Join(err, r.log.Close(), r.metrics.Close())
	}
	return nil
}

// makeDir makes prefix-<short id> with os.Mkdir, which fails where something is already there.
func makeDir(base, prefix string) (string, error) {
	for range maxTries {
		dir := filepath.Join(base, prefix+"-"+shortID())
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s: %d short ids are all taken", filepath.Join(base, prefix), maxTries)
}

// cleanName keeps letters, digits, dots, dashes and underscores, at most 64 of them.
func cleanName(name string) string {
	name = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
			return c
		}
		return '-'
	}, name)
	if name == "" {
		return "run"
	}
	return name[:min(len(name), 64)]
}

// startFiles are the files that are known before training, by name.
func startFiles(o Options) (map[string][]byte, error) {
	files := map[string][]byte{}
	if o.Config != nil {
		files[ConfigFile] = o.Config
	}
	environment, err := json.MarshalIndent(o.Environment, "", "  ")
	if err != nil {
		return nil, err
	}
	files[EnvironmentFile] = append(environment, '\n')
	if o.Sources != nil {
		sources, err := json.MarshalIndent(o.Sources, "", "  ")
		if err != nil {
			return nil, err
		}
		files[SourcesFile] = append(sources, '\n')
	}
	return files, nil
}

func (r *Run) writeStart(o Options) error {
	files, err := startFiles(o)
	if err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(r.Dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return os.MkdirAll(r.CheckpointDir(), 0o755)
}

// ErrBusy is the error of Resume when another process is writing the run.
var ErrBusy = errors.New("another process is writing this run")

// openLog opens the log, which is locked while this process has it; flag is os.O_EXCL for a new run.
func (r *Run) openLog(level zapcore.Level, flag int, o Options) (err error) {
	if r.log, err = openAppend(filepath.Join(r.Dir, LogFile), flag); err != nil {
		return err
	}
	if err := lock(r.log.f); errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.Join(ErrBusy, r.log.Close())
	}
	r.logger = newLogger(r.ID, level, o.clock(), r.log, o.Echo)
	return nil
}

// openBoard starts the run's next event file, where there is to be one.
func (r *Run) openBoard(o Options) (err error) {
	if o.TensorBoard {
		r.board, err = newBoard(r.Dir, o.clock())
	}
	return err
}

// dropBoard takes openBoard back.
func (r *Run) dropBoard() error {
	if r.board == nil {
		return nil
	}
	return errors.Join(r.board.f.Close(), os.Remove(r.board.f.Name()))
}

func (o *Options) clock() func() time.Time {
	if o.Clock == nil {
		return time.Now
	}
	return o.Clock
}

// CheckpointDir is the folder of the run's checkpoints.
func (r *Run) CheckpointDir() string { return filepath.Join(r.Dir, CheckpointsDir) }

// Log writes an event to the log, an Epoch also to metrics.csv, and the numbers of Step and Epoch to the event file where there
// is one. A write error does not stop the run: Err has the first.
func (r *Run) Log(e Event) {
	if err := r.logger.write(e); err != nil {
		r.errs.keep(err)
	}
	if epoch, ok := e.(Epoch); ok {
		if _, err := r.metrics.Write(metricsRow(epoch)); err != nil {
			r.errs.keep(fmt.Errorf("runs: %s: %w", MetricsFile, err))
		}
	}
	if r.board != nil {
		if err := r.board.log(e); err != nil {
			r.errs.keep(fmt.Errorf("runs: TensorBoard: %w", err))
		}
	}
}

// Err is the first error in writing log or metrics; nil while there was none.
func (r *Run) Err() error { return r.errs.err() }

// Finish logs run_end, closes log and metrics and writes summary.json last. It returns the first error of the run's
// writing or its own.
func (r *Run) Finish(s Summary) error {
	r.Log(RunEnd{s})
	err := r.Close()
	return errors.Join(err, writeSummary(r.Dir, r.ID, s))
}

// Close flushes and closes what Log writes, without a summary, and returns the first error of the run's writing.
func (r *Run) Close() error {
	files := []interface {
		Sync() error
		Close() error
	}{r.log, r.metrics}
	if r.board != nil {
		files = append(files, r.board.f)
	}
	for _, f := range files {
		if err := f.Sync(); err != nil {
			r.errs.keep(fmt.Errorf("runs: %w", err))
		}
		if err := f.Close(); err != nil {
			r.errs.keep(fmt.Errorf("runs: %w", err))
		}
	}
	return r.Err()
}
