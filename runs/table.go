package runs

import (
	"cmp"
	"math"
	"slices"
)

// Stat is a mean over runs with its spread: the sample standard deviation (n-1), NaN of a single run.
type Stat struct {
	Mean, Std float64
	N         int // runs that have the value
}

// Row is one configuration, run with one or more seeds.
type Row struct {
	Settings map[string]string // the configuration's value of each of the table's Keys; "" where it has no such key
	Runs     []string          // ids of the runs that completed
	Failed   []string          // ids of the runs that did not: they are in no mean
	Metrics  map[string]Stat   // by key of Summary; a metric that no run has is absent
}

// Table compares runs.
type Table struct {
	Keys    []string // the settings that tell the rows apart
	Metrics []string // the metrics that any row has, in the order of Summary
	Rows    []Row    // best first
}

// tableMetrics are the keys of Summary that a table shows.
func tableMetrics() []string {
	return []string{
		"test_accuracy", "test_loss", "best_val_accuracy", "seconds", "images_per_s", "mem_planned_bytes", "mem_peak_bytes",
		"skipped_steps", "final_loss_scale",
	}
}

// metric is the value of one of tableMetrics; false where the run has none.
func (s *Summary) metric(key string) (float64, bool) {
	optional := func(v *float64) (float64, bool) {
		if v == nil {
			return 0, false
		}
		return *v, true
	}
	switch key {
	case "test_accuracy":
		return optional(s.TestAccuracy)
	case "test_loss":
		return optional(s.TestLoss)
	case "best_val_accuracy":
		return optional(s.BestValAccuracy)
	case "seconds":
		return s.Seconds, true
	case "images_per_s":
		return s.ImagesPerS, true
	case "mem_planned_bytes":
		return float64(s.MemPlannedBytes), true
	case "mem_peak_bytes":
		return float64(s.MemPeakBytes), true
	case "skipped_steps":
		return float64(s.SkippedSteps), true
	case "final_loss_scale":
		return s.FinalLossScale, true
	}
	return 0, false
}

// NewTable groups the runs by configuration, whatever the seed, and orders them: by mean test accuracy, else by mean test
// loss. The device and processor that a run really had count as settings. Seed, run folder, logging and checkpoints do not: they make
// no difference to a result.
func NewTable(records []*Record) *Table {
	groups := map[string][]*Record{}
	var order []string
	for _, r := range records {
		key := groupKey(r)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], r)
	}
	t := &Table{}
	var all []map[string]string
	for _, key := range order {
		all = append(all, settings(groups[key][0]))
	}
	t.Keys = tellingKeys(all)
	for i, key := range order {
		t.Rows = append(t.Rows, newRow(groups[key], all[i], t.Keys))
	}
	for _, m := range tableMetrics() {
		if slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Metrics[m].N > 0 }) {
			t.Metrics = append(t.Metrics, m)
		}
	}
	slices.SortStableFunc(t.Rows, better)
	return t
}

func newRow(records []*Record, settings map[string]string, keys []string) Row {
	row := Row{Settings: map[string]string{}, Metrics: map[string]Stat{}}
	for _, key := range keys {
		row.Settings[key] = settings[key]
	}
	values := map[string][]float64{}
	for _, r := range records {
		if r.Summary == nil || r.Summary.ExitCode != 0 {
			row.Failed = append(row.Failed, r.ID)
			continue
		}
		row.Runs = append(row.Runs, r.ID)
		for _, m := range tableMetrics() {
			if v, ok := r.Summary.metric(m); ok {
				values[m] = append(values[m], v)
			}
		}
	}
	for m, v := range values {
		row.Metrics[m] = newStat(v)
	}
	return row
}

func newStat(v []float64) Stat {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	mean := sum / float64(len(v))
	squares := 0.0
	for _, x := range v {
		squares += (x - mean) * (x - mean)
	}
	return Stat{Mean: mean, Std: math.Sqrt(squares / float64(len(v)-1)), N: len(v)} // 0/0 is NaN for one run
}

// better orders rows: higher test accuracy first, then lower test loss. Rows without a value, or with NaN, come last.
func better(a, b Row) int {
	return cmp.Or(
		cmp.Compare(b.rank("test_accuracy", 1), a.rank("test_accuracy", 1)),
		cmp.Compare(b.rank("test_loss", -1), a.rank("test_loss", -1)),
	)
}

// rank is the metric's mean times sign, lowest of all where there is none.
func (r Row) rank(metric string, sign float64) float64 {
	s := r.Metrics[metric]
	if s.N == 0 || math.IsNaN(s.Mean) {
		return math.Inf(-1)
	}
	return sign * s.Mean
}
