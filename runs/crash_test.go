//go:build linux

package runs

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// roomFor makes writes fail that would let a file grow beyond size.
func roomFor(size uint64) {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: 1 << 30}); err != nil {
		panic(err)
	}
}

// helperFull writes a run on a disk that fills up, and has room again for a moment.
func helperFull(base string) {
	r := must(Create(base, "full", start, Options{Config: []byte("seed: 1\n")}))
	must(SaveCheckpoint(r.CheckpointDir(), 1, testCheckpoint(1, 1000)))
	roomFor(fullLimit)
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
	roomFor(1 << 30)
	r.Log(Warning{Code: "room"})
	roomFor(fullLimit)
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
	if size := must(os.Stat(filepath.Join(dir, LogFile))).Size(); size == fullLimit || size < fullLimit-2000 {
		t.Errorf("the log has %d bytes of %d: the test did not fill it within a line", size, fullLimit)
	}
	wholeLines(t, dir)
	rec, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(rec.Lines, func(l Line) bool { w, ok := l.Event.(Warning); return ok && w.Code == "room" }) {
		t.Error("what was written with room again is not in the log")
	}
	if len(rec.Lines) < 50 || len(rec.Epochs) != 1 || rec.Summary == nil || rec.Summary.ExitReason != "completed" {
		t.Errorf("%d lines, %d epochs, summary %+v", len(rec.Lines), len(rec.Epochs), rec.Summary)
	}
}

// helperFullResume resumes a run with room for files of ever more bytes, until it succeeds, and prints how often it did not.
func helperFullResume(dir string) {
	before := must(contents(dir))
	roomFor(10) // less than for the first record of an event file
	if _, err := newBoard(dir, time.Now); err == nil || !cmp.Equal(before, must(contents(dir))) {
		fmt.Println("an event file that could not be begun stays:", err)
		return
	}
	for failed := 0; ; failed++ {
		roomFor(uint64(16 * failed))
		r, err := Resume(dir, Resumed{Epoch: 2, Step: 108}, Options{Config: []byte("epochs: 3\n"), Environment: Environment{OS: "other"}, TensorBoard: true})
		roomFor(1 << 30)
		if err == nil {
			r.Close()
			fmt.Println(failed)
			return
		}
		if d := cmp.Diff(before, must(contents(dir))); d != "" {
			fmt.Printf("with room for %d bytes: %v: the folder changed:\n%s", 16*failed, err, d)
			return
		}
	}
}

// A resume on a full disk leaves the run as it was, wherever it fails.
func TestResumeOnFullDisk(t *testing.T) {
	if args := helperArgs(); args != nil {
		helperFullResume(args[0])
		os.Exit(0)
	}
	r := finishedRun(t)
	out, err := helper(t, r.Dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	failed, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || failed < 10 {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("failed %d times before it succeeded", failed)
	if exists(filepath.Join(r.Dir, SummaryFile)) || read(t, r.Dir, ConfigFile) != "epochs: 3\n" {
		t.Error("the resume that succeeded did not do its work")
	}
}

// A run that cannot start for a full disk leaves no folder.
func TestCreateOnFullDisk(t *testing.T) {
	if args := helperArgs(); args != nil {
		for size := uint64(0); ; size += 16 {
			roomFor(size)
			_, err := Create(args[0], "full", start, Options{Config: []byte("seed: 1\n"), TensorBoard: true})
			if err == nil {
				os.Exit(0)
			}
			if list := must(os.ReadDir(args[0])); len(list) > 0 {
				fmt.Println("room for", size, "bytes left a folder:", err)
			}
		}
	}
	base := t.TempDir()
	if out, err := helper(t, base).Output(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
	if n := len(must(os.ReadDir(base))); n != 1 {
		t.Errorf("%d folders, want that of the run that started", n)
	}
}
