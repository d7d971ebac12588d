package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// One line, written out by hand.
func TestLogLine(t *testing.T) {
	var echo bytes.Buffer
	r, err := Create(t.TempDir(), "x", start, Options{Echo: &echo, Clock: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	r.Log(SkippedStep{Epoch: 1, Step: 7, LossScaleBefore: 2, LossScale: math.NaN(), FirstBadTensor: "a\"b", SkippedSteps: 1, ConsecutiveSkips: 1})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	want := `{"level":"info","ts":"2026-11-30T09:51:32.123Z","event":"skipped_step","run":"` + r.ID + `","epoch":1,"step":7,` +
		`"loss_scale_before":2,"loss_scale":null,"loss_scale_reason":"nan","first_bad_tensor":"a\"b","skipped_steps":1,"consecutive_skips":1}` + "\n"
	if d := cmp.Diff(want, read(t, r.Dir, LogFile)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, echo.String()); d != "" {
		t.Errorf("copy: %s", d)
	}
}

// What is logged is what is read back, numbers that are not finite included.
func TestLogRoundTrip(t *testing.T) {
	r := sampleRun(t, t.TempDir(), Options{})
	rec, err := Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []Event
	for _, l := range rec.Lines {
		got = append(got, l.Event)
	}
	want := append(sampleEvents(), RunEnd{sampleSummary()})
	if d := cmp.Diff(want, got, cmpopts.EquateNaNs()); d != "" {
		t.Error(d)
	}
	if len(rec.Problems) != 1 || !strings.Contains(rec.Problems[0], ConfigFile) { // this run has no config.yaml
		t.Errorf("problems: %q", rec.Problems)
	}
	seen := map[string]bool{}
	for _, e := range got {
		seen[e.Name()] = true
	}
	for _, e := range events() {
		if !seen[e.Name()] && e.Name() != "resume" {
			t.Errorf("no %s in the sample", e.Name())
		}
	}
}

// Every float key of every event, in each form that JSON lacks.
func TestNotANumber(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{{math.NaN(), "nan"}, {math.Inf(1), "inf"}, {math.Inf(-1), "-inf"}} {
		line, err := encodeJSON("id", Step{TrainLoss: c.v, TrainAccuracy: &c.v})
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"train_loss", "train_accuracy"} {
			if v, ok := m[key]; !ok || v != nil || m[key+"_reason"] != c.want {
				t.Errorf("%s is %v, %v, reason %v; want null, %s", key, v, ok, m[key+"_reason"], c.want)
			}
		}
		if _, ok := m["momentum"]; ok {
			t.Error("momentum is there although it does not apply")
		}
	}
}

func TestLogLevel(t *testing.T) {
	r := sampleRun(t, t.TempDir(), Options{Level: "warn"})
	var got []string
	for line := range strings.Lines(read(t, r.Dir, LogFile)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		got = append(got, m["event"].(string))
	}
	if d := cmp.Diff([]string{"warning", "error"}, got); d != "" {
		t.Error(d)
	}
	if n := strings.Count(read(t, r.Dir, MetricsFile), "\n"); n != 3 {
		t.Errorf("metrics.csv has %d lines, want 3 at every level", n)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestFirstWriteErrorIsKept(t *testing.T) {
	broken := errors.New("broken pipe")
	r, err := Create(t.TempDir(), "x", start, Options{Echo: failingWriter{broken}})
	if err != nil {
		t.Fatal(err)
	}
	r.Log(Warning{Code: "a"})
	if err := r.Err(); !errors.Is(err, broken) {
		t.Errorf("Err is %v", err)
	}
	r.log.f.Close()
	r.Log(Warning{Code: "b"})
	if err := r.Close(); !errors.Is(err, broken) {
		t.Errorf("Close gives %v, want the first error", err)
	}
	if !strings.Contains(read(t, r.Dir, LogFile), `"code":"a"`) {
		t.Error("the broken copy stopped the log itself")
	}
}

// Files that were cut within a line go on without it.
func TestTornLine(t *testing.T) {
	r := sampleRun(t, t.TempDir(), Options{Config: []byte("seed: 1\n")})
	for _, name := range []string{LogFile, MetricsFile} {
		path := filepath.Join(r.Dir, name)
		if err := os.Truncate(path, must(os.Stat(path)).Size()-5); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.Lines) != len(sampleEvents()) || len(rec.Epochs) != 2 || len(rec.Problems) != 0 {
		t.Errorf("%d lines, %d epochs, problems %q; want all but run_end, no problem", len(rec.Lines), len(rec.Epochs), rec.Problems)
	}
	again, err := Resume(r.Dir, Resumed{Epoch: 3, Step: 1000}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	again.Log(Epoch{Epoch: 3, Step: 1001})
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if rec, err = Open(r.Dir); err != nil {
		t.Fatal(err)
	}
	if n := len(rec.Epochs); n != 3 {
		t.Errorf("%d epochs, want 3", n)
	}
	if len(rec.Lines) != len(sampleEvents())+2 || len(rec.Problems) != 0 {
		t.Errorf("%d lines, problems %q; want all but the cut one", len(rec.Lines), rec.Problems)
	}
	wholeLines(t, r.Dir)
}

// wholeLines checks that every line of a run's log is whole, and of its metrics.
func wholeLines(t *testing.T, dir string) {
	t.Helper()
	for line := range strings.Lines(read(t, dir, LogFile)) {
		if !json.Valid([]byte(line)) || !strings.HasSuffix(line, "\n") {
			t.Errorf("%s: %q", LogFile, line)
		}
	}
	commas := strings.Count(string(metricsHeader()), ",")
	for line := range strings.Lines(read(t, dir, MetricsFile)) {
		if strings.Count(line, ",") != commas || !strings.HasSuffix(line, "\n") {
			t.Errorf("%s: %q", MetricsFile, line)
		}
	}
}

// The bytes after the last newline are counted, however long the lines are.
func TestTornBytes(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for text, want := range map[string]int64{"": 0, "a\n": 0, "a": 1, "a\nbc": 2, long: 10_000, long + "\n" + long: 10_000, long + "\n": 0} {
		f, err := os.Create(filepath.Join(t.TempDir(), "lines"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if got, err := tornBytes(f); err != nil || got != want {
			t.Errorf("%d bytes: %d, %v; want %d", len(text), got, err, want)
		}
		f.Close()
	}
}
