package runs

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// FuzzLog feeds any bytes as log, metrics, configuration, summary and predictions of a run: Open reads what it can and names
// the rest, and what it read can be tabulated.
func FuzzLog(f *testing.F) {
	base := f.TempDir()
	r, err := Create(base, "fuzz", start, Options{Config: []byte("seed: 1\nmodel: {layers: [relu, {linear: {units: 3}}]}\n"), Clock: tick()})
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range append(sampleEvents(), Resumed{Epoch: 1, Step: 60, Path: "checkpoints/step-00000060.safetensors"}) {
		r.Log(e)
	}
	if err := r.WritePredictions(samplePredictions()); err != nil {
		f.Fatal(err)
	}
	if err := r.Finish(sampleSummary()); err != nil {
		f.Fatal(err)
	}
	names := []string{LogFile, MetricsFile, ConfigFile, SummaryFile, PredictionsFile, EnvironmentFile}
	files := make([][]byte, len(names))
	for i, name := range names {
		if files[i], err = os.ReadFile(filepath.Join(r.Dir, name)); err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), files[i])
	}
	f.Add(uint8(0), []byte(`{"ts":"2026-11-30T09:51:32.000Z","event":"step","step":null,"train_loss":null,"train_loss_reason":"nan"}`+"\n{"))
	f.Add(uint8(0), []byte(`{"ts":"2026-11-30T09:51:32.000Z","event":"resume","step":-1}`+"\n"))
	f.Add(uint8(1), []byte("epoch,step\r\n1,nan\r\n,\r\n2"))
	f.Add(uint8(2), []byte("a: &x [*x]\n<<: *x\n? [b]\n: c\n"))
	changed := 0 // the file that the call before replaced
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		write := func(k int, content []byte) {
			if err := os.WriteFile(filepath.Join(r.Dir, names[k]), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write(changed, files[changed])
		changed = int(which) % len(names)
		write(changed, b)
		rec, err := Open(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range Formats() {
			if err := NewTable([]*Record{rec, rec}).Write(io.Discard, format); err != nil {
				t.Fatal(err)
			}
		}
	})
}
