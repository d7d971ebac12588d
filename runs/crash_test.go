//go:build linux

package runs

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// crashFloats makes a checkpoint of 2 MB, so that most of the time goes into writing it.
const crashFloats = 500_000

// helperSave saves checkpoints from the step after the newest on, and prints each step once it is on the disk.
func helperSave(dir string) {
	step := 0
	if c, _, err := Latest(dir); err == nil {
		step = c.Step + 1
	}
	for ; ; step++ {
		must(SaveCheckpoint(dir, step, testCheckpoint(step, crashFloats)))
		if err := PruneCheckpoints(dir, 2); err != nil {
			panic(err)
		}
		fmt.Println(step)
	}
}

// A process that saves checkpoints is killed at random moments: the newest that it reported, or a newer one, is whole
// every time, and no temporary file outlives the next reading.
func TestKillWhileSaving(t *testing.T) {
	if args := helperArgs(); args != nil {
		helperSave(args[0])
	}
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	saved, leftovers := -1, 0
	for i := range 20 {
		c := helper(t, dir)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		lines.Scan() // one is saved
		time.AfterFunc(time.Duration(random.IntN(30_000))*time.Microsecond, func() { c.Process.Kill() })
		for ok := true; ok; ok = lines.Scan() {
			if step, err := strconv.Atoi(lines.Text()); err == nil {
				saved = step
			}
		}
		c.Wait() // says that it was killed
		leftovers += len(must(filepath.Glob(filepath.Join(dir, "*"+tempSuffix))))
		got, warnings, err := Latest(dir)
		if err != nil || len(warnings) > 0 {
			t.Fatalf("kill %d: %v %q", i, err, warnings)
		}
		if got.Step < saved {
			t.Errorf("kill %d: step %d was reported, the newest is %d", i, saved, got.Step)
		}
		if want := testCheckpoint(got.Step, crashFloats); string(want.Tensors[0].Data) != string(got.Tensors[0].Data) {
			t.Errorf("kill %d: step %d has other contents", i, got.Step)
		}
		if left := must(filepath.Glob(filepath.Join(dir, "*"+tempSuffix))); len(left) > 0 {
			t.Errorf("kill %d: %q are left", i, left)
		}
	}
	t.Logf("%d checkpoints, %d of 20 kills left a half-written file", saved+1, leftovers)
}

// fullLimit is the size that no file may exceed in helperFull: a disk that fills up in the middle of a write.
const fullLimit = 64 << 10

// helperFull writes a run on a disk that fills up.
func helperFull(base string) {
	signal.Ignore(syscall.SIGXFSZ)
	r := must(Create(base, "full", start, Options{Config: []byte("seed: 1\n")}))
	must(SaveCheckpoint(r.CheckpointDir(), 1, testCheckpoint(1, 1000)))
	limit := syscall.Rlimit{Cur: fullLimit, Max: fullLimit}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	_, err := SaveCheckpoint(r.CheckpointDir(), 1, testCheckpoint(2, fullLimit)) // over the one that is there
	fmt.Println("same step:", err)
	_, err = SaveCheckpoint(r.CheckpointDir(), 2, testCheckpoint(2, fullLimit))
	fmt.Println("next step:", err)
	long := strings.Repeat("x", 1000)
	for range 100 {
		r.Log(Warning{Code: "long", Message: long})
	}
	r.Log(Epoch{Epoch: 1})
	fmt.Println("log:", r.Err())
	fmt.Println("end:", r.Finish(Summary{ExitReason: "completed"}))
}

// On a full disk a save fails with an error, the checkpoint before it stays whole, also under the same name, and the log's
// error is reported without ending the run.
func TestFullDisk(t *testing.T) {
	if args := helperArgs(); args != nil {
		helperFull(args[0])
		os.Exit(0)
	}
	base := t.TempDir()
	out, err := helper(t, base).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "file too large") {
			t.Errorf("no error in %q", line)
		}
	}
	if n := strings.Count(string(out), "\n"); n < 4 {
		t.Errorf("the helper stopped early: %s", out)
	}
	dir := must(filepath.Glob(filepath.Join(base, "*")))[0]
	c, warnings, err := Latest(filepath.Join(dir, CheckpointsDir))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if c.Step != 1 || string(c.Tensors[0].Data) != string(testCheckpoint(1, 1000).Tensors[0].Data) {
		t.Errorf("step %d has other contents", c.Step)
	}
	if n := len(must(os.ReadDir(filepath.Join(dir, CheckpointsDir)))); n != 1 {
		t.Errorf("%d files, want the checkpoint alone", n)
	}
	if size := must(os.Stat(filepath.Join(dir, LogFile))).Size(); size != fullLimit {
		t.Errorf("the log has %d bytes, want %d: the test did not fill it within a line", size, fullLimit)
	}
	rec, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.Lines) < 50 || len(rec.Epochs) != 1 || rec.Summary == nil || rec.Summary.ExitReason != "completed" {
		t.Errorf("%d lines, %d epochs, summary %+v", len(rec.Lines), len(rec.Epochs), rec.Summary)
	}
}
