package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"halfstep/configs"
	"halfstep/trainer"
)

func newMemory() *cobra.Command {
	var f configFlags
	var precisions, batches []string
	var fit string
	var asJSON bool
	c := &cobra.Command{
		Use:   "memory --config FILE [key=value ...]",
		Short: "Planned bytes by category, without running; the largest batch that fits",
		Long: "memory plans parameters, gradients, activations and the rest before anything is allocated. Where device is auto it plans for the\n" +
			"CPU, for only a measurement tells which device is faster: --device cuda plans for a GPU.",
		Args: overrides,
		RunE: func(c *cobra.Command, args []string) error {
			r, err := f.load(args)
			if err != nil {
				return err
			}
			o := trainer.MemoryOptions{Precisions: precisions}
			if o.BatchSizes, err = batchSizes(batches); err != nil {
				return err
			}
			if fit != "" {
				if o.Fit, err = configs.ParseBytes(fit); err != nil {
					return &usageError{fmt.Errorf("--fit: %w", err)}
				}
			}
			rows, err := trainer.PlanMemory(r, o)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), rows)
			}
			printMemory(c, rows)
			if r.Config.Device == "auto" {
				fmt.Fprintln(c.OutOrStdout(), "planned for the CPU, because device is auto; --device cuda plans for a GPU")
			}
			return nil
		},
	}
	f.register(c)
	c.Flags().StringSliceVar(&precisions, "precision", nil, "fp32, tf32 (which stores what fp32 does), fp16, bf16; default: the configuration's")
	c.Flags().StringSliceVar(&batches, "batch-sizes", nil, "default: the configuration's")
	c.Flags().StringVar(&fit, "fit", "", "also the largest batch whose plan and data fit this size, such as 8GiB or 500MB")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// batchSizes parses whole numbers from 1 on.
func batchSizes(list []string) ([]int, error) {
	var r []int
	for _, s := range list {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, &usageError{fmt.Errorf("--batch-sizes: %q, want whole numbers from 1 on", s)}
		}
		r = append(r, n)
	}
	return r, nil
}

func printMemory(c *cobra.Command, rows []trainer.MemoryRow) {
	w := table(c.OutOrStdout())
	fmt.Fprintln(w, "precision\tbatch\tparameters\thalf copies\tgradients\toptimizer\tactivations\tworkspace\tpeak\tresident data\t")
	for _, r := range rows {
		m := r.Categories
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Precision, r.BatchSize, megabytes(m.Parameters), megabytes(m.HalfCopies),
			megabytes(m.Gradients), megabytes(m.OptimizerState), megabytes(m.Activations), megabytes(m.Workspace),
			megabytes(r.PlannedPeakBytes), megabytes(r.ResidentDataBytes), r.Note)
	}
	w.Flush()
}
