package runs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	base := t.TempDir()
	first := sampleRun(t, base, Options{})
	second, err := Create(base, "other", start.AddDate(0, 0, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for arg, want := range map[string]string{
		first.Dir: first.Dir, first.ID: first.Dir, first.ID[len(first.ID)-8:]: first.Dir, "20261201": second.Dir, "latest": second.Dir,
	} {
		if got, err := Find(base, arg); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", arg, got, err, want)
		}
	}
	for arg, want := range map[string]string{"2026": "could be any", "none": "none in", "": "none in"} {
		if got, err := Find(base, arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v; want an error with %q", arg, got, err, want)
		}
	}
	// A folder that is there, but is no run: by its path, by its name in base, and where there is no base.
	if err := os.Mkdir(filepath.Join(base, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{base, filepath.Join(base, "empty")}, {base, "empty"}, {filepath.Join(base, "nowhere"), base}} {
		if got, err := Find(c[0], c[1]); err == nil || !strings.Contains(err.Error(), "is not a run folder: it has no log.jsonl") {
			t.Errorf("%q: %s, %v; want that it is not a run folder", c, got, err)
		}
	}
	if _, err := Find(filepath.Join(base, "nowhere"), "latest"); err == nil {
		t.Error("a folder that is not there has a latest run")
	}
}
