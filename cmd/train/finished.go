package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"halfstep/runs"
	"halfstep/runs/report"
	"halfstep/trainer"
)

// useFlags are the flags of commands that use a run's model.
type useFlags struct {
	trainer.UseOptions
	runsDir string
	json    bool
}

func (f *useFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&f.Best, "best", false, "the checkpoint with the best validation accuracy, not the last one")
	c.Flags().StringVar(&f.runsDir, "runs-dir", "runs", "where a run is looked for by its id, the end of it, or \"latest\"")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	c.ValidArgsFunction = completeRuns
	f.Warn = func(message string) { fmt.Fprintln(c.ErrOrStderr(), "warning: checkpoint:", message) }
}

// find gives the folder of a run, named by path, id, part of it, or "latest".
func (f *useFlags) find(arg string) (string, error) { return findRun(f.runsDir, arg) }

func findRun(base, arg string) (string, error) {
	dir, err := runs.Find(base, arg)
	if err != nil {
		return "", &usageError{err}
	}
	return dir, nil
}

// completeRuns offers the run folders in runs.
func completeRuns(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	list, _ := filepath.Glob(filepath.Join("runs", "*", runs.LogFile)) // fails on a bad pattern only
	for i, path := range list {
		list[i] = filepath.Dir(path)
	}
	return list, cobra.ShellCompDirectiveDefault
}

func newEval() *cobra.Command {
	var f useFlags
	var split string
	c := &cobra.Command{
		Use:   "eval RUN",
		Short: "Evaluate a run's model on its test or validation data",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := f.find(args[0])
			if err != nil {
				return err
			}
			e, err := trainer.EvaluateRun(c.Context(), dir, split, f.UseOptions)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(c.OutOrStdout(), e)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s, %s: %s loss %.4f", e.Run, e.Checkpoint, e.Split, e.Loss)
			if e.Accuracy != nil {
				fmt.Fprintf(c.OutOrStdout(), ", accuracy %.2f%%", 100**e.Accuracy)
			}
			fmt.Fprintf(c.OutOrStdout(), " on %d samples (%.0f images/s)\n", e.Samples, e.ImagesPerS)
			return nil
		},
	}
	f.register(c)
	c.Flags().StringVar(&f.Device, "device", "", "cpu, cuda, cuda:N; default: the run's")
	c.Flags().StringVar(&split, "split", "test", "test or validation")
	return c
}

func newPredict() *cobra.Command {
	var f useFlags
	var top int
	c := &cobra.Command{
		Use:   "predict RUN image.png...",
		Short: "Classify images of any size, grey or in colour, dark on light or light on dark",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := f.find(args[0])
			if err != nil {
				return err
			}
			list, err := trainer.PredictFiles(c.Context(), dir, args[1:], top, f.UseOptions)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(c.OutOrStdout(), list)
			}
			for _, p := range list {
				fmt.Fprintf(c.OutOrStdout(), "%s:", p.File)
				for _, k := range p.Top {
					fmt.Fprintf(c.OutOrStdout(), "  %d (%.1f%%)", k.Class, 100*k.Probability)
				}
				fmt.Fprintln(c.OutOrStdout())
			}
			return nil
		},
	}
	f.register(c)
	c.Flags().StringVar(&f.Device, "device", "cpu", "cpu, cuda, cuda:N")
	countFlag(c, &top, "top", 3, "how many classes to show")
	return c
}

func newExport() *cobra.Command {
	var f useFlags
	var o trainer.ExportOptions
	c := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a run's model as safetensors or ONNX, in PyTorch's names and layout",
		Long: "export writes the weights alone as safetensors, checked by reading them back, or with the inference graph as an ONNX model.\n" +
			"Both take normalised images in PyTorch's order, [N,C,H,W]; docs/LOGS.md shows how they are loaded.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := f.find(args[0])
			if err != nil {
				return err
			}
			o.UseOptions = f.UseOptions
			e, err := trainer.Export(c.Context(), dir, o)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(c.OutOrStdout(), e)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: %d tensors in %s, %d bytes, step %d\n", e.Path, e.Tensors, e.DType, e.Bytes, e.Step)
			if e.Format == trainer.FormatSafetensors {
				fmt.Fprintf(c.OutOrStdout(), "read back: the outputs for %d samples are those of the weights written\n", e.Samples)
			}
			if e.DType != "float32" {
				fmt.Fprintf(c.OutOrStdout(), "against float32 weights the outputs for %d samples differ by at most %.2g, of outputs up to %.3g\n",
					e.Samples, e.Difference, e.Outputs)
			}
			return nil
		},
	}
	f.register(c)
	c.Flags().StringVar(&o.Format, "format", "", "safetensors or onnx; default: onnx where --out ends in .onnx, else safetensors")
	c.Flags().StringVar(&o.Out, "out", "", "file to write, which is overwritten where it exists, or folder for model.safetensors or model.onnx; default: the run folder")
	c.Flags().StringVar(&o.DType, "dtype", "float32", "of the weights: float32, float16 or bfloat16")
	return c
}

// reportFlags say what `train report` writes.
type reportFlags struct {
	runsDir             string
	csv, markdown, json bool
	html, plots         string
	plotFormat          string
}

func newReport() *cobra.Command {
	var f reportFlags
	c := &cobra.Command{
		Use:   "report [RUN...]",
		Short: "A table of runs: the settings that differ, mean and spread over seeds, best first",
		Long: "report compares runs, or all runs in the folders given; without any, those in --runs-dir. Runs that differ in their seed\n" +
			"only make one row.",
		RunE: func(c *cobra.Command, args []string) error {
			if f.csv && f.markdown || f.csv && f.json || f.markdown && f.json {
				return &usageError{errors.New("report: give one of --csv, --markdown and --json")}
			}
			records, err := runs.Select(f.runsDir, args)
			if err != nil {
				return &usageError{err}
			}
			if f.html != "" {
				if err := writeFile(f.html, func(w io.Writer) error { return report.HTML(w, records) }); err != nil {
					return err
				}
			}
			if f.plots != "" {
				if err := f.plot(records); err != nil {
					return err
				}
			}
			return runs.NewTable(records).Write(c.OutOrStdout(), f.format())
		},
	}
	c.ValidArgsFunction = completeRuns
	c.Flags().StringVar(&f.runsDir, "runs-dir", "runs", "where runs are looked for by id")
	c.Flags().BoolVar(&f.csv, "csv", false, "print CSV")
	c.Flags().BoolVar(&f.markdown, "markdown", false, "print a Markdown table")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	c.Flags().StringVar(&f.html, "html", "", "also write a self-contained page to this file")
	c.Flags().StringVar(&f.plots, "plots", "", "also write the plots "+strings.Join(report.Plots(), ", ")+" to this folder")
	c.Flags().StringVar(&f.plotFormat, "plot-format", "svg", "svg or png")
	return c
}

func (f *reportFlags) format() string {
	switch {
	case f.csv:
		return "csv"
	case f.markdown:
		return "markdown"
	case f.json:
		return "json"
	}
	return "text"
}

func (f *reportFlags) plot(records []*runs.Record) error {
	if err := os.MkdirAll(f.plots, 0o755); err != nil {
		return err
	}
	for _, name := range report.Plots() {
		path := filepath.Join(f.plots, name+"."+f.plotFormat)
		err := writeFile(path, func(w io.Writer) error { return report.Plot(w, records, name, f.plotFormat) })
		if err != nil && !errors.Is(err, report.ErrNoValues) { // float32 has no loss scale to draw
			return err
		}
	}
	return nil
}

// writeFile writes a file, and removes it again where it would not be whole.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	w := bufio.NewWriter(f)
	if err == nil {
		err = write(w)
	}
	if err == nil { // else Flush would only tell the same again
		err = w.Flush()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil && info != nil && info.Mode().IsRegular() { // not /dev/stdout
		return errors.Join(err, os.Remove(path))
	}
	return err
}
