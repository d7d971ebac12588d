package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"halfstep/runs"
)

//go:embed page.html
var page string

// colors is how many colours the page's style sheet has; curves beyond would repeat them.
const colors = 8

// figure is one drawing with its legend.
type figure struct {
	Title  string
	Legend []legend
	SVG    template.HTML
	Note   string
}

type legend struct {
	Class  string
	Text   string
	Detail string
}

// fact is one number at the top of the page.
type fact struct{ Name, Value string }

// content is what page.html shows.
type content struct {
	Title       string
	Subtitle    string
	Facts       []fact
	Cells       [][]string
	Figures     []figure
	Memory      [][]string
	Predictions []predictions
	Config      [][2]string
	System      [][2]string
	Problems    []string
	Left        int
}

// HTML writes a page on the runs: curves of loss and accuracy, the path of the loss scale with skipped steps, memory by
// category, throughput, confusion matrix, worst-classified images, settings. It is one file that loads nothing. Curves are drawn for the first eight runs.
func HTML(w io.Writer, records []*runs.Record) error {
	if len(records) == 0 {
		return fmt.Errorf("report: no runs")
	}
	t, err := template.New("page").Parse(page)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	c, err := newContent(records)
	if err != nil {
		return err
	}
	if err := t.Execute(w, c); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// breakable lets a long key break after its dots and underscores: a space of no width follows each.
var breakable = strings.NewReplacer(".", ".\u200b", "_", "_\u200b")

func newContent(records []*runs.Record) (*content, error) {
	c := &content{Title: fmt.Sprintf("%d runs", len(records))}
	if len(records) == 1 {
		r := records[0]
		c.Title = r.ID
		c.Subtitle, c.Facts = subtitle(r), facts(r)
		for key, value := range r.Config {
			c.Config = append(c.Config, [2]string{key, value})
		}
		slices.SortFunc(c.Config, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	} else {
		c.Cells = runs.NewTable(records).Cells()
		for i, name := range c.Cells[0] {
			c.Cells[0][i] = breakable.Replace(name)
		}
	}
	drawn := records[:min(len(records), colors)]
	c.Left = len(records) - len(drawn)
	for _, chart := range charts(drawn) {
		c.Figures = append(c.Figures, newFigure(chart))
	}
	c.addMemory(drawn)
	if err := c.addPredictions(drawn); err != nil {
		return nil, err
	}
	c.System = system(records[0])
	for _, r := range records {
		for _, p := range r.Problems {
			c.Problems = append(c.Problems, r.ID+": "+p)
		}
	}
	return c, nil
}

func newFigure(c *chart) figure {
	f := figure{Title: c.title, SVG: drawChart(c)}
	if len(c.series) > 1 {
		for i, s := range c.series {
			if len(s.points) > 0 {
				f.Legend = append(f.Legend, legend{fmt.Sprintf("c%d", i), s.name, s.run})
			}
		}
	}
	skipped := 0
	for _, s := range c.series {
		skipped += len(s.marks)
	}
	if _, y := c.axes(); y.log {
		f.Note = "Logarithmic scale."
	}
	if skipped > 0 {
		f.Note += fmt.Sprintf(" Crosses: %d skipped steps.", skipped)
	}
	return f
}

func (c *content) addMemory(records []*runs.Record) {
	svg := drawMemory(records)
	if svg == "" {
		return
	}
	f := figure{Title: "Planned memory by category", SVG: svg}
	header := []string{"MB"}
	for i, p := range first(memory(records[0])) {
		if p.name != residentData {
			f.Legend = append(f.Legend, legend{fmt.Sprintf("c%d", i), p.name, ""})
		}
		header = append(header, p.name)
	}
	c.Memory = [][]string{append(header, "planned", "measured peak")}
	names := labels(records)
	for i, r := range records {
		parts, m, ok := memory(r)
		if !ok {
			continue
		}
		row := []string{names[i]}
		for _, p := range parts {
			row = append(row, fmt.Sprintf("%.2f", float64(p.bytes)/1e6))
		}
		peak := "-"
		if b := measured(m); b > 0 {
			peak = fmt.Sprintf("%.2f", float64(b)/1e6)
		}
		c.Memory = append(c.Memory, append(row, fmt.Sprintf("%.2f", float64(m.MemPlannedBytes)/1e6), peak))
	}
	c.Figures = append(c.Figures, f)
}

func first(parts []category, _ runs.Memory, _ bool) []category { return parts }

func subtitle(r *runs.Record) string {
	s := r.Summary
	if s == nil {
		return fmt.Sprintf("not ended, %d epochs so far", len(r.Epochs))
	}
	return fmt.Sprintf("%s, %s, %s, batch %d, seed %d: %s", s.Config, s.Device, s.DType, s.BatchSize, s.Seed, s.ExitReason)
}

func facts(r *runs.Record) []fact {
	s := r.Summary
	if s == nil {
		return nil
	}
	var f []fact
	share := func(name string, v *float64) {
		if v != nil {
			f = append(f, fact{name, fmt.Sprintf("%.2f %%", 100**v)})
		}
	}
	share("test accuracy", s.TestAccuracy)
	share("best validation accuracy", s.BestValAccuracy)
	if s.TestLoss != nil {
		f = append(f, fact{"test loss", short(*s.TestLoss)})
	}
	return append(f,
		fact{"images/s", short(s.ImagesPerS)},
		fact{"time", (time.Duration(s.Seconds*1e3) * time.Millisecond).Round(100 * time.Millisecond).String()},
		fact{"peak memory", megabytes(s.MemPeakBytes)},
		fact{"skipped steps", fmt.Sprint(s.SkippedSteps)},
		fact{"final loss scale", strconv.FormatFloat(s.FinalLossScale, 'f', -1, 64)},
	)
}

func system(r *runs.Record) [][2]string {
	e := r.Environment
	var rows [][2]string
	for _, row := range [][2]string{
		{"version", e.Version},
		{"commit", e.Commit},
		{"Go", e.GoVersion},
		{"system", strings.Trim(e.OS+"/"+e.Arch, "/")},
		{"processor", e.CPU},
		{"instruction set", e.ISA},
		{"GPU", e.GPU},
		{"GPU driver", e.GPUDriver},
	} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	return rows
}
