//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"halfstep/runs"
)

// kills is how often the kill test kills: more in the long tests.
func kills() int {
	if os.Getenv("HALFSTEP_LONG") != "" {
		return 100
	}
	return 20
}

// whole trains without interruption, as the measure of all that are interrupted.
func whole(t *testing.T, dir string, args ...string) (run string) {
	t.Helper()
	train(t, dir, append([]string{"--config", "test.yaml", "runs_dir=whole"}, args...)...).wants(t, 0)
	list, err := filepath.Glob(filepath.Join(dir, "whole", "*"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0]
}

// started starts a command and waits until its run has a checkpoint of a step after the given one.
func started(t *testing.T, c *exec.Cmd, dir string, after int) (stderr *strings.Builder) {
	t.Helper()
	stderr = &strings.Builder{}
	c.Stderr = stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		list, _ := filepath.Glob(filepath.Join(dir, "runs", "*", "checkpoints", "step-*.safetensors"))
		for _, path := range list {
			var step int
			if _, err := fmt.Sscanf(filepath.Base(path), "step-%d", &step); err == nil && step > after {
				return stderr
			}
		}
	}
	c.Process.Kill()
	c.Wait()
	t.Fatalf("no checkpoint in a minute: %s", stderr)
	return nil
}

// TestKill: a run that is killed again and again, at random moments, resumes each time and ends with the bits of one that
// never stopped.
func TestKill(t *testing.T) {
	n := kills()
	args := []string{fmt.Sprintf("epochs=%d", 4*n), "checkpoint.steps=3", "optim.accumulate=3", "log.every=4"}
	dir := workplace(t, 640, 64, small)
	want := whole(t, dir, args...)
	random := rand.New(rand.NewPCG(1, 2))
	resume := func() *exec.Cmd { return command(t, dir, "--resume", theRun(t, dir)) }
	c, step, killed := command(t, dir, append([]string{"--config", "test.yaml"}, args...)...), 0, 0
	for killed < n {
		stderr := started(t, c, dir, step)
		time.Sleep(time.Duration(random.IntN(40_000)) * time.Microsecond)
		c.Process.Kill()
		if c.Wait() == nil {
			break // it was done before the kill
		}
		killed++
		if strings.Contains(stderr.String(), "error") {
			t.Fatal(stderr)
		}
		step = newest(t, theRun(t, dir)).Step
		c = resume()
	}
	finish(t, resume()).wants(t, 0)
	sameEnd(t, want, theRun(t, dir))
	t.Logf("killed %d times in %d steps", killed, newest(t, want).Step)
	if killed < n/2 {
		t.Errorf("only %d kills: the run is too short", killed)
	}
}

// TestInterruptCompare: what makes no run folder says nothing of saving.
func TestInterruptCompare(t *testing.T) {
	dir := workplace(t, 640, 64, small)
	c := command(t, dir, "compare", "--config", "test.yaml", "epochs=1000")
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(stderr)
	first, err := r.ReadString('\n') // what is at hand: the signal handler is in place
	if err != nil {
		t.Fatal(err)
	}
	c.Process.Signal(os.Interrupt)
	rest, err := io.ReadAll(r)
	c.Wait()
	if err != nil || c.ProcessState.ExitCode() != 130 || !strings.Contains(string(rest), "interrupted: stopping;") || strings.Contains(string(rest), "saving") {
		t.Errorf("exit code %d, %v: %s%s", c.ProcessState.ExitCode(), err, first, rest)
	}
}

// TestInterruptOnce: the first interrupt saves and ends with 130; resuming goes on to the same end.
func TestInterruptOnce(t *testing.T) {
	dir := workplace(t, 640, 64, small)
	args := []string{"epochs=60", "checkpoint.steps=7"}
	want := whole(t, dir, args...)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		os.RemoveAll(filepath.Join(dir, "runs"))
		c := command(t, dir, append([]string{"--config", "test.yaml"}, args...)...)
		stderr := started(t, c, dir, 0)
		c.Process.Signal(signal)
		c.Wait()
		run := theRun(t, dir)
		if c.ProcessState.ExitCode() != 130 || !strings.Contains(stderr.String(), "interrupted: stopping;") ||
			!strings.Contains(stderr.String(), "saving the run\n") {
			t.Fatalf("exit code %d: %s", c.ProcessState.ExitCode(), stderr)
		}
		r := reread(t, run)
		if r.Summary == nil || r.Summary.ExitReason != "interrupted" || r.Summary.ExitCode != 130 || r.Summary.Steps != newest(t, run).Step {
			t.Errorf("summary %+v, newest checkpoint at %d", r.Summary, newest(t, run).Step)
		}
		train(t, dir, "--resume", run).wants(t, 0)
		sameEnd(t, want, run)
		t.Logf("%v at step %d of %d", signal, r.Summary.Steps, newest(t, want).Step)
	}
}

// TestInterruptTwice: the second interrupt ends the process at once. What was saved is whole.
func TestInterruptTwice(t *testing.T) {
	dir := workplace(t, 640, 64, small)
	want := whole(t, dir, "checkpoint.steps=2", "epochs=40")
	c := command(t, dir, "--config", "test.yaml", "checkpoint.steps=2", "epochs=40")
	started(t, c, dir, 0)
	c.Process.Signal(os.Interrupt)
	time.Sleep(time.Millisecond)
	c.Process.Signal(os.Interrupt)
	c.Wait()
	if code := c.ProcessState.ExitCode(); code != 130 {
		t.Fatalf("exit code %d", code)
	}
	train(t, dir, "--resume", theRun(t, dir)).wants(t, 0)
	sameEnd(t, want, theRun(t, dir))
}

// TestResumeRefuses: a changed configuration is refused, naming the keys, unless they are allowed.
func TestResumeRefuses(t *testing.T) {
	dir := workplace(t, 128, 32, small)
	train(t, dir, "--config", "test.yaml", "epochs=1").wants(t, 0)
	run := theRun(t, dir)
	o := train(t, dir, "--resume", run, "epochs=2", "optim.schedule.max_lr=0.02").wants(t, 2, "epochs: 1 in the run, 2 now", "optim.schedule.max_lr", "--allow")
	if strings.Contains(o.stderr, "batch_size") {
		t.Errorf("names keys that are the same: %v", o)
	}
	train(t, dir, "--resume", run, "epochs=2", "--allow", "data").wants(t, 2, "epochs")
	train(t, dir, "--resume", run, "epochs=2", "--allow", "epochs").wants(t, 0)
	if r := reread(t, run); r.Summary.Epochs != 2 || r.Config["epochs"] != "2" {
		t.Errorf("%+v, epochs %s in the configuration", r.Summary, r.Config["epochs"])
	}
	train(t, dir, "--resume", filepath.Join(dir, "none")).wants(t, 2)
}

// TestResumeWithScaler: a run without mixed precision goes on with it; the scale starts afresh, and that is said.
func TestResumeWithScaler(t *testing.T) {
	dir := workplace(t, 128, 32, small)
	train(t, dir, "--config", "test.yaml", "epochs=1", "amp.enabled=false").wants(t, 0)
	train(t, dir, "--resume", theRun(t, dir), "epochs=2", "amp.enabled=true", "--allow", "epochs,amp").wants(t, 0, "the scale starts afresh")
}

// TestResumeComplete: nothing is left to do, and that is said.
func TestResumeComplete(t *testing.T) {
	dir := workplace(t, 128, 32, small)
	train(t, dir, "--config", "test.yaml").wants(t, 0)
	run := theRun(t, dir)
	before := reread(t, run)
	train(t, dir, "--resume", run).wants(t, 0, "complete after 3 epochs and 12 steps: nothing to do")
	after := reread(t, run)
	if len(after.Lines) != len(before.Lines) || after.Summary.Seconds != before.Summary.Seconds {
		t.Error("the run folder changed")
	}
	if err := os.Remove(filepath.Join(run, runs.SummaryFile)); err != nil { // killed just before its end
		t.Fatal(err)
	}
	train(t, dir, "--resume", run).wants(t, 0)
	if s := reread(t, run).Summary; s == nil || s.Steps != 12 || s.ExitReason != "completed" || *s.TestLoss != *before.Summary.TestLoss || s.FinalLossScale != 65536 {
		t.Errorf("summary %+v", s)
	}
}

// TestDamagedCheckpoint: the one before is used, with a warning, and the end is the same. Without any the run begins anew.
func TestDamagedCheckpoint(t *testing.T) {
	dir := workplace(t, 128, 32, small)
	want := whole(t, dir)
	train(t, dir, "--config", "test.yaml", "max_steps=8").wants(t, 0)
	run := theRun(t, dir)
	for _, keep := range []int{1, 0} {
		list, err := runs.ListCheckpoints(filepath.Join(run, runs.CheckpointsDir))
		if err != nil || len(list) < 2 {
			t.Fatal(list, err)
		}
		for _, path := range list[keep:] {
			damage(t, path)
		}
		o := train(t, dir, "--resume", run, "max_steps=0", "--allow", "max_steps").wants(t, 0, "warning", list[keep])
		if keep == 0 {
			o.wants(t, 0, "starts from the beginning")
		}
		sameEnd(t, want, run)
	}
}

// damage changes bytes in the middle of a file.
func damage(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte("damage"), 4096)
	f.Close()
}

// TestResumeOtherState: what the checkpoint has no state or tensors for is refused as a setting, by its key, and the run stays as
// it was.
func TestResumeOtherState(t *testing.T) {
	dir := workplace(t, 128, 32, small)
	train(t, dir, "--config", "test.yaml", "epochs=1", "data.validation=20").wants(t, 0)
	run := theRun(t, dir)
	for arg, says := range map[string]string{
		"optim={name: sgd, lr: 0.1}":                        "optim.name: sgd cannot go on from the state of adam",
		"optim.amsgrad=true":                                "optim.amsgrad: the checkpoint has no tensor for it",
		"optim.schedule={name: plateau, monitor: val_loss}": "optim.schedule.name: plateau goes on from its own state",
		"model.layers=[flatten, {linear: {units: 10}}]":     "model: the checkpoint has no tensor for it",
	} {
		train(t, dir, "--resume", run, "epochs=2", arg, "--allow", "epochs,optim,model").wants(t, 2, says)
	}
	if r := reread(t, run); r.Summary == nil || r.Config["epochs"] != "1" {
		t.Errorf("summary %+v, configuration %v", r.Summary, r.Config)
	}
}

// TestFullDisk: checkpoints that cannot be written do not end the run. It says so, keeps the last whole one and ends with an
// error; with room again it is resumed to the same end.
func TestFullDisk(t *testing.T) {
	dir := workplace(t, 128, 32, small)
	want := whole(t, dir)
	train(t, dir, "--config", "test.yaml", "max_steps=4").wants(t, 0)
	run := theRun(t, dir)
	saved := newest(t, run)
	c := command(t, dir, "--resume", run, "max_steps=0", "--allow", "max_steps")
	// A limit on the size of files stands for the full disk: the log still fits, checkpoints do not.
	limited := exec.Command("sh", append([]string{"-c", `ulimit -f 32; exec "$0" "$@"`, c.Path}, c.Args[1:]...)...)
	limited.Dir, limited.Env = c.Dir, c.Env
	finish(t, limited).wants(t, 1, "not saved, training goes on", "file too large", "training is complete, but a checkpoint could not be saved")
	if got := newest(t, run); got.Step != saved.Step {
		t.Errorf("newest checkpoint at step %d, want %d", got.Step, saved.Step)
	}
	if s := reread(t, run).Summary; s == nil || s.Steps != 12 || s.ExitCode != 1 {
		t.Errorf("summary %+v", s)
	}
	if left, _ := filepath.Glob(filepath.Join(run, "checkpoints", "*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	train(t, dir, "--resume", run).wants(t, 0)
	sameEnd(t, want, run)
}

// TestDiverged: exit code 5, with step, tensor and the command that replays it; the last good checkpoint stays.
func TestDiverged(t *testing.T) {
	dir := workplace(t, 128, 32, strings.Replace(small, "one_cycle, per: update, max_lr: 0.01", "multistep, milestones: [1], gamma: 1e38", 1))
	o := train(t, dir, "--config", "test.yaml", "amp.enabled=false", "optim.lr=1", "optim.name=adam", "--json").wants(t, 5, "is not finite", "replay it with: train --resume")
	run := theRun(t, dir)
	if got := newest(t, run).Step; got != 4 {
		t.Errorf("newest checkpoint at step %d, want the end of the first epoch", got)
	}
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	var failure struct {
		Event  string `json:"event"`
		Step   int    `json:"step"`
		Code   int    `json:"exit_code"`
		Tensor string `json:"first_bad_tensor"`
	}
	for _, l := range lines {
		if strings.Contains(l, `"event":"error"`) {
			if err := json.Unmarshal([]byte(l), &failure); err != nil {
				t.Fatal(err)
			}
		}
	}
	if failure.Code != 5 || failure.Step < 5 || failure.Tensor == "" {
		t.Errorf("%+v", failure)
	}
	// The command that it prints leads to the same step.
	_, replay, _ := strings.Cut(o.stderr, "replay it with: train ")
	replay, _, _ = strings.Cut(replay, "\n")
	again := train(t, dir, strings.Fields(replay)...).wants(t, 5)
	if !strings.Contains(again.stderr, fmt.Sprintf("step %d: %s", failure.Step, failure.Tensor)) {
		t.Errorf("replayed: %v", again)
	}
}
