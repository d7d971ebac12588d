package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"halfstep/configs"
	"halfstep/runs"
	"halfstep/trainer"
)

// configFlags are the flags of every command that takes a configuration.
type configFlags struct {
	config  string
	device  string
	noGraph bool
}

func (f *configFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.config, "config", "", "a YAML file, or the name of an embedded config: "+strings.Join(configs.Names(), ", "))
	c.Flags().StringVar(&f.device, "device", "", "the same as device=... : auto, cpu, cuda, cuda:N, gorgonia")
	_ = c.RegisterFlagCompletionFunc("config", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return configs.Names(), cobra.ShellCompDirectiveDefault
	})
}

// graphFlag registers the choice of captured graphs, for commands that train.
func graphFlag(c *cobra.Command, noGraph *bool) {
	c.Flags().BoolVar(noGraph, "no-graph", false, "the same as cuda.graph=false: launch each kernel of a step on a GPU instead of one captured graph")
}

// load resolves the configuration with the command line's key=value arguments.
func (f *configFlags) load(args []string) (*configs.Resolved, error) {
	if f.device != "" {
		args = append(args, "device="+f.device)
	}
	if f.noGraph {
		args = append(args, "cuda.graph=false")
	}
	return configs.Load(f.config, args)
}

// overrides wants every argument to be key=value.
func overrides(c *cobra.Command, args []string) error {
	for _, a := range args {
		if strings.Contains(a, "=") {
			continue
		}
		hint := "want key=value"
		if near := c.SuggestionsFor(a); len(near) > 0 {
			hint += ", or did you mean the command " + strings.Join(near, " or ")
		} else if c.HasSubCommands() {
			hint += ", or a command of `train --help`"
		}
		return &usageError{fmt.Errorf("argument %q: %s", a, hint)}
	}
	return nil
}

func newRoot() *cobra.Command {
	var f configFlags
	var o trainFlags
	c := &cobra.Command{
		Use:   "train --config FILE [key=value ...]",
		Short: "Mixed-precision training of MNIST-format classifiers",
		Long: "train runs an experiment described by a YAML file, on a CPU or an NVIDIA GPU, and writes a run folder with log, metrics,\n" +
			"checkpoints and summary. Values of the file are overridden by key=value arguments.",
		Example:       "  train --config cnn_amp.yaml\n  train --config cnn_amp.yaml epochs=1 data.batch_size=1024\n  train --resume runs/20260101T120000Z-cnn_amp-0123abcd",
		Args:          overrides,
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
		RunE: func(c *cobra.Command, args []string) error {
			if f.config == "" && o.resume == "" {
				return &usageError{fmt.Errorf("nothing to do: give --config or --resume (train --help tells more)")}
			}
			return o.run(c, &f, args)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	f.register(c)
	graphFlag(c, &f.noGraph)
	c.Flags().StringVar(&o.resume, "resume", "", "go on with this run (its folder, its id in runs, or `latest`) from its newest checkpoint")
	_ = c.RegisterFlagCompletionFunc("resume", completeRuns)
	c.Flags().StringSliceVar(&o.allow, "allow", nil, "with --resume: keys that may differ from the run's configuration")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "build everything and tell what would run, without training")
	c.Flags().BoolVar(&o.fastDev, "fast-dev-run", false, "run three steps and one batch of evaluation, without a run folder")
	c.Flags().BoolVar(&o.json, "json", false, "copy the log's JSON lines to standard output")
	c.AddCommand(newSummary(), newDevices(), newData(), newMemory())
	c.AddCommand(newEval(), newPredict(), newExport(), newReport())
	c.AddCommand(newBench(), newCompare())
	return c
}

// trainFlags are the flags of training itself.
type trainFlags struct {
	resume                string
	allow                 []string
	dryRun, fastDev, json bool
}

func (o *trainFlags) run(c *cobra.Command, f *configFlags, args []string) error {
	r, err := o.resolve(f, args)
	if err != nil {
		return err
	}
	s := trainer.SessionOptions{Resume: o.resume, Allow: o.allow, FastDev: o.fastDev, Console: os.Stderr, Warnings: r.Warnings}
	if o.json {
		s.Echo = c.OutOrStdout()
	}
	if o.dryRun {
		return dryRun(c, r, s)
	}
	if !o.json {
		fmt.Fprintf(os.Stderr, "%s: %s\n", r.Config.Name, describe(r.Config))
	}
	summary, dir, err := trainer.Train(c.Context(), r, s)
	if summary != nil && !o.json {
		fmt.Fprint(c.OutOrStdout(), summaryText(summary, dir))
	}
	return err
}

// resolve loads the configuration: that of the run where a run is resumed without another.
func (o *trainFlags) resolve(f *configFlags, args []string) (*configs.Resolved, error) {
	if o.resume == "" {
		return f.load(args)
	}
	var err error
	if o.resume, err = findRun("runs", o.resume); err != nil {
		return nil, err
	}
	if f.config != "" {
		return f.load(args)
	}
	f.config = filepath.Join(o.resume, runs.ConfigFile)
	return f.load(args)
}

// describe is a line about a configuration.
func describe(c configs.Config) string {
	precision := "float32"
	switch {
	case c.AMP.Enabled:
		precision = c.AMP.DType + " (mixed)"
	case c.CUDA.AllowTF32:
		precision = "float32 (tf32 on a GPU that has it)"
	}
	return fmt.Sprintf("%s, batch %d, %d epochs, %s, %s, seed %d", c.Data.Name, c.Data.BatchSize, c.Epochs, c.Optim.Name, precision, c.Seed)
}

// summaryText is the end of a run on the console.
func summaryText(s *runs.Summary, dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s after %d epochs, %d steps, %.1f s (%.0f images/s)\n", s.ExitReason, s.Epochs, s.Steps, s.Seconds, s.ImagesPerS)
	if s.TestLoss != nil {
		fmt.Fprintf(&b, "test loss %.4f", *s.TestLoss)
		if s.TestAccuracy != nil {
			fmt.Fprintf(&b, ", test accuracy %.2f%%", 100**s.TestAccuracy)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "memory %s planned, %s measured, and %s of resident data\n", megabytes(s.MemPlannedBytes), megabytes(s.MemPeakBytes), megabytes(s.ResidentDataBytes))
	if s.FinalLossScale != 1 || s.SkippedSteps > 0 {
		fmt.Fprintf(&b, "loss scale %g, %d skipped steps\n", s.FinalLossScale, s.SkippedSteps)
	}
	if dir != "" {
		fmt.Fprintf(&b, "run %s\n", dir)
	}
	return b.String()
}

// megabytes prints bytes in MB of 10⁶.
func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
