package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"halfstep/runs"
)

// Plots lists what Plot draws.
func Plots() []string { return []string{"loss", "accuracy", "loss_scale", "throughput"} }

// Plot writes one of Plots as an image file; format is png, svg or pdf.
func Plot(w io.Writer, records []*runs.Record, name, format string) error {
	var c *chart
	switch name {
	case "loss":
		c = lossChart(records)
	case "accuracy":
		c = accuracyChart(records)
	case "loss_scale":
		c = scaleChart(records)
	case "throughput":
		c = throughputChart(records)
	default:
		return fmt.Errorf("report: plot %q: want %s", name, strings.Join(Plots(), ", "))
	}
	if format != "png" && format != "svg" && format != "pdf" {
		return fmt.Errorf("report: plot format %q: want png, svg or pdf", format)
	}
	if c.empty() {
		return fmt.Errorf("report: plot %s: the runs have no such values", name)
	}
	p, err := newPlot(c)
	if err != nil {
		return fmt.Errorf("report: plot %s: %w", name, err)
	}
	image, err := p.WriterTo(16*vg.Centimeter, 10*vg.Centimeter, format)
	if err != nil {
		return fmt.Errorf("report: plot %s: %w", name, err)
	}
	if _, err := image.WriteTo(w); err != nil {
		return fmt.Errorf("report: plot %s: %w", name, err)
	}
	return nil
}

func newPlot(c *chart) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.Legend.Top = true
	var ys []float64
	for _, s := range c.series {
		for _, q := range s.points {
			ys = append(ys, q.y)
		}
	}
	if y := newAxis(ys, 0, 1, c.base); c.log && y.log {
		p.Y.Scale = plot.LogScale{} // panics where the axis reaches zero
		p.Y.Min, p.Y.Max = math.Exp2(y.min), math.Exp2(y.max)
		p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	}
	if c.zero {
		p.Y.Min = 0
	}
	p.Add(plotter.NewGrid())
	for i, s := range c.series {
		for j, run := range finiteRuns(s.points) {
			line, err := plotter.NewLine(run)
			if err != nil {
				return nil, err
			}
			line.Color = plotutil.Color(i)
			if s.stairs {
				line.StepStyle = plotter.PostStep
			}
			p.Add(line)
			if j == 0 && len(c.series) > 1 {
				p.Legend.Add(shortName(s.name), line)
			}
		}
		if len(s.marks) > 0 {
			var at plotter.XYs
			for _, m := range s.marks {
				if finite(m.y) && m.y > 0 {
					at = append(at, plotter.XY{X: m.x, Y: m.y})
				}
			}
			crosses, err := plotter.NewScatter(at)
			if err != nil {
				return nil, err
			}
			crosses.Shape, crosses.Color = draw.CrossGlyph{}, plotutil.Color(i)
			p.Add(crosses)
		}
	}
	return p, nil
}

// finiteRuns cuts a curve at the values that are not finite.
func finiteRuns(points []point) []plotter.XYs {
	var all []plotter.XYs
	var run plotter.XYs
	for _, q := range points {
		if finite(q.y) {
			run = append(run, plotter.XY{X: q.x, Y: q.y})
			continue
		}
		if len(run) > 0 {
			all = append(all, run)
		}
		run = nil
	}
	if len(run) > 0 {
		all = append(all, run)
	}
	return all
}
