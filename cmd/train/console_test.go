package main

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"halfstep/runs"
)

// TestHelp: what stands behind a flag is the kind of its value.
func TestHelp(t *testing.T) {
	dir := t.TempDir()
	train(t, dir, "--help").wants(t, 0, "--resume string", `"latest"`)
	train(t, dir, "eval", "--help").wants(t, 0, "--runs-dir string", `"latest"`)
	train(t, dir, "bench", "matmul", "--help").wants(t, 0, "--runs int", "(default 20)")
	if o := train(t, dir, "compare", "--help").wants(t, 0, "--epochs int"); strings.Contains(o.stdout, "default 0") {
		t.Error(o)
	}
}

// TestDevices: the keys that scripts read.
func TestDevices(t *testing.T) {
	t.Setenv("HALFSTEP_LIBCUDA", "/nowhere/libcuda.so.1") // the same on a machine with a GPU
	o := train(t, t.TempDir(), "devices", "--json").wants(t, 0)
	var list []map[string]any
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil || len(list) != 2 {
		t.Fatalf("%v: %v", err, o)
	}
	p, _ := list[0]["properties"].(map[string]any)
	for _, key := range []string{"kind", "name", "isa", "cores", "threads", "memory_bytes"} {
		if p[key] == nil {
			t.Errorf("no %s in %v", key, p)
		}
	}
	if list[0]["name"] != "cpu" || list[0]["why"] != nil || list[1]["name"] != "cuda" || list[1]["why"] == nil || list[1]["properties"] != nil {
		t.Error(o)
	}
}

// TestNoSuchLevel: a word that is no level is told apart from one that this machine has not got.
func TestNoSuchLevel(t *testing.T) {
	t.Setenv("HALFSTEP_CPU", "foo")
	train(t, t.TempDir(), "devices").wants(t, 0, "HALFSTEP_CPU=foo: no such level, want one of [portable")
}

// TestSummaryText: a run that was stopped before its first step has no rate.
func TestSummaryText(t *testing.T) {
	s := &runs.Summary{ExitReason: "interrupted", ImagesPerS: math.NaN(), FinalLossScale: 1}
	if text := summaryText(s, ""); strings.Contains(text, "NaN") || !strings.HasPrefix(text, "interrupted after 0 epochs, 0 steps, 0.0 s\n") {
		t.Error(text)
	}
	s.Steps, s.ImagesPerS = 5, 1234.5
	if text := summaryText(s, ""); !strings.Contains(text, "5 steps, 0.0 s (1234 images/s)\n") {
		t.Error(text)
	}
}

// TestWriteFile: a full disk is told once, and what was written is removed; what is no file is left alone.
func TestWriteFile(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("runs where there is /dev/full")
	}
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{10, 10000} { // the error comes from the flush, from the writing
		err := writeFile(path, func(w io.Writer) error { _, err := w.Write(make([]byte, n)); return err })
		if err == nil || strings.Count(err.Error(), "no space left") != 1 {
			t.Errorf("%d bytes: %v", n, err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	path = filepath.Join(t.TempDir(), "page.html")
	if err := writeFile(path, func(io.Writer) error { return io.ErrUnexpectedEOF }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("half a page is left")
	}
}
