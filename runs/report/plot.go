package report

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"halfstep/runs"
)

// Plots lists what Plot draws.
func Plots() []string { return []string{"loss", "accuracy", "loss_scale", "throughput"} }

// ErrNoValues is the error of Plot where no run has what it draws, such as a loss scale in float32.
var ErrNoValues = errors.New("the runs have no such values")

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
		return fmt.Errorf("report: plot %s: %w", name, ErrNoValues)
	}
	p, err := newPlot(c)
	if err != nil {
		return fmt.Errorf("report: plot %s: %w", name, err)
	}
	image, err := newCanvas(format)
	if err != nil {
		return fmt.Errorf("report: plot %s: %w", name, err)
	}
	const margin = 3 * vg.Millimeter
	p.Draw(draw.Crop(draw.New(image), margin, -2*margin, margin, -margin))
	if _, err := image.WriteTo(w); err != nil {
		return fmt.Errorf("report: plot %s: %w", name, err)
	}
	return nil
}

// newCanvas is an empty image of 16 cm by 10 cm.
func newCanvas(format string) (vg.CanvasWriterTo, error) {
	const width, height, dotsPerInch = 16 * vg.Centimeter, 10 * vg.Centimeter, 200
	if format == "png" {
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}, nil
	}
	return draw.NewFormattedCanvas(width, height, format)
}

func newPlot(c *chart) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.Title.Padding = 2 * vg.Millimeter
	p.Legend.Top, p.Legend.Left = c.log, false // curves that fall leave room at the top right, others at the bottom
	p.Legend.Padding = vg.Millimeter
	for _, f := range []*font.Variant{
		&p.Title.TextStyle.Font.Variant, &p.X.Label.TextStyle.Font.Variant, &p.Y.Label.TextStyle.Font.Variant, &p.Legend.TextStyle.Font.Variant,
		&p.X.Tick.Label.Font.Variant, &p.Y.Tick.Label.Font.Variant,
	} {
		*f = "Sans"
	}
	x, y := c.axes()
	x.apply(&p.X, short)
	y.apply(&p.Y, c.unit)
	p.Add(plotter.NewGrid())
	for i, s := range c.series {
		if err := addSeries(p, s, i, len(c.series) > 1); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// apply gives a plot's axis the range, the scale and the ticks of this one.
func (a *axis) apply(to *plot.Axis, unit func(float64) string) {
	to.Min, to.Max = a.min, a.max
	if a.log {
		to.Scale = plot.LogScale{}
		to.Min, to.Max = math.Exp2(a.min), math.Exp2(a.max)
	}
	var ticks plot.ConstantTicks
	for _, t := range a.ticks {
		label := unit(t)
		if a.base == 2 { // the fonts of images lack some superscripts
			label = strconv.FormatFloat(t, 'f', -1, 64)
		}
		ticks = append(ticks, plot.Tick{Value: t, Label: label})
	}
	to.Tick.Marker = ticks
}

// lineColors are the page's colours on white.
func lineColors() []color.Color {
	var r []color.Color
	for _, rgb := range []uint32{0x0072b2, 0xd55e00, 0x00855f, 0xb8528f, 0x94700a, 0x6a51a3, 0x7a5230, 0x55606b} {
		r = append(r, color.RGBA{byte(rgb >> 16), byte(rgb >> 8), byte(rgb), 255})
	}
	return r
}

// legendSlack is room for the wider letters of a viewer that has not the font that the width of a name was computed with.
const legendSlack = "\u00a0\u00a0\u00a0"

func addSeries(p *plot.Plot, s series, i int, named bool) error {
	paint := lineColors()[i%colors]
	for j, run := range finiteRuns(s.points) {
		line, err := plotter.NewLine(run)
		if err != nil {
			return err
		}
		line.Color, line.Width = paint, vg.Points(1.2)
		if s.stairs {
			line.StepStyle = plotter.PostStep
		}
		p.Add(line)
		if j == 0 && named {
			p.Legend.Add(s.name+legendSlack, line)
		}
	}
	var at plotter.XYs
	for _, m := range s.marks {
		if finite(m.y) && m.y > 0 {
			at = append(at, plotter.XY{X: m.x, Y: m.y})
		}
	}
	if len(at) == 0 {
		return nil
	}
	crosses, err := plotter.NewScatter(at)
	if err != nil {
		return err
	}
	crosses.Shape, crosses.Color = draw.CrossGlyph{}, paint
	p.Add(crosses)
	return nil
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
