package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// keyFlag is a flag that stands for a key.
type keyFlag struct{ flag, key, value string }

// contradicted is a usage error where an override gives the key another value.
func (k keyFlag) contradicted(r *configs.Resolved) error {
	for _, v := range r.Values() {
		if v.Key == k.key && v.Source == "override" && v.Text != k.value {
			return &usageError{fmt.Errorf("%s stands for %s=%s, and %s=%s is given too: leave one out", k.flag, k.key, k.value, k.key, v.Text)}
		}
	}
	return nil
}

// load resolves the configuration with the command line's key=value arguments. A flag that stands for a key counts whatever
// the file says; an argument that says otherwise contradicts it.
func (f *configFlags) load(args []string) (*configs.Resolved, error) {
	var flags []keyFlag
	if f.device != "" {
		flags = append(flags, keyFlag{"--device", "device", f.device})
	}
	if f.noGraph {
		flags = append(flags, keyFlag{"--no-graph", "cuda.graph", "false"})
	}
	if len(flags) == 0 {
		return configs.Load(f.config, args)
	}
	var overrides []string
	for _, k := range flags {
		overrides = append(overrides, k.key+"="+k.value)
	}
	// With the flags first, an argument wins that gives the same key, alone or in a section.
	if r, err := configs.Load(f.config, slices.Concat(overrides, args)); err == nil {
		for _, k := range flags {
			if err := k.contradicted(r); err != nil {
				return nil, err
			}
		}
	}
	return configs.Load(f.config, slices.Concat(args, overrides))
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
	c.Flags().StringVar(&o.resume, "resume", "", "go on with this run (its folder, its id in runs, or \"latest\") from its newest checkpoint")
	_ = c.RegisterFlagCompletionFunc("resume", completeRuns)
	c.Flags().StringSliceVar(&o.allow, "allow", nil, "with --resume: keys that may differ from the run's configuration")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "build everything and tell what would run, without training")
	c.Flags().BoolVar(&o.fastDev, "fast-dev-run", false, "run three steps and one batch of evaluation, without a run folder")
	c.Flags().BoolVar(&o.json, "json", false, "copy the log's JSON lines to standard output")
	c.AddCommand(newSummary(), newDevices(), newData(), newMemory())
	c.AddCommand(newEval(), newPredict(), newExport(), newReport())
	c.AddCommand(newBench(), newCompare())
	c.InitDefaultCompletionCmd()
	argumentErrors(c)
	return c
}

// argumentErrors makes what a command and those below it say about their arguments usage errors, that tell the usage.
func argumentErrors(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			var usage *usageError
			if err == nil || errors.As(err, &usage) {
				return err
			}
			return &usageError{fmt.Errorf("%w: %s", err, c.UseLine())}
		}
	}
	for _, sub := range c.Commands() {
		argumentErrors(sub)
	}
}

// trainFlags are the flags of training itself.
type trainFlags struct {
	resume                string
	allow                 []string
	dryRun, fastDev, json bool
}

func (o *trainFlags) run(c *cobra.Command, f *configFlags, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
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
	if !o.fastDev {
		defer context.AfterFunc(c.Context(), func() { fmt.Fprintln(os.Stderr, "saving the run") })()
	}
	summary, dir, err := trainer.Train(c.Context(), r, s)
	if summary != nil && !o.json {
		fmt.Fprint(c.OutOrStdout(), summaryText(summary, dir))
	}
	return err
}

// check refuses flags that do not go together.
func (o *trainFlags) check() error {
	switch {
	case o.resume != "" && o.fastDev:
		return &usageError{errors.New("--resume and --fast-dev-run exclude each other: a run without a folder resumes none")}
	case o.resume == "" && len(o.allow) > 0:
		return &usageError{errors.New("--allow: goes with --resume")}
	}
	for _, key := range o.allow {
		if err := configs.CheckKey(key); err != nil {
			return &usageError{fmt.Errorf("--allow: %w", err)}
		}
	}
	return nil
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
	fmt.Fprintf(&b, "%s after %d epochs, %d steps, %.1f s", s.ExitReason, s.Epochs, s.Steps, s.Seconds)
	if s.ImagesPerS > 0 { // NaN before the first step
		fmt.Fprintf(&b, " (%.0f images/s)", s.ImagesPerS)
	}
	b.WriteByte('\n')
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
