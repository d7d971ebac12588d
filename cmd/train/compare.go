package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"halfstep/bench"
)

func newCompare() *cobra.Command {
	var f configFlags
	var o bench.CompareOptions
	var batches []string
	var asJSON, markdown bool
	c := &cobra.Command{
		Use:   "compare --config FILE [key=value ...]",
		Short: "Precisions and batch sizes side by side: time, memory, accuracy, and what bounds each",
		Long: "compare trains the configuration in every precision at every batch size, in turns, and tells what each costs: time of a run and of\n" +
			"a step by phase, what the run costs when each batch comes from the host, memory, accuracy, skipped steps, and what bounds it.",
		Example: "  train compare --config posts/tensorcore --precision fp32,fp16,bf16 --batch-sizes 512,1024 --epochs 1",
		Args:    overrides,
		RunE: func(c *cobra.Command, args []string) error {
			if asJSON && markdown {
				return &usageError{fmt.Errorf("--json and --markdown exclude each other")}
			}
			r, err := f.load(args)
			if err != nil {
				return err
			}
			if o.Epochs > 0 {
				if err := (keyFlag{"--epochs", "epochs", strconv.Itoa(o.Epochs)}).contradicted(r); err != nil {
					return err
				}
			}
			if o.BatchSizes, err = batchSizes(batches); err != nil {
				return err
			}
			o.Progress = func(line string) { fmt.Fprintln(os.Stderr, line) }
			result, err := bench.Compare(c.Context(), r, o)
			if err != nil {
				return benchError(err)
			}
			if err := printComparison(c.OutOrStdout(), result, asJSON, markdown); err != nil {
				return err
			}
			return result.Err
		},
	}
	f.register(c)
	graphFlag(c, &f.noGraph)
	c.Flags().StringSliceVar(&o.Precisions, "precision", nil, "fp32, tf32 (a GPU of compute capability 8.0 or later), fp16, bf16; default: the configuration's")
	c.Flags().StringSliceVar(&batches, "batch-sizes", nil, "default: the configuration's")
	countFlag(c, &o.Epochs, "epochs", 0, "epochs of each run; default: the configuration's")
	countFlag(c, &o.Seeds, "seeds", 0, "runs of each row, with as many seeds; default: 1")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array, an object a row")
	c.Flags().BoolVar(&markdown, "markdown", false, "print Markdown tables")
	return c
}

func printComparison(w io.Writer, c *bench.Comparison, asJSON, markdown bool) error {
	if asJSON {
		return printJSON(w, c.Rows)
	}
	print := printColumns
	if markdown {
		print = printMarkdown
	}
	fmt.Fprintf(w, "%s on %s: %d epochs, %s\n\n", c.Config, c.Device, c.Epochs, turns(c))
	for _, t := range [][]compareColumn{timeColumns, memoryColumns} {
		if err := print(w, append(compareNames, t...), c.Rows); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	text := c.Machine
	for _, r := range c.Rows {
		text += " " + r.Verdict
	}
	if !markdown {
		text = wrap(text, 120)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// wrap breaks a paragraph into lines of at most so many letters, where words allow.
func wrap(text string, width int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}

func turns(c *bench.Comparison) string {
	seeds := "one seed"
	if c.Seeds > 1 {
		seeds = fmt.Sprintf("%d seeds", c.Seeds)
	}
	if c.TookTurns {
		return seeds + ", the rows in turns"
	}
	return seeds + ", one row after another, since memory does not hold all at once"
}

// compareColumn is a column of a printed comparison.
type compareColumn struct {
	head string
	cell func(r bench.CompareRow) string
}

// figure is a column of numbers.
func figure(head, format string, of func(r bench.CompareRow) float64) compareColumn {
	return compareColumn{head, func(r bench.CompareRow) string { return fmt.Sprintf(format, of(r)) }}
}

// maybe is a column of numbers that may not exist.
func maybe(head, format string, factor float64, of func(r bench.CompareRow) *float64) compareColumn {
	return compareColumn{head, func(r bench.CompareRow) string {
		if x := of(r); x != nil {
			return fmt.Sprintf(format, *x*factor)
		}
		return "-"
	}}
}

var compareNames = []compareColumn{
	{"precision", func(r bench.CompareRow) string { return r.Precision }},
	{"batch", func(r bench.CompareRow) string { return fmt.Sprint(r.BatchSize) }},
}

var timeColumns = []compareColumn{
	figure("seconds", "%.2f", func(r bench.CompareRow) float64 { return r.Seconds }),
	figure("images/s", "%.0f", func(r bench.CompareRow) float64 { return r.ImagesPerS }),
	figure("ms/step", "%.4g", func(r bench.CompareRow) float64 { return r.MSStep }),
	figure("input", "%.3g", func(r bench.CompareRow) float64 { return r.MSInput }),
	figure("forward", "%.4g", func(r bench.CompareRow) float64 { return r.MSForward }),
	figure("backward", "%.4g", func(r bench.CompareRow) float64 { return r.MSBackward }),
	figure("update", "%.3g", func(r bench.CompareRow) float64 { return r.MSUpdate }),
	maybe("ms/evaluation", "%.4g", 1, func(r bench.CompareRow) *float64 { return r.MSEvaluation }),
	maybe("not resident: s", "%.2f", 1, func(r bench.CompareRow) *float64 { return r.SecondsNotResident }),
	maybe("images/s", "%.0f", 1, func(r bench.CompareRow) *float64 { return r.ImagesPerSNotResident }),
	figure("speed-up", "%.2f", func(r bench.CompareRow) float64 { return r.Speedup }),
	{"bound by", func(r bench.CompareRow) string { return r.BoundBy }},
}

var memoryColumns = []compareColumn{
	figure("planned MB", "%.1f", func(r bench.CompareRow) float64 { return float64(r.MemPlannedBytes) / 1e6 }),
	figure("peak MB", "%.1f", func(r bench.CompareRow) float64 { return float64(r.MemPeakBytes) / 1e6 }),
	figure("ratio", "%.2f", func(r bench.CompareRow) float64 { return r.MemoryRatio }),
	maybe("test accuracy %", "%.2f", 100, func(r bench.CompareRow) *float64 { return r.AccuracyMean }),
	maybe("±", "%.2f", 100, func(r bench.CompareRow) *float64 { return r.AccuracyStd }),
	figure("skipped steps", "%.4g", func(r bench.CompareRow) float64 { return r.SkippedSteps }),
	figure("final loss scale", "%g", func(r bench.CompareRow) float64 { return r.FinalLossScale }),
}

func cells(columns []compareColumn, of func(compareColumn) string) []string {
	r := make([]string, len(columns))
	for k, c := range columns {
		r[k] = of(c)
	}
	return r
}

func printColumns(w io.Writer, columns []compareColumn, rows []bench.CompareRow) error {
	out := table(w)
	fmt.Fprintln(out, strings.Join(cells(columns, func(c compareColumn) string { return c.head }), "\t"))
	for _, r := range rows {
		fmt.Fprintln(out, strings.Join(cells(columns, func(c compareColumn) string { return c.cell(r) }), "\t"))
	}
	return out.Flush()
}

func printMarkdown(w io.Writer, columns []compareColumn, rows []bench.CompareRow) error {
	line := func(of func(compareColumn) string) {
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells(columns, of), " | "))
	}
	line(func(c compareColumn) string { return c.head })
	line(func(compareColumn) string { return "---" })
	for _, r := range rows {
		line(func(c compareColumn) string { return c.cell(r) })
	}
	return nil
}
