package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"halfstep/runs"
)

// loggedRun trains in float16 with so large a first scale that steps are skipped, is stopped, and goes on.
func loggedRun(t *testing.T) (dir string, r *runs.Record) {
	t.Helper()
	dir = workplace(t, 320, 64, small)
	train(t, dir, "--config", "test.yaml", "amp.grad_scaler.init_scale=16777216", "amp.grad_scaler.growth_interval=10", "data.validation=64",
		"checkpoint.best=true", "max_steps=14").wants(t, 0)
	train(t, dir, "--resume", theRun(t, dir), "max_steps=0", "--allow", "max_steps").wants(t, 0)
	return dir, reread(t, theRun(t, dir))
}

// TestLogSchema: every line that a run logs has the documented keys of its event, each of its type, and no others.
func TestLogSchema(t *testing.T) {
	dir, r := loggedRun(t)
	b, err := os.ReadFile(filepath.Join(theRun(t, dir), runs.LogFile))
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string][]runs.Key{}
	for _, l := range r.Lines {
		keys[l.Event.Name()] = runs.Keys(l.Event) // docs/LOGS.md lists the same: package runs tests that
	}
	for line := range bytes.Lines(b) {
		var got map[string]any
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		event, _ := got["event"].(string)
		if keys[event] == nil {
			t.Errorf("no such event: %s", line)
			continue
		}
		if got["run"] != r.ID || got["level"] == nil || got["ts"] == nil {
			t.Errorf("not every line's keys: %s", line)
		}
		for _, key := range []string{"event", "run", "level", "ts"} {
			delete(got, key)
		}
		for _, k := range keys[event] {
			v, ok := got[k.Name]
			delete(got, k.Name)
			reason, named := got[k.Name+"_reason"]
			delete(got, k.Name+"_reason")
			if !ok && k.Optional {
				continue
			}
			if !fits(v, k.Type) && !(ok && v == nil && named && (reason == "nan" || reason == "inf" || reason == "-inf")) {
				t.Errorf("%s: %s is %v, want %s: %s", event, k.Name, v, k.Type, line)
			}
		}
		if len(got) > 0 {
			t.Errorf("%s: keys that are not documented: %v", event, got)
		}
	}
	for _, want := range []string{"run_start", "data", "model", "memory", "step", "skipped_step", "scale_change", "epoch", "evaluation", "checkpoint", "resume", "run_end"} {
		if keys[want] == nil {
			t.Errorf("the run logged no %s", want)
		}
	}
}

// TestLogNamesWhatWasChosen: the log tells which of EMNIST's sets was there, and what a resumed run goes on with.
func TestLogNamesWhatWasChosen(t *testing.T) {
	dir := workplace(t, 64, 32, small)
	for old, name := range map[string]string{"train": "emnist-digits-train", "t10k": "emnist-digits-test"} {
		for _, part := range []string{"-images-idx3-ubyte", "-labels-idx1-ubyte"} {
			if err := os.Rename(filepath.Join(dir, old+part), filepath.Join(dir, name+part)); err != nil {
				t.Fatal(err)
			}
		}
	}
	train(t, dir, "--config", "test.yaml", "device=cpu", "epochs=1", "amp.enabled=false").wants(t, 0)
	train(t, dir, "--resume", theRun(t, dir), "device=gorgonia", "epochs=2", "--allow", "device,epochs").wants(t, 0)
	var sets, devices []string
	for _, l := range reread(t, theRun(t, dir)).Lines {
		switch e := l.Event.(type) {
		case runs.Data:
			if e.Split != nil {
				sets = append(sets, *e.Split)
			}
		case runs.Resumed:
			devices = append(devices, e.Device, e.DeviceName)
		}
	}
	if len(sets) != 2 || sets[0] != "digits" || len(devices) != 2 || devices[0] != "gorgonia" || devices[1] == "" {
		t.Errorf("sets %q, want digits twice; resumed on %q, want gorgonia and its name", sets, devices)
	}
}

// fits reports whether a JSON value is of a documented type.
func fits(v any, typ string) bool {
	switch x := v.(type) {
	case string:
		return typ == "string"
	case bool:
		return typ == "bool"
	case float64:
		return typ == "float" || typ == "int" && x == math.Trunc(x)
	case []any:
		for _, e := range x {
			if !fits(e, strings.TrimPrefix(typ, "[]")) {
				return false
			}
		}
		return strings.HasPrefix(typ, "[]")
	}
	return false
}

// TestLogQuestions: the jq commands of docs/LOGS.md answer their questions about a real run; package runs compares their
// answers with ones worked out by hand.
func TestLogQuestions(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("runs where jq is installed")
	}
	docs, err := os.ReadFile("../../docs/LOGS.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, r := loggedRun(t)
	lines := map[string]int{}
	for _, l := range r.Lines {
		lines[l.Event.Name()]++
	}
	s := r.Summary
	// What each answer must have: how many lines, or a line.
	count := map[string]int{
		"The loss curve": lines["step"], "The loss curve of a resumed run": lines["step"], "Which steps were skipped": lines["skipped_step"], "The path of the loss scale": lines["scale_change"],
		"Throughput": len(r.Epochs), "Losses that were not finite": 0, "The best epoch": 1, "Several runs side by side": 1,
	}
	has := map[string]string{
		"The best epoch":            fmt.Sprintf(": %v\n", *s.BestValAccuracy),
		"Memory":                    fmt.Sprintf("mem_planned_bytes %v\n", float64(s.MemPlannedBytes)/1e6),
		"Several runs side by side": fmt.Sprintf("%s\tfloat16\t32\t%v\t", r.ID, *s.TestAccuracy),
	}
	examples := regexp.MustCompile("(?s)\\*\\*([^*]+)\\*\\*[^`]*```sh\n(.*?)```").FindAllStringSubmatch(string(docs), -1)
	if len(examples) < 8 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		question, c := e[1], exec.Command("sh", "-c", e[2])
		c.Dir, c.Stderr = r.Dir, os.Stderr
		if strings.Contains(e[2], "*/") {
			c.Dir = filepath.Join(dir, "runs")
		}
		out, err := c.Output()
		if err != nil {
			t.Errorf("%s: %v", question, err)
		}
		if n, ok := count[question]; ok && strings.Count(string(out), "\n") != n {
			t.Errorf("%s: want %d lines:\n%s", question, n, out)
		}
		if !strings.Contains(string(out), has[question]) {
			t.Errorf("%s: no %q in\n%s", question, has[question], out)
		}
	}
	if lines["skipped_step"] == 0 || lines["scale_change"] <= lines["skipped_step"] {
		t.Errorf("the run skipped %d steps and changed its scale %d times: too few to ask about", lines["skipped_step"], lines["scale_change"])
	}
}
