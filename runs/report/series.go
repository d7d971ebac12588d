// Package report draws training runs: one self-contained HTML page, and plots as PNG or SVG files.
package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"halfstep/runs"
)

// point is one value of a curve; a y that is not finite is a gap.
type point struct{ x, y float64 }

// series is one curve of a chart.
type series struct {
	name   string
	run    string // its id; empty where the curve is one split of the only run
	points []point
	stairs bool // y holds until the next point
	marks  []mark
}

// mark is something that happened at a point.
type mark struct {
	point
	text string
}

// chart is what one figure shows.
type chart struct {
	title, x, y string
	log         bool // logarithmic y where all values are positive
	base        float64
	zero        bool                 // y starts at 0
	unit        func(float64) string // tick labels
	series      []series
}

func (c *chart) empty() bool {
	for _, s := range c.series {
		if len(s.points) > 0 {
			return false
		}
	}
	return true
}

// charts are the curves of the runs, without those that have no data. With one run the curves are its splits; with
// several each run is a curve.
func charts(records []*runs.Record) []*chart {
	all := []*chart{lossChart(records), accuracyChart(records), scaleChart(records), throughputChart(records)}
	var r []*chart
	for _, c := range all {
		if !c.empty() {
			r = append(r, c)
		}
	}
	return r
}

func lossChart(records []*runs.Record) *chart {
	c := &chart{title: "Loss", x: "step", y: "loss", log: true, base: 10, unit: short}
	if len(records) != 1 {
		names := labels(records)
		for i, r := range records {
			c.series = append(c.series, series{name: names[i], run: r.ID, points: trainLoss(r)})
		}
		c.title = "Training loss"
		return c
	}
	r := records[0]
	c.add("train", trainLoss(r))
	c.add("validation", byEpoch(r, stepOf, func(e runs.Epoch) *float64 { return e.ValLoss }))
	c.add("test", byEpoch(r, stepOf, func(e runs.Epoch) *float64 { return e.TestLoss }))
	return c
}

// trainLoss is the loss of each step event, or of each epoch where steps were not logged.
func trainLoss(r *runs.Record) []point {
	var p []point
	for _, l := range r.Lines {
		if s, ok := l.Event.(runs.Step); ok {
			p = append(p, point{float64(s.Step), s.TrainLoss})
		}
	}
	if p == nil {
		p = byEpoch(r, stepOf, func(e runs.Epoch) *float64 { return &e.TrainLoss })
	}
	return p
}

func accuracyChart(records []*runs.Record) *chart {
	c := &chart{title: "Accuracy", x: "epoch", y: "accuracy", unit: func(v float64) string { return fmt.Sprintf("%.4g%%", 100*v) }}
	test := func(e runs.Epoch) *float64 { return e.TestAccuracy }
	if len(records) != 1 {
		names := labels(records)
		for i, r := range records {
			c.series = append(c.series, series{name: names[i], run: r.ID, points: byEpoch(r, epochOf, test)})
		}
		c.title = "Test accuracy"
		return c
	}
	r := records[0]
	c.add("train", byEpoch(r, epochOf, func(e runs.Epoch) *float64 { return e.TrainAccuracy }))
	c.add("validation", byEpoch(r, epochOf, func(e runs.Epoch) *float64 { return e.ValAccuracy }))
	c.add("test", byEpoch(r, epochOf, test))
	return c
}

// scaleChart is the path of the loss scale, with a mark at each skipped step. A run without scaling is left empty.
func scaleChart(records []*runs.Record) *chart {
	c := &chart{title: "Loss scale and skipped steps", x: "step", y: "loss scale", log: true, base: 2, unit: powerOfTwo}
	names := labels(records)
	for i, r := range records {
		s := series{name: names[i], run: r.ID, stairs: true}
		scaled := false
		for _, l := range r.Lines {
			switch e := l.Event.(type) {
			case runs.Step:
				s.hold(float64(e.Step), e.LossScale)
				scaled = scaled || e.LossScale != 1
			case runs.ScaleChange:
				if len(s.points) == 0 {
					s.hold(0, e.LossScaleBefore)
				}
				s.hold(float64(e.Step), e.LossScale)
				scaled = true
			case runs.SkippedStep:
				text := fmt.Sprintf("step %d skipped: %s", e.Step, e.FirstBadTensor)
				s.marks = append(s.marks, mark{point{float64(e.Step), e.LossScaleBefore}, text})
			}
		}
		if !scaled {
			s = series{name: names[i], run: r.ID}
		}
		c.series = append(c.series, s)
	}
	return c
}

// hold appends a point of a path that mostly stays level: a level stretch has only its two ends.
func (s *series) hold(x, y float64) {
	if n := len(s.points); n >= 2 && s.points[n-1].y == y && s.points[n-2].y == y {
		s.points[n-1].x = x
		return
	}
	s.points = append(s.points, point{x, y})
}

func throughputChart(records []*runs.Record) *chart {
	c := &chart{title: "Throughput", x: "epoch", y: "images/s", zero: true, unit: short}
	names := labels(records)
	for i, r := range records {
		c.series = append(c.series, series{name: names[i], run: r.ID, points: byEpoch(r, epochOf, func(e runs.Epoch) *float64 { return &e.ImagesPerS })})
	}
	return c
}

// add appends a curve unless it has no points.
func (c *chart) add(name string, points []point) {
	if len(points) > 0 {
		c.series = append(c.series, series{name: name, points: points})
	}
}

func stepOf(e runs.Epoch) int  { return e.Step }
func epochOf(e runs.Epoch) int { return e.Epoch }

func byEpoch(r *runs.Record, x func(runs.Epoch) int, y func(runs.Epoch) *float64) []point {
	var p []point
	for _, e := range r.Epochs {
		if v := y(e); v != nil {
			p = append(p, point{float64(x(e)), *v})
		}
	}
	return p
}

// short is a number for people: 65536, 0.001, 2.1e-05, 131.1k, 16.78M.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e9:
		return fmt.Sprintf("%.3g", v)
	case a >= 1e6:
		return fmt.Sprintf("%.4gM", v/1e6)
	case a >= 1e5:
		return fmt.Sprintf("%.4gk", v/1e3)
	}
	return fmt.Sprintf("%.5g", v)
}

// powerOfTwo writes 65536 as 2¹⁶.
func powerOfTwo(v float64) string {
	fraction, exponent := math.Frexp(v)
	if fraction != 0.5 {
		return short(v)
	}
	superscripts := []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")
	return "2" + strings.Map(func(c rune) rune {
		if c == '-' {
			return '⁻'
		}
		return superscripts[c-'0']
	}, strconv.Itoa(exponent-1))
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// category is a part of the planned memory.
type category struct {
	name  string
	bytes int64
}

// residentData is the category that is not part of the planned sum: it is in the table, and in no bar.
const residentData = "resident data"

// memory is the last memory event of a run; false where it has none.
func memory(r *runs.Record) (parts []category, m runs.Memory, ok bool) {
	for _, l := range r.Lines {
		if e, is := l.Event.(runs.Memory); is {
			m, ok = e, true
		}
	}
	return []category{
		{"parameters", m.ParametersBytes},
		{"half copies", m.HalfCopiesBytes},
		{"gradients", m.GradientsBytes},
		{"optimizer state", m.OptimizerStateBytes},
		{"activations", m.ActivationsBytes},
		{"workspace", m.WorkspaceBytes},
		{residentData, m.ResidentDataBytes},
	}, m, ok
}
