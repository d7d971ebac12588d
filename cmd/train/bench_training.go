package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"halfstep/bench"
)

func newBenchScaler() *cobra.Command {
	var f configFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "scaler [--config FILE] [key=value ...]",
		Short: "Provoke overflow in float16 and follow the loss scale: which tensor overflowed first",
		Args:  overrides,
		RunE: func(c *cobra.Command, args []string) error {
			r, err := f.load(append(bench.ScalerOverrides(), args...))
			if err != nil {
				return err
			}
			s, err := bench.Scaler(c.Context(), r)
			if s == nil {
				return benchError(err)
			}
			show := printScaler
			if asJSON {
				show = func(w io.Writer, s *bench.ScalerResult) error { return printLine(w, s) }
			}
			return errors.Join(err, show(c.OutOrStdout(), s))
		},
	}
	f.register(c)
	graphFlag(c, &f.noGraph)
	c.Flags().Lookup("config").DefValue, f.config = "mlp_amp", "mlp_amp"
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	return c
}

func printScaler(w io.Writer, r *bench.ScalerResult) error {
	fmt.Fprintf(w, "%s: loss scale %s at first, %d steps\n\n", r.Config, bench.Power(r.InitScale), r.Steps)
	out := table(w)
	fmt.Fprintln(out, "step\tcause\tloss scale\tfirst tensor that overflowed")
	for _, c := range r.Changes {
		fmt.Fprintf(out, "%d\t%s\t%s -> %s\t%s\n", c.Step, c.Cause, bench.Power(c.Before), bench.Power(c.After), c.FirstBadTensor)
	}
	return conclude(out, w, r.Conclusion)
}

func newBenchAccuracy() *cobra.Command {
	var f configFlags
	o := bench.AccuracyOptions{}
	var asJSON bool
	c := &cobra.Command{
		Use:   "time-to-accuracy [--config FILE] [key=value ...]",
		Short: "Seconds of training until a test accuracy is reached, over seeds",
		Long: "time-to-accuracy trains with several seeds, each until an epoch's evaluation on the test data reaches the target or all epochs are done.\n" +
			"The clock runs for training and evaluation. It starts when the data is loaded, the step is compiled and one step has run for warm-up.",
		Args: overrides,
		RunE: func(c *cobra.Command, args []string) error {
			r, err := f.load(args)
			if err != nil {
				return err
			}
			w := c.OutOrStdout()
			if !asJSON {
				o.Done = func(row bench.AccuracyRow) { printAccuracyRow(w, row) }
			}
			result, err := bench.TimeToAccuracy(c.Context(), r, o)
			switch {
			case err != nil:
				return benchError(err)
			case asJSON:
				return printLine(w, result)
			}
			_, err = fmt.Fprintf(w, "%s on %s (%s, %d threads), %s, batch %d: %s\n", result.Config, result.Device, result.ISA, result.Threads,
				precision(result.DType, result.TF32), result.Batch, result.Conclusion)
			return err
		},
	}
	f.register(c)
	graphFlag(c, &f.noGraph)
	c.Flags().Lookup("config").DefValue, f.config = "cnn_fast", "cnn_fast"
	c.Flags().Float64Var(&o.Target, "target", 0.99, "test accuracy")
	countFlag(c, &o.Seeds, "seeds", 5, "runs, with seeds from the configuration's on")
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	return c
}

func printAccuracyRow(w io.Writer, r bench.AccuracyRow) {
	reached := ""
	if !r.Reached {
		reached = ", target not reached"
	}
	fmt.Fprintf(w, "seed %d: %.2f s, %d epochs, test accuracy %.2f%%%s (evaluation %.2f s of it; setup and warm-up before it %.2f s)\n",
		r.Seed, r.Seconds, r.Epochs, 100*r.TestAccuracy, reached, r.EvalSeconds, r.SetupSeconds)
}
