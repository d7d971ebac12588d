package runs

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func fakeProgress(w *bytes.Buffer, tty, ansi bool) (*Progress, *time.Time) {
	now := start
	return &Progress{w: w, tty: tty, ansi: ansi, width: func() int { return 100 }, clock: func() time.Time { return now }}, &now
}

func status(step int) Status {
	return Status{Epoch: 1, Epochs: 2, Step: step, Steps: 100, Loss: 0.5, Accuracy: new(0.9), ImagesPerS: 1234.5, LossScale: 65536, SkippedSteps: 3}
}

// Half of the first of two epochs took 60 s: 180 s are left.
func TestProgressPlain(t *testing.T) {
	var b bytes.Buffer
	p, now := fakeProgress(&b, false, false)
	for step := 0; step <= 50; step++ {
		p.Update(status(step))
		*now = now.Add(1200 * time.Millisecond)
	}
	p.EpochDone(Epoch{Epoch: 1, TrainLoss: 0.25, TestAccuracy: new(0.98765), LR: 1, ImagesPerS: 1000, Seconds: 12, LossScale: 1}, 2)
	p.Close()
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 7 { // 60 s with a line each 10.8 s (9 updates), the epoch, the end
		t.Fatalf("%d lines:\n%s", len(lines), b.String())
	}
	want := "epoch 1/2  step 45/100  loss 0.5000  acc 90.00%  1234 images/s  ETA 3:06  scale 65536  skipped 3"
	if d := cmp.Diff(want, lines[4]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff("epoch 1/2  loss 0.2500  test 98.77%  lr 1  1000 images/s  12.0 s", lines[5]); d != "" {
		t.Error(d)
	}
	if strings.ContainsAny(b.String(), "\r\x1b") {
		t.Error("control characters in plain lines")
	}
}

func TestProgressTerminal(t *testing.T) {
	var b bytes.Buffer
	p, now := fakeProgress(&b, true, true)
	p.Update(status(0))
	*now = now.Add(time.Millisecond)
	p.Update(status(1)) // too soon
	*now = now.Add(time.Second)
	p.Update(status(50))
	p.EpochDone(Epoch{Epoch: 1}, 2)
	if n := strings.Count(b.String(), "\r"); n != 3 {
		t.Errorf("%d drawings, want 2 and the removal: %q", n, b.String())
	}
	if !strings.Contains(b.String(), "1/2 [=") || !strings.HasSuffix(b.String(), "\n") {
		t.Errorf("%q", b.String())
	}
}

// Without colour there are no escape sequences, and a shorter bar still hides the longer one before it.
func TestProgressNoColor(t *testing.T) {
	var b bytes.Buffer
	p, now := fakeProgress(&b, true, false)
	p.Update(status(10))
	*now = now.Add(time.Second)
	p.Update(Status{Epoch: 1, Epochs: 2, Step: 1, Steps: 2})
	p.Close()
	parts := strings.Split(b.String(), "\r")
	if strings.Contains(b.String(), "\x1b") {
		t.Error("an escape sequence")
	}
	if len(parts[2]) < len(parts[1]) || strings.TrimSpace(parts[3]) != "" {
		t.Errorf("%q", parts)
	}
}

func TestProgressToFile(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if p := NewProgress(f); p.tty || p.ansi {
		t.Error("a file is taken for a terminal")
	}
}

// The bar never exceeds the terminal's width.
func TestBarFits(t *testing.T) {
	for width := range 200 {
		for _, s := range []Status{status(50), {}, {Epoch: 1000, Epochs: 1000, Loss: math.NaN(), LossScale: 1e-30, Steps: 1, Step: 2}} {
			if got := bar(s, 10*time.Hour, width); utf8.RuneCountInString(got) > width {
				t.Errorf("%d columns in %d: %q", len(got), width, got)
			}
		}
	}
	for width := 20; width < 200; width++ { // a bar of at least minBar cells, whatever is left out
		got := bar(status(50), 10*time.Hour, width)
		if cells := strings.Index(got, "]") - strings.Index(got, "[") - 1; cells < minBar {
			t.Errorf("a bar of %d cells in %d columns: %q", cells, width, got)
		}
	}
	want := "1/2 [===============               ]  loss 0.5000  acc 90.00%  1234 images/s  ETA 0:09  scale 65536  skipped 3"
	if d := cmp.Diff(want, bar(status(50), 9*time.Second, 120)); d != "" {
		t.Error(d)
	}
}

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		number(0.12345): "0.1235", number(0): "0.0000", number(1.5e-5): "1.500e-05", number(2e7): "2.000e+07",
		number(math.NaN()): "NaN", number(math.Inf(1)): "+Inf",
		percent(1): "100.00%", percent(0.99999): "99.99%", percent(0.5): "50.00%",
		clockTime(59600 * time.Millisecond): "1:00", clockTime(3723 * time.Second): "1:02:03",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
