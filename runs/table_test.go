package runs

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sweep is three configurations: float32 with three seeds, float16 with two of which one failed, a batch of its own.
func sweep(t *testing.T) []*Record {
	t.Helper()
	base := t.TempDir()
	for i, c := range []struct {
		amp      string
		batch    int
		accuracy float64
		code     int
	}{
		{"false", 512, 0.98, 0},
		{"true", 512, 0.992, 0},
		{"false", 512, 0.99, 0},
		{"false", 512, 0.985, 0},
		{"true", 512, 0.1, 5},
		{"true", 1024, 0.97, 0},
	} {
		config := fmt.Sprintf("seed: %d\nepochs: 1\namp: {enabled: %s}\ndata: {batch_size: %d}\nlog: {every: %d}\noptim: {lr: %s}\n",
			i, c.amp, c.batch, i, []string{"1e-3", "0.001"}[i%2])
		r, err := Create(base, "sweep", start.AddDate(0, 0, i), Options{Config: []byte(config)})
		if err != nil {
			t.Fatal(err)
		}
		s := sampleSummary()
		s.TestAccuracy, s.TestLoss, s.BestValAccuracy, s.BatchSize, s.ExitCode = &c.accuracy, nil, nil, c.batch, c.code
		if err := r.Finish(s); err != nil {
			t.Fatal(err)
		}
	}
	point := filepath.Join(base, "a-point-of-a-sweep") // with the third run; its other folder is no run
	if err := os.MkdirAll(filepath.Join(point, "not-a-run"), 0o755); err != nil {
		t.Fatal(err)
	}
	third := filepath.Base(must(filepath.Glob(filepath.Join(base, "20261202*")))[0])
	if err := os.Rename(filepath.Join(base, third), filepath.Join(point, third)); err != nil {
		t.Fatal(err)
	}
	records, err := OpenAll(base)
	if err != nil || len(records) != 6 || records[2].ID != third {
		t.Fatalf("%d records, %v", len(records), err)
	}
	return records
}

// mean(0.98, 0.99, 0.985) is 0.985, the standard deviation sqrt((25+25)e-6/2) = 0.005.
func TestTable(t *testing.T) {
	table := NewTable(sweep(t))
	if d := cmp.Diff([]string{"amp.enabled", "data.batch_size"}, table.Keys); d != "" {
		t.Errorf("keys: %s", d)
	}
	var order []string
	for _, r := range table.Rows {
		order = append(order, fmt.Sprintf("%s %s: %d runs, %d failed", r.Settings["amp.enabled"], r.Settings["data.batch_size"], len(r.Runs), len(r.Failed)))
	}
	if d := cmp.Diff([]string{"true 512: 1 runs, 1 failed", "false 512: 3 runs, 0 failed", "true 1024: 1 runs, 0 failed"}, order); d != "" {
		t.Error(d)
	}
	s := table.Rows[1].Metrics["test_accuracy"]
	if math.Abs(s.Mean-0.985) > 1e-15 || math.Abs(s.Std-0.005) > 1e-15 || s.N != 3 { // a few roundings of numbers below 1
		t.Errorf("%+v, want 0.985 and 0.005 of 3", s)
	}
	if s := table.Rows[0].Metrics["test_accuracy"]; s.Mean != 0.992 || !math.IsNaN(s.Std) {
		t.Errorf("%+v, want 0.992 of one run", s)
	}
}

func TestTableText(t *testing.T) {
	var b bytes.Buffer
	if err := NewTable(sweep(t)).Write(&b, "text"); err != nil {
		t.Fatal(err)
	}
	want := `amp.enabled  data.batch_size  runs  failed  test_accuracy  seconds  images_per_s  mem_planned  mem_peak  skipped_steps  final_loss_scale
true         512              1     1       99.20%         10       20500         28.0 MB      28.0 MB   1              65536
false        512              3     0       98.50 ± 0.50%  10       20500         28.0 MB      28.0 MB   1              65536
true         1024             1     0       97.00%         10       20500         28.0 MB      28.0 MB   1              65536
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestTableForPrograms(t *testing.T) {
	table := NewTable(sweep(t))
	var b bytes.Buffer
	if err := table.Write(&b, "csv"); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4 || rows[0][4] != "test_accuracy_mean" || rows[1][4] != "0.992" || rows[1][5] != "" {
		t.Errorf("%q", rows)
	}
	b.Reset()
	if err := table.Write(&b, "json"); err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	if err := json.Unmarshal(b.Bytes(), &objects); err != nil {
		t.Fatal(err)
	}
	if len(objects) != 3 || objects[0]["test_accuracy_mean"] != 0.992 || objects[0]["test_accuracy_std"] != nil || len(objects[1]["runs"].([]any)) != 3 {
		t.Errorf("%v", objects)
	}
	b.Reset()
	if err := table.Write(&b, "markdown"); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if strings.Count(line, "|") != 12 {
			t.Errorf("%q has not 11 cells", line)
		}
	}
	if err := table.Write(&b, "xml"); err == nil || !strings.Contains(err.Error(), "markdown") {
		t.Errorf("format xml: %v", err)
	}
}

// Without accuracies the smaller loss is the better; a loss that is not a number comes last.
func TestTableOrderByLoss(t *testing.T) {
	var records []*Record
	for i, loss := range []float64{0.5, math.NaN(), 0.25, math.Inf(1)} {
		records = append(records, &Record{ID: fmt.Sprint(i), Config: map[string]string{"k": fmt.Sprint(i)}, Summary: &Summary{TestLoss: &loss}})
	}
	var order []string
	for _, r := range NewTable(records).Rows {
		order = append(order, r.Runs[0])
	}
	if got := strings.Join(order, " "); got != "2 0 1 3" {
		t.Errorf("order %s, want 2 0 1 3", got)
	}
}

func TestTableOfNothing(t *testing.T) {
	for _, format := range Formats() {
		if err := NewTable(nil).Write(&bytes.Buffer{}, format); err != nil {
			t.Error(err)
		}
	}
}

func TestFlatten(t *testing.T) {
	path := filepath.Join(t.TempDir(), ConfigFile)
	text := "seed: 42 # default\nmodel:\n  layers:\n    - conv2d: {filters: 32, kernel: 3}\n    - relu\noptim: {lr: 1e-3, schedule: {milestones: [1, 2.50]}}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"seed": "42", "model.layers.0.conv2d.filters": "32", "model.layers.0.conv2d.kernel": "3", "model.layers.1": "relu",
		"optim.lr": "0.001", "optim.schedule.milestones": "[1, 2.5]",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
