package runs

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Status is how far training is.
type Status struct {
	Epoch, Epochs int // the epoch that is being trained, from 1
	Step, Steps   int // updates of this epoch: done and in all
	Loss          float64
	Accuracy      *float64 // nil where there are no classes
	ImagesPerS    float64
	LossScale     float64 // not shown where it is 1
	SkippedSteps  int     // not shown where it is 0
}

// Progress shows training on the console: a bar that is drawn over and over on a terminal, a plain line now and then
// elsewhere. Escape sequences go only to a terminal, and not where the environment has NO_COLOR (https://no-color.org).
type Progress struct {
	mu    sync.Mutex
	w     io.Writer
	tty   bool
	ansi  bool
	width func() int // columns of the terminal
	clock func() time.Time

	start time.Time // of this process's first Update
	first float64   // share of the run that was done by then
	last  time.Time // of the last drawing
	drawn int       // columns of the bar that is on the screen
}

// drawEvery limits how often the bar is drawn, plainEvery how often a plain line is written within an epoch.
const (
	drawEvery  = 100 * time.Millisecond
	plainEvery = 10 * time.Second
)

// NewProgress writes to w, as a bar if it is a terminal that can move its cursor.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{w: w, clock: time.Now, width: func() int { return 80 }}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		p.tty = true
		p.ansi = os.Getenv("NO_COLOR") == ""
		p.width = func() int {
			if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
				return columns
			}
			return 80
		}
	}
	return p
}

// Update shows the status, unless the last one is too recent.
func (p *Progress) Update(s Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	if p.start.IsZero() {
		p.start, p.first, p.last = now, s.done(), now
		if !p.tty {
			return
		}
	} else {
		every := plainEvery
		if p.tty {
			every = drawEvery
		}
		if now.Sub(p.last) < every {
			return
		}
	}
	p.last = now
	eta := p.eta(s, now)
	if p.tty {
		p.draw(bar(s, eta, p.width()-1))
		return
	}
	fmt.Fprintln(p.w, strings.Join(append(s.head(), s.details(eta)...), "  "))
}

// EpochDone replaces the bar by a line that stays.
func (p *Progress) EpochDone(e Epoch, epochs int) {
	p.Println(epochLine(e, epochs))
}

// Println writes a line that stays, above the bar.
func (p *Progress) Println(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintln(p.w, line)
}

// Close removes the bar.
func (p *Progress) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *Progress) draw(line string) {
	columns := utf8.RuneCountInString(line)
	switch {
	case p.ansi:
		line = "\r" + line + "\x1b[K" // and clear the rest of the line
	default:
		line = "\r" + line + strings.Repeat(" ", max(0, p.drawn-columns))
	}
	io.WriteString(p.w, line)
	p.drawn = columns
}

func (p *Progress) clear() {
	if p.drawn == 0 {
		return
	}
	if p.ansi {
		io.WriteString(p.w, "\r\x1b[K")
	} else {
		io.WriteString(p.w, "\r"+strings.Repeat(" ", p.drawn)+"\r")
	}
	p.drawn = 0
}

// eta is the time left at the rate since the first Update; negative when nothing can be said yet.
func (p *Progress) eta(s Status, now time.Time) time.Duration {
	done := s.done() - p.first
	if done <= 0 {
		return -1
	}
	return time.Duration(float64(now.Sub(p.start)) * (1 - s.done()) / done)
}

// done is the share of the run that is done.
func (s Status) done() float64 {
	if s.Epochs == 0 || s.Steps == 0 {
		return 0
	}
	return (float64(s.Epoch-1) + float64(s.Step)/float64(s.Steps)) / float64(s.Epochs)
}

func (s Status) head() []string {
	return []string{fmt.Sprintf("epoch %d/%d", s.Epoch, s.Epochs), fmt.Sprintf("step %d/%d", s.Step, s.Steps)}
}

// details are the parts after the bar, the most important first.
func (s Status) details(eta time.Duration) []string {
	parts := []string{"loss " + number(s.Loss)}
	if s.Accuracy != nil {
		parts = append(parts, "acc "+percent(*s.Accuracy))
	}
	parts = append(parts, fmt.Sprintf("%.0f images/s", s.ImagesPerS))
	if eta >= 0 {
		parts = append(parts, "ETA "+clockTime(eta))
	}
	if s.LossScale != 1 && s.LossScale != 0 {
		parts = append(parts, fmt.Sprintf("scale %g", s.LossScale))
	}
	if s.SkippedSteps > 0 {
		parts = append(parts, fmt.Sprintf("skipped %d", s.SkippedSteps))
	}
	return parts
}

// minBar is the narrowest bar that is drawn, maxBar the widest.
const (
	minBar = 10
	maxBar = 30
)

// bar fits the status into so many columns: what does not fit is left out from the end, the bar takes what is left over.
func bar(s Status, eta time.Duration, width int) string {
	line := fmt.Sprintf("%d/%d", s.Epoch, s.Epochs)
	tail := ""
	for _, part := range s.details(eta) {
		if len(line)+len(tail)+2+len(part)+minBar+3 > width {
			break
		}
		tail += "  " + part
	}
	cells := min(maxBar, width-len(line)-len(tail)-3)
	if cells < 1 {
		return line[:min(len(line), max(width, 0))]
	}
	full := 0
	if s.Steps > 0 {
		full = min(cells, cells*s.Step/s.Steps)
	}
	return line + " [" + strings.Repeat("=", full) + strings.Repeat(" ", cells-full) + "]" + tail
}

func epochLine(e Epoch, epochs int) string {
	parts := []string{fmt.Sprintf("epoch %d/%d", e.Epoch, epochs), "loss " + number(e.TrainLoss)}
	optional := func(name string, v *float64, format func(float64) string) {
		if v != nil {
			parts = append(parts, name+" "+format(*v))
		}
	}
	optional("train", e.TrainAccuracy, percent)
	optional("val loss", e.ValLoss, number)
	optional("val", e.ValAccuracy, percent)
	optional("test loss", e.TestLoss, number)
	optional("test", e.TestAccuracy, percent)
	parts = append(parts, fmt.Sprintf("lr %.3g", e.LR), fmt.Sprintf("%.0f images/s", e.ImagesPerS), fmt.Sprintf("%.1f s", e.Seconds))
	if e.LossScale != 1 && e.LossScale != 0 {
		parts = append(parts, fmt.Sprintf("scale %g", e.LossScale))
	}
	if e.SkippedSteps > 0 {
		parts = append(parts, fmt.Sprintf("skipped %d", e.SkippedSteps))
	}
	return strings.Join(parts, "  ")
}

// number is a loss: four digits after the point, or four digits in all where it is small or large.
func number(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-3 || a >= 1e4) {
		return fmt.Sprintf("%.3e", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// percent never rounds up to 100 what is not all: 99.999 % of right answers is not 100 %.
func percent(v float64) string {
	if v < 1 {
		v = min(v, 0.9999)
	}
	return fmt.Sprintf("%.2f%%", 100*v)
}

// clockTime is 1:02:03 or 2:03.
func clockTime(d time.Duration) string {
	s := int(d.Round(time.Second) / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
