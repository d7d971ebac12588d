package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"halfstep/bench"
	"halfstep/device/devices"
)

// postBench is a benchmark that takes no configuration: its flags, a run, and how to print the result.
type postBench[R any] struct {
	use, short, long string
	flags            func(c *cobra.Command)
	run              func(c *cobra.Command) (R, error)
	print            func(w io.Writer, r R) error
}

func (b postBench[R]) command() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: b.use, Short: b.short, Long: b.long, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := b.run(c)
			switch {
			case err != nil:
				return benchError(err)
			case asJSON:
				return printLine(c.OutOrStdout(), r)
			}
			return b.print(c.OutOrStdout(), r)
		},
	}
	b.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	return c
}

// deviceFlag registers the choice of the device.
func deviceFlag(c *cobra.Command, device *string) {
	c.Flags().StringVar(device, "device", "", "cpu, cuda or cuda:N; default: all that are usable")
}

// printMissing tells which devices could not take part.
func printMissing(w io.Writer, missing []devices.Usable) {
	for _, m := range missing {
		fmt.Fprintf(w, "%s: not usable: %s\n", m.Name, m.Why)
	}
}

func newBenchMatMul() *cobra.Command {
	var o bench.MatMulOptions
	return postBench[*bench.MatMulResult]{
		use:   "matmul",
		short: "A batched matrix product in each dtype on each device; copies and warm-up apart",
		flags: func(c *cobra.Command) {
			countFlag(c, &o.Batch, "batch", 20, "products")
			countFlag(c, &o.M, "m", 1000, "rows of A and C")
			countFlag(c, &o.K, "k", 200, "columns of A, rows of B")
			countFlag(c, &o.N, "n", 1000, "columns of B and C")
			countFlag(c, &o.Runs, "runs", 20, "timings")
			c.Flags().StringSliceVar(&o.DTypes, "dtypes", nil, "default: float64,float32,float16,bfloat16")
			deviceFlag(c, &o.Device)
		},
		run:   func(c *cobra.Command) (*bench.MatMulResult, error) { return bench.MatMul(c.Context(), o) },
		print: printMatMul,
	}.command()
}

func printMatMul(w io.Writer, r *bench.MatMulResult) error {
	for _, d := range r.Devices {
		p := d.Properties
		fmt.Fprintf(w, "%s: %s, %s, %d cores, %d threads, %s\n", d.Name, p.Name, p.ISA, p.Cores, p.Threads, megabytes(p.Memory))
	}
	printMissing(w, r.Missing)
	fmt.Fprintf(w, "%d x (%dx%d)(%dx%d), %.3g GFLOP; best and median of %d after warm-up, synchronised\n\n", r.Batch, r.M, r.K, r.K, r.N, r.GFLOP, r.Runs)
	out := table(w)
	fmt.Fprintln(out, "device\tdtype\tcopy ms\tGB/s\twarm-up ms\tbest ms\tmedian ms\tGFLOP/s\tpeak\t% of peak\tmax relative error")
	for _, x := range r.Rows {
		fmt.Fprintf(out, "%s\t%s\t%.3g\t%.1f\t%.4g\t%.4g\t%.4g\t%.1f\t%s\t%s\t%.1e\n", x.Device, x.DType, x.CopyMS, x.CopyGBPerS, x.WarmUpMS,
			x.BestMS, x.MedianMS, x.GFLOPS, optional("%.0f", x.PeakGFLOPS), optional("%.1f", x.PercentOfPeak), x.MaxError)
	}
	return conclude(out, w, r.Conclusion)
}

// conclude ends a table and adds the conclusion.
func conclude(t interface{ Flush() error }, w io.Writer, conclusion string) error {
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", conclusion)
	return err
}

func newBenchMLP() *cobra.Command {
	var o bench.MLPOptions
	return postBench[*bench.MLPResult]{
		use:   "mlp",
		short: "The three-matrix net of \"the GPU is slower than the CPU\": every part timed apart, per device",
		long: "mlp trains three matrices with ReLU between, (64, 1024, 128, 8) and (64, 5000, 5000, 8), by SGD on one batch of random data. It runs\n" +
			"10,000 iterations of the small net, as the post did, and 300 of the large one, from which the time of 10,000 is worked out.",
		flags: func(c *cobra.Command) {
			countFlag(c, &o.Iterations, "iterations", 0, "of both nets; default: 10000 of the small one and 300 of the large one")
			deviceFlag(c, &o.Device)
			graphFlag(c, &o.NoGraph)
		},
		run:   func(c *cobra.Command) (*bench.MLPResult, error) { return bench.MLP(c.Context(), o) },
		print: printMLP,
	}.command()
}

func printMLP(w io.Writer, r *bench.MLPResult) error {
	printMissing(w, r.Missing)
	out := table(w)
	fmt.Fprintln(out, "net\tdevice\titerations\tdata\tbuild\tweights\tfirst iteration\tthe others\tall again\tan iteration\tGFLOP/s\t10,000 iterations")
	for _, x := range r.Rows {
		fmt.Fprintf(out, "%s\t%s\t%d\t%.4f s\t%.3f s\t%.4f s\t%.4f s\t%.3f s\t%.3f s\t%.4g µs\t%.1f\t%.3g s\n", x.Net, x.Device, x.Iterations,
			x.Data, x.Build, x.Weights, x.Cold, x.Warm, x.Again, x.USStep, x.GFLOPS, x.Asked)
	}
	return conclude(out, w, r.Conclusion)
}

func newBenchBatch() *cobra.Command {
	var o bench.BatchOptions
	var sizes []string
	return postBench[*bench.BatchResult]{
		use:   "batch",
		short: "The 784-16-16-10 net at batch 1 to 4096: what a loop over single samples costs",
		flags: func(c *cobra.Command) {
			c.Flags().StringSliceVar(&sizes, "batch-sizes", nil, "default: 1,8,64,512,4096")
			countFlag(c, &o.Steps, "steps", 20, "timings of each; one takes several steps where a step is shorter than 1 ms")
			deviceFlag(c, &o.Device)
			graphFlag(c, &o.NoGraph)
		},
		run: func(c *cobra.Command) (r *bench.BatchResult, err error) {
			if o.BatchSizes, err = batchSizes(sizes); err != nil {
				return nil, err
			}
			return bench.Batch(c.Context(), o)
		},
		print: printBatch,
	}.command()
}

func printBatch(w io.Writer, r *bench.BatchResult) error {
	printMissing(w, r.Missing)
	out := table(w)
	fmt.Fprintln(out, "device\tbatch\tms a step\timages/s\ts an epoch\tspeed-up")
	for _, x := range r.Rows {
		fmt.Fprintf(out, "%s\t%d\t%.4g\t%.0f\t%.3g\t%.1f\n", x.Device, x.Batch, x.MSStep, x.ImagesPerS, x.EpochSeconds, x.SpeedUp)
	}
	return conclude(out, w, r.Conclusion)
}

func newBenchTutorial() *cobra.Command {
	var o bench.TutorialOptions
	return postBench[*bench.TutorialResult]{
		use:   "tutorial",
		short: "The AMP tutorial's net, 3 x 4096 linear: default and mixed precision, time and peak memory",
		flags: func(c *cobra.Command) {
			countFlag(c, &o.Steps, "steps", 0, "stop after so many; default: all 150, 3 epochs of 50")
			c.Flags().StringSliceVar(&o.Precisions, "precision", nil, "of fp32, tf32, fp16, bf16; default: fp32,fp16,bf16")
			deviceFlag(c, &o.Device)
			graphFlag(c, &o.NoGraph)
		},
		run:   func(c *cobra.Command) (*bench.TutorialResult, error) { return bench.Tutorial(c.Context(), o) },
		print: printTutorial,
	}.command()
}

func printTutorial(w io.Writer, r *bench.TutorialResult) error {
	printMissing(w, r.Missing)
	fmt.Fprintf(w, "random data drawn in %.2f s\n\n", r.DataSeconds)
	out := table(w)
	fmt.Fprintln(out, "device\tprecision\tsteps\ttotal\ta step\tGFLOP/s\tpeak memory\tplanned\tresident data\tbuild and warm-up\tloss\tskipped\tspeed-up\tmemory")
	for _, x := range r.Rows {
		fmt.Fprintf(out, "%s\t%s\t%d\t%.3f s\t%.1f ms\t%.1f\t%s\t%s\t%s\t%.2f s\t%.4f\t%d\t%.2f\t%.2f\n", x.Device, x.Precision, x.Steps, x.Seconds, x.MSStep,
			x.GFLOPS, megabytes(x.MemPeak), megabytes(x.MemPlanned), megabytes(x.ResidentData), x.WarmUpSeconds, x.FinalLoss, x.SkippedSteps, x.SpeedUp, x.MemoryRatio)
	}
	return conclude(out, w, r.Conclusion)
}
