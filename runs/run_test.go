package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// helperCreate makes n runs at one fixed time and prints their folders.
func helperCreate(base, n string) {
	for range must(strconv.Atoi(n)) {
		fmt.Println(must(Create(base, "sweep", start, Options{})).Dir)
	}
}

// Two processes with several runs each, all in the same second: no folder is shared.
func TestCreateNeverShares(t *testing.T) {
	if args := helperArgs(); args != nil {
		helperCreate(args[0], args[1])
		os.Exit(0)
	}
	base := t.TempDir()
	var wg sync.WaitGroup
	outputs := make([]bytes.Buffer, 2)
	for i := range outputs {
		c := helper(t, base, "20")
		c.Stdout = &outputs[i]
		wg.Go(func() {
			if err := c.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	form := regexp.MustCompile(`^20261130T095132Z-sweep-[0-9a-f]{8}$`)
	seen := map[string]bool{}
	for _, dir := range strings.Fields(outputs[0].String() + outputs[1].String()) {
		if seen[dir] {
			t.Errorf("%s was given twice", dir)
		}
		seen[dir] = true
		if !form.MatchString(filepath.Base(dir)) {
			t.Errorf("%s has the wrong form", dir)
		}
	}
	if entries := must(os.ReadDir(base)); len(seen) != 40 || len(entries) != 40 {
		t.Errorf("%d names, %d folders, want 40", len(seen), len(entries))
	}
}

func TestCreateFiles(t *testing.T) {
	r := sampleRun(t, t.TempDir(), Options{
		Config:      []byte("seed: 42 # file\n"),
		Sources:     map[string]string{"seed": "cnn_amp.yaml:1"},
		Environment: ReadEnvironment(),
	})
	if got := read(t, r.Dir, ConfigFile); got != "seed: 42 # file\n" {
		t.Errorf("config.yaml is %q", got)
	}
	var sources map[string]string
	if err := json.Unmarshal([]byte(read(t, r.Dir, SourcesFile)), &sources); err != nil || sources["seed"] != "cnn_amp.yaml:1" {
		t.Errorf("sources.json: %v %v", sources, err)
	}
	var e Environment
	if err := json.Unmarshal([]byte(read(t, r.Dir, EnvironmentFile)), &e); err != nil || e.GoVersion == "" || e.OS == "" || e.CPUs == 0 {
		t.Errorf("environment.json: %+v %v", e, err)
	}
	if !exists(r.CheckpointDir()) {
		t.Error("no folder for checkpoints")
	}
	if n := strings.Count(read(t, r.Dir, MetricsFile), "\n"); n != 3 {
		t.Errorf("metrics.csv has %d lines, want a header and 2 epochs", n)
	}
}

func TestCreateErrors(t *testing.T) {
	if _, err := Create(t.TempDir(), "x", start, Options{Level: "loud"}); err == nil || !strings.Contains(err.Error(), `"loud"`) {
		t.Errorf("level loud: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(file, "x", start, Options{}); err == nil {
		t.Error("a file serves as the base folder")
	}
}

func TestCleanName(t *testing.T) {
	for name, want := range map[string]string{
		"cnn_amp": "cnn_amp", "../../etc": "..-..-etc", "a b/ü": "a-b--", "": "run", strings.Repeat("x", 100): strings.Repeat("x", 64),
	} {
		if got := cleanName(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

func TestSummaryFile(t *testing.T) {
	r := sampleRun(t, t.TempDir(), Options{})
	text := read(t, r.Dir, SummaryFile)
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	// The keys that scripts were promised.
	for _, key := range strings.Fields(`run config seed device dtype batch_size epochs seconds images_per_s test_accuracy test_loss
		best_val_accuracy skipped_steps final_loss_scale mem_planned_bytes mem_peak_bytes resident_data_bytes exit_reason exit_code`) {
		if _, ok := m[key]; !ok {
			t.Errorf("no key %s", key)
		}
	}
	if m["run"] != r.ID || m["test_loss"] != nil || m["test_loss_reason"] != "inf" {
		t.Errorf("run %v, test_loss %v, reason %v", m["run"], m["test_loss"], m["test_loss_reason"])
	}
	got, err := readSummary(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sampleSummary(), *got); d != "" {
		t.Error(d)
	}
}

func TestResume(t *testing.T) {
	r := sampleRun(t, t.TempDir(), Options{Config: []byte("epochs: 2\n")})
	for _, step := range []int{108, 216} {
		if _, err := SaveCheckpoint(r.CheckpointDir(), step, testCheckpoint(step, 4)); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Resume(r.Dir, Resumed{Epoch: 2, Step: 108}, Options{Config: []byte("epochs: 3\n"), Clock: tick()})
	if err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(r.Dir, SummaryFile)) {
		t.Error("the old summary is still there")
	}
	if _, err := Resume(r.Dir, Resumed{}, Options{}); !errors.Is(err, ErrBusy) {
		t.Errorf("resumed twice at once: %v", err)
	}
	again.Log(Epoch{Epoch: 2, Step: 217, TrainLoss: 0.125})
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, r.Dir, "config.1.yaml") + read(t, r.Dir, ConfigFile); got != "epochs: 2\nepochs: 3\n" {
		t.Errorf("configurations: %q", got)
	}
	if exists(filepath.Join(r.Dir, "environment.1.json")) {
		t.Error("the environment did not change, but was kept twice")
	}
	c, _, err := Latest(r.CheckpointDir())
	if err != nil || c.Step != 108 {
		t.Errorf("the newest checkpoint is %+v, %v; want that of step 108", c, err)
	}
	rec, err := Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var steps []int
	for _, e := range rec.Epochs {
		steps = append(steps, e.Step)
	}
	if d := cmp.Diff([]int{108, 217}, steps); d != "" {
		t.Errorf("steps of the epochs: %s", d)
	}
	for _, l := range rec.Lines {
		if s, ok := eventStep(l.Event); ok && s > 108 && s != 217 {
			t.Errorf("%s of step %d was undone", l.Event.Name(), s)
		}
	}
}

// A resume that fails leaves the run as it was: an event file that cannot be read, a checkpoint that cannot be renamed, a name
// that another has.
func TestFailedResume(t *testing.T) {
	for _, blocked := range []string{
		"events.out.tfevents.1000000000.halfstep.7", MetricsFile, SourcesFile, filepath.Join(CheckpointsDir, "step-00000216.safetensors.undone"),
	} {
		r := finishedRun(t)
		path := filepath.Join(r.Dir, blocked)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(path, "folder"), 0o755); err != nil { // in the way of a file, for every user
			t.Fatal(err)
		}
		before := must(contents(r.Dir))
		o := Options{Config: []byte("epochs: 3\n"), Sources: map[string]string{"epochs": "override"}, TensorBoard: true}
		if _, err := Resume(r.Dir, Resumed{Epoch: 2, Step: 108}, o); err == nil || !strings.Contains(err.Error(), blocked) {
			t.Errorf("%s is a folder: %v", blocked, err)
		}
		if d := cmp.Diff(before, must(contents(r.Dir))); d != "" {
			t.Errorf("%s is a folder: the run changed:\n%s", blocked, d)
		}
		if err := os.RemoveAll(path); err != nil { // and nothing holds the run any more
			t.Fatal(err)
		}
		again, err := Resume(r.Dir, Resumed{Epoch: 2, Step: 108}, o)
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
	}
}

// An epoch that max_steps cut is summed up once, when it is over: in metrics.csv, in what is read back and in TensorBoard.
func TestResumeWithinEpoch(t *testing.T) {
	r, err := Create(t.TempDir(), "x", start, Options{TensorBoard: true, Clock: tick()})
	if err != nil {
		t.Fatal(err)
	}
	r.Log(Epoch{Epoch: 1, Step: 10, TrainLoss: 1})
	r.Log(Step{Epoch: 2, Step: 17, TrainLoss: 0.75})
	r.Log(Epoch{Epoch: 2, Step: 17, TrainLoss: 0.5})
	if err := r.Finish(Summary{}); err != nil {
		t.Fatal(err)
	}
	again, err := Resume(r.Dir, Resumed{Epoch: 2, Step: 17, Position: 7}, Options{TensorBoard: true, Clock: tick()})
	if err != nil {
		t.Fatal(err)
	}
	again.Log(Epoch{Epoch: 2, Step: 20, TrainLoss: 0.25})
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	want := []Epoch{{Epoch: 1, Step: 10, TrainLoss: 1}, {Epoch: 2, Step: 20, TrainLoss: 0.25}}
	rec, err := Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, rec.Epochs); d != "" {
		t.Errorf("metrics.csv: %s", d)
	}
	var logged []Epoch
	for _, l := range rec.Lines {
		if e, ok := l.Event.(Epoch); ok {
			logged = append(logged, e)
		}
	}
	if d := cmp.Diff(want, logged); d != "" {
		t.Errorf("log: %s", d)
	}
	curves, _ := points(t, r.Dir)
	for p, want := range map[point]float32{{"loss/train_epoch", 10}: 1, {"loss/train", 17}: 0.75, {"loss/train_epoch", 17}: 0, {"loss/train_epoch", 20}: 0.25} {
		if got := curves[p]; got != want {
			t.Errorf("%v is %v, want %v", p, got, want)
		}
	}
}

func TestResumeWantsARun(t *testing.T) {
	if _, err := Resume(t.TempDir(), Resumed{}, Options{}); err == nil || !strings.Contains(err.Error(), "not a run folder") {
		t.Error(err)
	}
}

func TestRunSameTimeZone(t *testing.T) {
	zone := time.FixedZone("", 3600)
	r, err := Create(t.TempDir(), "x", start.In(zone), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !strings.HasPrefix(r.ID, "20261130T095132Z-x-") {
		t.Error(r.ID)
	}
}
