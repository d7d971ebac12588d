package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"

	"halfstep/runs"
)

// A figure is this many units large, narrow enough to stay readable when a phone shows it whole.
const (
	figureWidth  = 420
	figureHeight = 250
	leftMargin   = 52
	rightMargin  = 14
	topMargin    = 12
	bottomMargin = 38
)

// svg collects the elements of a drawing. Colours are CSS classes, so that the page decides on light or dark.
type svg struct{ strings.Builder }

func (s *svg) printf(format string, a ...any) { fmt.Fprintf(s, format, a...) }

func (s *svg) text(x, y float64, class, anchor, text string) {
	s.printf(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(text))
}

// drawChart is a chart as an SVG element.
func drawChart(c *chart) template.HTML {
	x, y := c.axes()
	s := new(svg)
	s.printf(`<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, figureWidth, figureHeight, html.EscapeString(c.title))
	s.grid(c, x, y)
	for i, curve := range c.series {
		s.curve(curve, i, x, y)
	}
	s.WriteString(`</svg>`)
	return template.HTML(s.String())
}

// axes cover all curves and marks.
func (c *chart) axes() (x, y *axis) {
	var xs, ys []float64
	for _, s := range c.series {
		for _, p := range s.points {
			xs = append(xs, p.x)
			ys = append(ys, p.y)
		}
		for _, m := range s.marks {
			xs = append(xs, m.x)
			ys = append(ys, m.y)
		}
	}
	if c.zero {
		ys = append(ys, 0)
	}
	base := 0.0
	if c.log {
		base = c.base
	}
	x = newAxis(xs, leftMargin, figureWidth-rightMargin, 0)
	x.wholeTicks()
	return x, newAxis(ys, figureHeight-bottomMargin, topMargin, base)
}

func (s *svg) grid(c *chart, x, y *axis) {
	for _, t := range y.ticks {
		at := y.at(t)
		s.printf(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, leftMargin, figureWidth-rightMargin, at, at)
		s.text(leftMargin-6, at+4, "tick", "end", c.unit(t))
	}
	for _, t := range x.ticks {
		s.text(x.at(t), figureHeight-bottomMargin+16, "tick", "middle", short(t))
	}
	s.text((leftMargin+figureWidth-rightMargin)/2, figureHeight-6, "label", "middle", c.x)
}

// curve draws a series as polylines, broken at values that are not finite, which get a cross at the top.
func (s *svg) curve(c series, color int, x, y *axis) {
	points := c.points
	if !c.stairs {
		points = thin(points)
	}
	var run []point
	flush := func() {
		if len(run) > 0 {
			s.polyline(run, c.stairs, color, x, y)
		}
		run = nil
	}
	for _, p := range points {
		if finite(p.y) && (!y.log || p.y > 0) {
			run = append(run, p)
			continue
		}
		flush()
		s.cross(x.at(p.x), topMargin, fmt.Sprintf("%s: %v at %s", c.name, p.y, short(p.x)), color)
	}
	flush()
	if len(points) <= 60 && !c.stairs {
		for _, p := range points {
			if finite(p.y) && (!y.log || p.y > 0) {
				s.printf(`<circle class="fill c%d" cx="%.1f" cy="%.1f" r="2.5"><title>%s</title></circle>`, color%colors, x.at(p.x), y.at(p.y),
					html.EscapeString(fmt.Sprintf("%s: %.5g at %s", c.name, p.y, short(p.x))))
			}
		}
	}
	for _, m := range c.marks {
		if finite(m.y) && m.y > 0 {
			s.cross(x.at(m.x), y.at(m.y), m.text, color)
		}
	}
}

func (s *svg) polyline(run []point, stairs bool, color int, x, y *axis) {
	s.printf(`<polyline class="line c%d" points="`, color%colors)
	for i, p := range run {
		if stairs && i > 0 {
			s.printf("%.1f,%.1f ", x.at(p.x), y.at(run[i-1].y))
		}
		s.printf("%.1f,%.1f ", x.at(p.x), y.at(p.y))
	}
	s.WriteString(`"/>`)
}

func (s *svg) cross(x, y float64, title string, color int) {
	s.printf(`<path class="line c%d" d="M%.1f %.1fl6 6m0 -6l-6 6"><title>%s</title></path>`, color%colors, x-3, y-3, html.EscapeString(title))
}

// drawMemory is a bar a run, its planned bytes stacked by category, with a line at the measured peak. Neither counts resident
// data.
func drawMemory(records []*runs.Record) template.HTML {
	const rowHeight, nameHeight = 22, 15
	largest := 0.0
	for _, r := range records {
		if _, m, ok := memory(r); ok {
			largest = max(largest, float64(m.MemPlannedBytes), float64(measured(m)))
		}
	}
	if largest == 0 {
		return ""
	}
	x := newAxis([]float64{0, largest / 1e6}, 4, figureWidth-rightMargin-10, 0)
	s := new(svg)
	y := 4.0
	names := labels(records)
	for k, r := range records {
		parts, m, ok := memory(r)
		if !ok {
			continue
		}
		s.text(x.from, y+nameHeight-4, "label", "start", names[k])
		s.text(figureWidth-rightMargin, y+nameHeight-4, "tick", "end", megabytes(m.MemPlannedBytes))
		y += nameHeight
		sum := int64(0)
		for i, c := range parts {
			if c.name == residentData {
				continue
			}
			left := x.at(float64(sum) / 1e6)
			sum += c.bytes
			if width := x.at(float64(sum)/1e6) - left; width > 0 {
				s.printf(`<rect class="fill c%d" x="%.1f" y="%.1f" width="%.1f" height="%d"><title>%s: %s</title></rect>`, i, left, y, width, rowHeight-8,
					c.name, megabytes(c.bytes))
			}
		}
		if peak := measured(m); peak > 0 {
			at := x.at(float64(peak) / 1e6)
			s.printf(`<line class="peak" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>measured peak: %s</title></line>`, at, at, y-2, y+rowHeight-6,
				megabytes(peak))
		}
		y += rowHeight
	}
	for _, t := range x.ticks {
		s.text(x.at(t), y+14, "tick", "middle", short(t))
	}
	s.text(figureWidth/2, y+32, "label", "middle", "MB, line: measured peak")
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %d %d" role="img" aria-label="Memory">%s</svg>`, figureWidth, int(math.Ceil(y+38)), s.String()))
}

func measured(m runs.Memory) int64 {
	if m.MemPeakBytes == nil {
		return 0
	}
	return *m.MemPeakBytes
}

func megabytes(b int64) string { return fmt.Sprintf("%.1f MB", float64(b)/1e6) }
