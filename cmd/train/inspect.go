package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device/devices"
	"halfstep/trainer"
)

// table starts a table of columns; numbers are the reader's to align.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

func newSummary() *cobra.Command {
	var f configFlags
	var asJSON, listing bool
	c := &cobra.Command{
		Use:   "summary --config FILE [key=value ...]",
		Short: "Layers, shapes, dtypes, parameters, FLOPs, casts and fusions of a configuration",
		Args:  overrides,
		RunE: func(c *cobra.Command, args []string) error {
			r, err := f.load(args)
			if err != nil {
				return err
			}
			s, err := trainer.Prepare(r, trainer.SessionOptions{})
			if err != nil {
				return err
			}
			defer s.Close()
			switch {
			case asJSON:
				return printJSON(c.OutOrStdout(), s.Trainer().Summarise())
			case listing:
				_, err = fmt.Fprint(c.OutOrStdout(), s.Trainer().Program())
				return err
			}
			return printSummary(c.OutOrStdout(), s.Trainer())
		},
	}
	f.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&listing, "listing", false, "print the instructions of one training step")
	return c
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func printSummary(w io.Writer, t *trainer.Trainer) error {
	out := table(w)
	fmt.Fprintln(out, "layer\toutput\tdtype\tparameters\tMFLOP\truns as")
	for _, l := range t.Summarise() {
		runs := strings.Join(l.Runs, ", ")
		if l.FusedIn != "" {
			runs = "in " + l.FusedIn
		}
		fmt.Fprintf(out, "%s\t%v\t%s\t%d\t%.1f\t%s\n", l.Name, l.Output, l.DType, l.Params, float64(l.FLOPs)/1e6, runs)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n", t.Describe())
	return nil
}

// dryRun tells what a run would do.
func dryRun(c *cobra.Command, r *configs.Resolved, o trainer.SessionOptions) error {
	s, err := trainer.Prepare(r, o)
	if err != nil {
		return err
	}
	defer s.Close()
	w := c.OutOrStdout()
	for _, v := range r.Values() {
		fmt.Fprintf(w, "%s: %s  # %s\n", v.Key, v.Text, v.Source)
	}
	fmt.Fprintln(w)
	return printSummary(w, s.Trainer())
}

func newDevices() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "devices",
		Short: "What devices are here, which are usable, and why others are not",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			list := devices.List()
			if asJSON {
				return printJSON(c.OutOrStdout(), list)
			}
			for _, d := range list {
				if d.Why != "" {
					fmt.Fprintf(c.OutOrStdout(), "%-5s not usable: %s\n", d.Name, d.Why)
					continue
				}
				p := d.Properties
				fmt.Fprintf(c.OutOrStdout(), "%-5s %s, %s, %d cores, %d threads, %s\n", d.Name, p.Name, p.ISA, p.Cores, p.Threads, megabytes(p.Memory))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func newData() *cobra.Command {
	var f configFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "data [--config FILE] [key=value ...]",
		Short: "Where the data is, its hashes and counts",
		Args:  overrides,
		RunE: func(c *cobra.Command, args []string) error {
			if f.config == "" {
				f.config = "mlp"
			}
			r, err := f.load(args)
			if err != nil {
				return err
			}
			set, err := data.Open(r.Config.Data, r.Config.Seed)
			if err != nil {
				return err
			}
			d := data.Describe(set)
			if asJSON {
				return printJSON(c.OutOrStdout(), d)
			}
			printData(c.OutOrStdout(), d)
			return nil
		},
	}
	f.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(newFetch())
	return c
}

func printData(w io.Writer, d data.Description) {
	fmt.Fprintf(w, "%s in %s\n", d.Name, d.Dir)
	for _, file := range d.Files {
		known := "unknown content"
		if file.Known {
			known = "as published"
		}
		fmt.Fprintf(w, "  %-28s %9d bytes  sha256 %s  %s\n", file.Name, file.Bytes, file.SHA256, known)
	}
	fmt.Fprintf(w, "train %d (%d trained on, %d held out), test %d, images %dx%dx%d, %d classes\n",
		d.Train.N, d.TrainedOn, d.HeldOut, d.Test.N, d.Height, d.Width, d.Channels, d.Classes)
	fmt.Fprintf(w, "per class: train %v, test %v\n", d.Train.PerClass, d.Test.PerClass)
	fmt.Fprintf(w, "pixels in 0..1: mean %.4f, std %.4f\n", d.Mean, d.Std)
}

func newFetch() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "fetch [mnist | fashion_mnist | kmnist]",
		Short: "Download a data set from public mirrors and verify it",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := "mnist"
			if len(args) == 1 {
				name = args[0]
			}
			return data.Fetch(c.Context(), name, dir, func(line string) { fmt.Fprintln(c.ErrOrStderr(), line) })
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "where to put the files; empty: the user's cache, where training looks")
	return c
}
