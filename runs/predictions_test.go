package runs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is written is what Open reads; a file that would lead a reader astray is a problem, not a panic; Resume removes it.
func TestPredictionsFile(t *testing.T) {
	r := sampleRun(t, t.TempDir(), Options{})
	rec := must(Open(r.Dir))
	if d := cmp.Diff(samplePredictions(), rec.Predictions); d != "" {
		t.Error(d)
	}
	path := filepath.Join(r.Dir, PredictionsFile)
	whole := read(t, path)
	for _, c := range []struct{ old, new, want string }{
		{`[[1,1],[0,1]]`, `[[1,1],[0]]`, "a row of 1 in 2 classes"},
		{`[1,2,1]`, `[1,0,1]`, "shape [1 0 1]"},
		{`[1,2,1]`, `[]`, "shape []"},
		{`[1,2,1]`, `[2,2,1]`, "image 2 has 2 bytes"},
		{`"label":1`, `"label":2`, "image 2 has label 2 of 2 classes"},
		{`"predicted":0`, `"predicted":-1`, "image 2 has prediction -1 of 2 classes"},
		{`{"run"`, `{`, "invalid character"},
	} {
		text := strings.Replace(whole, c.old, c.new, 1)
		if text == whole {
			t.Fatalf("the file has no %s", c.old)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		rec := must(Open(r.Dir))
		if got := strings.Join(rec.Problems, "\n"); rec.Predictions != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: predictions %v, problems %q, want %q", c.new, rec.Predictions, got, c.want)
		}
	}
	resumed, err := Resume(r.Dir, Resumed{Epoch: 1, Step: 108}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	if exists(path) {
		t.Error("predictions of the earlier end are left after Resume")
	}
}
