package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"halfstep/bench"
)

func newBench() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Time a step, a matrix product, batch sizes and precisions: warm-up and copies apart, synchronised",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newBenchStep(), newBenchMatMul(), newBenchMLP(), newBenchBatch(), newBenchTutorial(), newBenchScaler(), newBenchAccuracy())
	return c
}

// benchError turns a request that cannot be followed into a usage error.
func benchError(err error) error {
	var b *bench.Error
	if errors.As(err, &b) {
		return &usageError{err}
	}
	return err
}

// printLine prints one line of JSON.
func printLine(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// optional prints a figure that may not exist.
func optional(format string, x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf(format, *x)
}

func newBenchStep() *cobra.Command {
	var f configFlags
	var o bench.StepOptions
	var asJSON bool
	c := &cobra.Command{
		Use:   "step --config FILE [key=value ...]",
		Short: "Time of one training step after warm-up, its share of the machine's peak, and its memory",
		Args:  overrides,
		RunE: func(c *cobra.Command, args []string) error {
			r, err := f.load(args)
			if err != nil {
				return err
			}
			s, err := bench.Step(c.Context(), r, o)
			switch {
			case err != nil:
				return benchError(err)
			case asJSON:
				return printLine(c.OutOrStdout(), s)
			}
			return printStep(c.OutOrStdout(), s)
		},
	}
	f.register(c)
	graphFlag(c, &f.noGraph)
	countFlag(c, &o.Steps, "steps", 20, "timings; one takes several steps where a step is shorter than 1 ms")
	c.Flags().BoolVar(&o.Profile, "profile", false, "also the time and GFLOP/s of each instruction")
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	return c
}

func printStep(w io.Writer, s *bench.StepResult) error {
	fmt.Fprintf(w, "%s on %s (%s, %d threads), %s, batch %d\n", s.Config, s.Device, s.ISA, s.Threads, precision(s.DType, s.TF32), s.Batch)
	fmt.Fprintf(w, "step    %.4g ms median, %.4g ms shortest, %.0f images/s (%d timings of %d steps after warm-up)\n",
		s.MSMedian, s.MSMin, s.ImagesPerS, s.Timings, s.StepsPerTiming)
	fmt.Fprintf(w, "FLOPs   %.4g GFLOP a step, %.1f GFLOP/s", float64(s.FLOPs)/1e9, s.GFLOPS)
	if s.FMAPeak != nil {
		fmt.Fprintf(w, ": %.1f%% of the float32 multiply-add peak, %.0f GFLOP/s", *s.PercentOfPeak, *s.FMAPeak)
	}
	if s.BF16Peak != nil {
		fmt.Fprintf(w, " (bfloat16: %.0f)", *s.BF16Peak)
	}
	fmt.Fprintf(w, "\nmemory  %s planned, %s measured at its peak, resident data apart\n", megabytes(s.MemPlanned), megabytes(s.MemPeak))
	fmt.Fprintf(w, "start   %.2f s to the end of the first step, of it %.2f s reading data, %.4g ms the step\n", s.StartSeconds, s.DataSeconds, s.FirstStepMS)
	if len(s.Profile) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return printProfile(w, s.Profile)
}

// precision names a dtype, and tf32 where its products are computed so.
func precision(dtype string, tf32 bool) string {
	if tf32 {
		return dtype + " (tf32)"
	}
	return dtype
}

func printProfile(w io.Writer, rows []bench.InstrRow) error {
	out := table(w)
	fmt.Fprintln(out, "phase\tlayer\tinstruction\tdtype\tms\tshare\tMFLOP\tGFLOP/s\t% of peak")
	line := func(r bench.InstrRow) {
		flops := "\t\t"
		if r.FLOPs > 0 {
			flops = fmt.Sprintf("%.1f\t%.1f\t%s", float64(r.FLOPs)/1e6, r.GFLOPS, optional("%.1f", r.PercentOfPeak))
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%.4f\t%.1f%%\t%s\n", r.Phase, r.Layer, r.Op, r.DType, r.MS, 100*r.Share, flops)
	}
	for _, r := range rows {
		line(r)
	}
	for _, t := range bench.PhaseTotals(rows) {
		t.Layer = "(all)"
		line(t)
	}
	return out.Flush()
}
