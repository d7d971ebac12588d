//go:build unix

// Package scripts_test runs the shell scripts.
package scripts_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binary is the train binary of these tests.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sweep")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "train")
	if out, err := exec.Command("go", "build", "-o", binary, "../cmd/train").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s", err, out)
		return 1
	}
	return m.Run()
}

// place is a folder to run sweep.sh in, with a train binary behind a script that notes the processes it becomes.
type place struct {
	dir, pids string
	env       []string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("runs where bash is installed")
	}
	p := &place{dir: t.TempDir()}
	tools := t.TempDir()
	p.pids = filepath.Join(tools, "pids")
	wrapper := filepath.Join(tools, "train")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$* \" in *--dry-run*|report*) ;; *) echo $$ >>'%s' ;; esac\nexec '%s' \"$@\"\n", p.pids, binary)
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p.env = append(os.Environ(), "HALFSTEP_TRAIN="+wrapper)
	return p
}

// sweep is the script with arguments, in a process group of its own as a shell would start it.
func (p *place) sweep(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	script, err := filepath.Abs("sweep.sh")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("bash", append([]string{script}, args...)...)
	c.Dir, c.Env = p.dir, p.env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

// processes are those that train.
func (p *place) processes(t *testing.T) []int {
	t.Helper()
	b, err := os.ReadFile(p.pids)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var list []int
	for _, s := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(s)
		if err == nil && syscall.Kill(pid, 0) == nil && !zombie(pid) {
			list = append(list, pid)
		}
	}
	return list
}

// zombie reports whether a process has ended and only waits for its parent to ask; some containers have none that asks.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(b, []byte(") Z "))
}

func (p *place) glob(pattern string) []string {
	list, _ := filepath.Glob(filepath.Join(p.dir, pattern)) // fails on a bad pattern only
	return list
}

// running is a sweep at work, whose output goes to a file.
type running struct {
	*exec.Cmd
	printed string
	ended   chan struct{}
}

func (c *running) output() string {
	b, err := os.ReadFile(c.printed)
	return fmt.Sprint(string(b), err)
}

// patience is for machines that have much else to do.
const patience = 3 * time.Minute

// start starts a sweep and waits until so many runs have ended and so many more are at work and have a checkpoint.
func (p *place) start(t *testing.T, ended, working int, args ...string) *running {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := &running{Cmd: p.sweep(t, args...), printed: out.Name(), ended: make(chan struct{})}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.Wait(); close(c.ended) }()
	t.Cleanup(func() { p.kill(t, c) })
	for deadline := time.Now().Add(patience); !p.stands(ended, working); time.Sleep(2 * time.Millisecond) {
		select {
		case <-c.ended:
			t.Fatalf("the sweep has ended: %s", c.output())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v there are not %d runs ended and %d at work: %s", patience, ended, working, c.output())
		}
	}
	return c
}

func (p *place) stands(ended, working int) bool {
	for _, run := range p.glob("sweep/*/2*") {
		if _, err := os.Stat(filepath.Join(run, "summary.json")); err == nil {
			ended--
		} else if saved, _ := filepath.Glob(filepath.Join(run, "checkpoints", "step-*.safetensors")); len(saved) > 0 {
			working--
		}
	}
	return ended <= 0 && working <= 0
}

// kill kills a sweep and all that train.
func (p *place) kill(t *testing.T, c *running) {
	c.Process.Kill()
	<-c.ended
	for _, pid := range p.processes(t) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	for len(p.processes(t)) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestSweep: six points, two at a time; interrupted while two are at work, killed later, and each time gone on with, they are
// all done in the end, and the table has a row for each learning rate over three seeds.
func TestSweep(t *testing.T) {
	p := newPlace(t)
	args := []string{
		"--config", "mlp", "--dir", "sweep", "-j", "2", "optim.lr=0.001,0.003", "seed=1,2,3", "model.layers=[flatten, {linear: {units: 10}}]",
		"epochs=4", "data.batch_size=100", "checkpoint.steps=20", "log.every=20",
	}

	c := p.start(t, 0, 2, args...)
	c.Process.Signal(os.Interrupt)
	<-c.ended
	if code := c.ProcessState.ExitCode(); code != 130 || len(p.processes(t)) > 0 {
		t.Errorf("exit code %d, processes %v are left: %s", code, p.processes(t), c.output())
	}
	if n := len(p.glob("sweep/*/2*/summary.json")); n != len(p.glob("sweep/*/2*")) {
		t.Errorf("%d of %d runs have ended with a summary: %s", n, len(p.glob("sweep/*/2*")), c.output())
	}

	p.kill(t, p.start(t, 2, 1, args...))

	last, err := p.sweep(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, last)
	}
	p.wantAllDone(t, string(last))

	last, err = p.sweep(t, args...).CombinedOutput()
	if err != nil || strings.Count(string(last), "done before") != 6 {
		t.Errorf("again: %v: %s", err, last)
	}
}

// wantAllDone checks the index of a finished sweep, and the table at the end of what it printed.
func (p *place) wantAllDone(t *testing.T, printed string) {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(p.dir, "sweep", "index.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(index)), "\n")
	resumed := 0
	for _, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != 4 || cells[2] != "0" || !strings.Contains(cells[3], "seed=") {
			t.Errorf("index: %q", line)
			continue
		}
		log, err := os.ReadFile(filepath.Join(p.dir, "sweep", cells[1], "log.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(log, []byte(`"event":"resume"`)) {
			resumed++
		}
	}
	if len(lines) != 7 || resumed < 2 {
		t.Errorf("%d points in the index, %d of them resumed:\n%s", len(lines)-1, resumed, index)
	}
	_, table, _ := strings.Cut(printed, "optim.lr ")
	rows := strings.Split(table, "\n")
	if len(rows) < 3 || !strings.Contains(printed, "6 of 6 points are done") {
		t.Fatalf("no table:\n%s", printed)
	}
	for _, row := range rows[1:3] {
		if cells := strings.Fields(row); len(cells) < 3 || !strings.HasPrefix(cells[0], "0.00") || cells[1] != "3" || !strings.Contains(row, "±") {
			t.Errorf("row %q, want a learning rate, 3 runs and a spread", row)
		}
	}
	t.Log("\n" + printed)
}

// Arguments that make no sense end with 2 before anything runs.
func TestSweepUsage(t *testing.T) {
	p := newPlace(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--config is missing"},
		{[]string{"--config"}, "--config wants a value"},
		{[]string{"--config", "mlp", "seed"}, "want key=value"},
		{[]string{"--config", "mlp", "seed=1,,2"}, "empty"},
		{[]string{"--config", "mlp", "seed=1,1"}, "1 is given twice"},
		{[]string{"--config", "mlp", "seed=1", "seed=2"}, "seed is given twice"},
		{[]string{"--config", "mlp", "=1"}, "key is missing"},
		{[]string{"--config", "mlp", "runs_dir=x"}, "--dir"},
		{[]string{"--config", "mlp", "model.layers=[relu"}, "not closed"},
		{[]string{"--config", "mlp", "-j", "0"}, "-j 0"},
		{[]string{"--config", "mlp", "-jx"}, "-j x"},
		{[]string{"--config", "mlp", "--what"}, "unknown option --what"},
		{[]string{"--config", "mlp", "seed=1,2", "optim.lx=1"}, "did you mean"},
		{[]string{"--config", "none.yaml"}, "none.yaml"},
	} {
		out, err := p.sweep(t, c.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v: %s; want exit code 2 and %q", c.args, err, out, c.want)
		}
	}
	if left := p.glob("*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The grid is every combination, the last key fastest; a list in brackets is one value.
func TestSweepDryRun(t *testing.T) {
	p := newPlace(t)
	out, err := p.sweep(t, "--config", "mlp", "--dry-run", "optim.lr=1e-3,2e-3", "model.layers=[flatten, {linear: {units: 10}}]", "seed=1,2").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "[1/4] optim.lr=1e-3 seed=1: new\n[2/4] optim.lr=1e-3 seed=2: new\n[3/4] optim.lr=2e-3 seed=1: new\n[4/4] optim.lr=2e-3 seed=2: new\n"
	if string(out) != want {
		t.Errorf("got\n%s, want\n%s", out, want)
	}
}
