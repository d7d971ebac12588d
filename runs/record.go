package runs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"
)

// Line is one line of a log.
type Line struct {
	Time  time.Time
	Level string
	Event Event
}

// Record is a run folder read back.
type Record struct {
	ID          string
	Dir         string
	Config      map[string]string // by dotted key
	Environment Environment
	Summary     *Summary // nil while the run has not ended
	Epochs      []Epoch
	Lines       []Line       // the log without what a resume undid
	Predictions *Predictions // nil when the run has none
	Problems    []string     // what could not be read
}

// Open reads a run folder, also of a run that is going on or was killed: a cut last line is left out, and a file that
// cannot be read becomes one of Problems. It fails only where there is no log.
func Open(dir string) (*Record, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	r := &Record{ID: filepath.Base(abs), Dir: dir}
	if err := r.readLog(); err != nil {
		return nil, fmt.Errorf("runs: %s is not a run folder: %w", dir, err)
	}
	problem := func(what string, err error) {
		if err != nil {
			r.Problems = append(r.Problems, fmt.Sprintf("%s: %v", what, err))
		}
	}
	r.Config, err = readConfig(filepath.Join(dir, ConfigFile))
	problem(ConfigFile, err)
	problem(EnvironmentFile, r.readEnvironment())
	r.Summary, err = readSummary(dir)
	problem(SummaryFile, err)
	r.Predictions, err = readPredictions(dir)
	problem(PredictionsFile, err)
	r.Epochs, err = readMetrics(filepath.Join(dir, MetricsFile))
	problem(MetricsFile, err)
	r.addLoggedEpochs()
	return r, nil
}

func (r *Record) readEnvironment() error {
	b, err := os.ReadFile(filepath.Join(r.Dir, EnvironmentFile))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, &r.Environment)
}

// readLog reads the log. Lines that a resume undid are dropped.
func (r *Record) readLog() error {
	b, err := os.ReadFile(filepath.Join(r.Dir, LogFile))
	if err != nil {
		return err
	}
	lines := bytes.Split(b, []byte("\n"))
	for i, text := range lines {
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		line, err := decodeLine(text)
		if err != nil {
			if i < len(lines)-1 { // the last may just be being written
				r.Problems = append(r.Problems, fmt.Sprintf("%s: line %d: %v", LogFile, i+1, err))
			}
			continue
		}
		if at, ok := line.Event.(Resumed); ok {
			r.undo(at)
		}
		if line.Event != nil {
			r.Lines = append(r.Lines, line)
		}
	}
	return nil
}

func (r *Record) undo(at Resumed) {
	r.Lines = slices.DeleteFunc(r.Lines, func(l Line) bool { return at.undoes(l.Event) })
}

// eventStep is the value of the event's key step.
func eventStep(e Event) (int, bool) {
	f := reflect.ValueOf(e).FieldByName("Step")
	if !f.IsValid() || f.Kind() == reflect.Pointer && f.IsNil() {
		return 0, false
	}
	return int(reflect.Indirect(f).Int()), true
}

// decodeLine reads a line of the log; the event is nil when this version does not know it.
func decodeLine(text []byte) (Line, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return Line{}, err
	}
	var base struct{ TS, Level, Event string }
	if err := json.Unmarshal(text, &base); err != nil {
		return Line{}, err
	}
	ts, err := time.Parse(TimeLayout, base.TS)
	if err != nil {
		return Line{}, err
	}
	line := Line{Time: ts, Level: base.Level}
	for _, e := range events() {
		if e.Name() != base.Event {
			continue
		}
		v := reflect.New(reflect.TypeOf(e)).Elem()
		if err := decodeKeys(raw, v); err != nil {
			return Line{}, fmt.Errorf("%s: %w", base.Event, err)
		}
		line.Event = v.Interface().(Event)
	}
	return line, nil
}

// addLoggedEpochs adds the epochs that metrics.csv lost, so that the two complete each other.
func (r *Record) addLoggedEpochs() {
	have := map[int]bool{}
	for _, e := range r.Epochs {
		have[e.Epoch] = true
	}
	var all []Epoch
	for _, l := range r.Lines {
		if e, ok := l.Event.(Epoch); ok && !have[e.Epoch] {
			all = append(all, e)
		}
	}
	if len(all) > 0 {
		r.Epochs = append(r.Epochs, all...)
		slices.SortFunc(r.Epochs, func(a, b Epoch) int { return cmp.Compare(a.Epoch, b.Epoch) })
	}
}

// OpenAll reads every run folder in base and in its folders, which is where a sweep has them, oldest first. Other folders are
// left out.
func OpenAll(base string) ([]*Record, error) {
	dirs, err := runDirs(base)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	for _, e := range entries {
		if dir := filepath.Join(base, e.Name()); e.IsDir() && !isRun(dir) {
			within, err := runDirs(dir)
			if err != nil {
				return nil, fmt.Errorf("runs: %w", err)
			}
			dirs = append(dirs, within...)
		}
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) }) // starts with the time
	var all []*Record
	for _, dir := range dirs {
		r, err := Open(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// runDirs lists the run folders that lie in base.
func runDirs(base string) ([]string, error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if dir := filepath.Join(base, e.Name()); isRun(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}
