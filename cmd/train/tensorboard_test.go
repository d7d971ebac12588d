package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"halfstep/runs"
	"halfstep/runs/tfevents"
)

// curves reads the points of a run's event files, but for times: the value of each tag and step, which must be there once.
func curves(t *testing.T, run string) map[string]float32 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(run, tfevents.Prefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	points := map[string]float32{}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		events, err := tfevents.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			for _, s := range e.Scalars {
				key := fmt.Sprint(s.Tag, " ", e.Step)
				if _, twice := points[key]; twice {
					t.Errorf("%s is there twice", key)
				}
				if !strings.HasPrefix(s.Tag, "speed/") {
					points[key] = s.Value
				}
			}
		}
	}
	return points
}

// TestTensorBoard: the curves have what the log has. Those of a run that was set back to an earlier checkpoint, and trained these
// steps again, are those of one that never stopped.
func TestTensorBoard(t *testing.T) {
	dir := workplace(t, 320, 64, small)
	args := []string{"--config", "test.yaml", "log.tensorboard=true", "checkpoint.steps=4", "data.validation=64"}
	train(t, dir, append(args, "runs_dir=whole")...).wants(t, 0)
	whole, err := filepath.Glob(filepath.Join(dir, "whole", "*"))
	if err != nil || len(whole) != 1 {
		t.Fatal(whole, err)
	}
	want := curves(t, whole[0])
	logged := map[string]float32{}
	for _, l := range reread(t, whole[0]).Lines {
		switch e := l.Event.(type) {
		case runs.Step:
			logged[fmt.Sprint("loss/train ", e.Step)] = float32(e.TrainLoss)
		case runs.Epoch:
			logged[fmt.Sprint("accuracy/test ", e.Step)] = float32(*e.TestAccuracy)
			logged[fmt.Sprint("loss/val ", e.Step)] = float32(*e.ValLoss)
		}
	}
	if len(logged) < 10 {
		t.Errorf("only %d numbers in the log", len(logged))
	}
	for key, v := range logged {
		if got, ok := want[key]; !ok || got != v {
			t.Errorf("%s is %v, %v; want %v", key, got, ok, v)
		}
	}
	for _, from := range []int{12, 15} { // 15 is within an epoch that max_steps cut, and summed up
		os.RemoveAll(filepath.Join(dir, "runs"))
		train(t, dir, append(args, "max_steps=15")...).wants(t, 0)
		run := theRun(t, dir)
		if from == 12 {
			if err := os.Remove(newest(t, run).Path); err != nil {
				t.Fatal(err)
			}
		}
		before := len(curves(t, run))
		train(t, dir, "--resume", run, "max_steps=0", "--allow", "max_steps").wants(t, 0)
		if d := cmp.Diff(want, curves(t, run)); d != "" {
			t.Errorf("from step %d: %s", from, d)
		}
		sameEnd(t, whole[0], run)
		t.Logf("%d points, %d before the resume from step %d", len(want), before, from)
	}
}
