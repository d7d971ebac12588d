package report

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"halfstep/runs"
)

// FuzzReport makes a page and plots of a run with any bytes as its log: whatever numbers stand in it, they end, in a drawing
// or an error.
func FuzzReport(f *testing.F) {
	run, err := runs.Create(f.TempDir(), "fuzz", time.Unix(0, 0), runs.Options{Config: []byte("seed: 1\n")})
	if err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(run.Dir, runs.LogFile)
	for _, l := range record("a").Lines[:5] {
		run.Log(l.Event)
	}
	for _, e := range record("a").Epochs {
		run.Log(e)
	}
	if err := run.Close(); err != nil {
		f.Fatal(err)
	}
	log, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(log)
	for _, values := range []string{`"step":9007199254740993,"train_loss":1e-320`, `"step":-1,"train_loss":-1e308,"loss_scale":1e308`, `"step":1,"loss_scale":1e-320`} {
		f.Add(fmt.Appendf(log, "{\"ts\":\"2026-11-30T09:51:32.000Z\",\"event\":\"step\",%s}\n", values))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := runs.Open(run.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, records := range [][]*runs.Record{{r}, {r, r}} {
			if err := HTML(io.Discard, records); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range Plots() {
			if err := Plot(io.Discard, []*runs.Record{r}, name, "svg"); err != nil {
				t.Log(err)
			}
		}
	})
}
