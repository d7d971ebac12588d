package runs

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Formats lists the formats of Table.Write.
func Formats() []string { return []string{"text", "markdown", "csv", "json"} }

// Write renders the table. Text and markdown are for reading: means with their spread, megabytes, short numbers. CSV and
// JSON are for programs: full numbers, mean and spread apart, in the units of docs/LOGS.md.
func (t *Table) Write(w io.Writer, format string) error {
	switch format {
	case "text":
		return t.writeText(w)
	case "markdown":
		return t.writeMarkdown(w)
	case "csv":
		return t.writeCSV(w)
	case "json":
		return t.writeJSON(w)
	}
	return fmt.Errorf("runs: table format %q: want %s", format, strings.Join(Formats(), ", "))
}

func (t *Table) writeText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range t.Cells() {
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

func (t *Table) writeMarkdown(w io.Writer) error {
	for i, cells := range t.Cells() {
		for j, c := range cells {
			cells[j] = strings.ReplaceAll(c, "|", `\|`)
		}
		if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "|%s\n", strings.Repeat(" --- |", len(cells))); err != nil {
			return err
		}
	}
	return nil
}

// Cells are the header and the rows for reading.
func (t *Table) Cells() [][]string {
	failed := false
	for _, r := range t.Rows {
		failed = failed || len(r.Failed) > 0
	}
	header := append(append([]string{}, t.Keys...), "runs")
	if failed {
		header = append(header, "failed")
	}
	for _, m := range t.Metrics {
		header = append(header, strings.TrimSuffix(m, "_bytes"))
	}
	all := [][]string{header}
	for _, r := range t.Rows {
		var cells []string
		for _, key := range t.Keys {
			cells = append(cells, dash(r.Settings[key]))
		}
		cells = append(cells, strconv.Itoa(len(r.Runs)))
		if failed {
			cells = append(cells, strconv.Itoa(len(r.Failed)))
		}
		for _, m := range t.Metrics {
			cells = append(cells, r.Metrics[m].text(m))
		}
		all = append(all, cells)
	}
	return all
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// text is the mean, with its spread where there are several runs that differ.
func (s Stat) text(metric string) string {
	if s.N == 0 {
		return "-"
	}
	format := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	unit := ""
	switch {
	case strings.HasSuffix(metric, "accuracy"):
		format = func(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) }
		unit = "%"
	case strings.HasSuffix(metric, "_bytes"):
		format = func(v float64) string { return strconv.FormatFloat(v/1e6, 'f', 1, 64) }
		unit = " MB"
	case metric == "images_per_s", metric == "final_loss_scale":
		if s.Mean >= 100 {
			format = func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
		}
	}
	if s.N == 1 || s.Std == 0 {
		return format(s.Mean) + unit
	}
	return format(s.Mean) + " ± " + format(s.Std) + unit
}

func (t *Table) writeCSV(w io.Writer) error {
	cw := csv.NewWriter(w)
	header := append(append([]string{}, t.Keys...), "runs", "failed")
	for _, m := range t.Metrics {
		header = append(header, m+"_mean", m+"_std")
	}
	cw.Write(header) // Flush and Error tell of errors
	for _, r := range t.Rows {
		var cells []string
		for _, key := range t.Keys {
			cells = append(cells, r.Settings[key])
		}
		cells = append(cells, strconv.Itoa(len(r.Runs)), strconv.Itoa(len(r.Failed)))
		for _, m := range t.Metrics {
			s := r.Metrics[m]
			cells = append(cells, csvNumber(s.Mean, s.N > 0), csvNumber(s.Std, s.N > 1))
		}
		cw.Write(cells)
	}
	cw.Flush()
	return cw.Error()
}

func csvNumber(v float64, ok bool) string {
	if !ok {
		return ""
	}
	if r := reason(v); r != "" {
		return r
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// writeJSON writes one object a row: settings, run ids, and <metric>_mean and <metric>_std, null where there is none.
func (t *Table) writeJSON(w io.Writer) error {
	rows := make([]map[string]any, 0, len(t.Rows))
	for _, r := range t.Rows {
		row := map[string]any{"settings": r.Settings, "runs": nonNil(r.Runs), "failed": nonNil(r.Failed)}
		for _, m := range t.Metrics {
			s := r.Metrics[m]
			jsonNumber(row, m+"_mean", s.Mean, s.N > 0)
			jsonNumber(row, m+"_std", s.Std, s.N > 1)
		}
		rows = append(rows, row)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(rows)
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func jsonNumber(row map[string]any, key string, v float64, ok bool) {
	switch {
	case !ok:
		row[key] = nil
	case math.IsNaN(v) || math.IsInf(v, 0):
		row[key] = nil
		row[key+reasonSuffix] = reason(v)
	default:
		row[key] = v
	}
}
