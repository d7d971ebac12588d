package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const tiny = `
name: tiny
epochs: 2
data: {name: idx, dir: ., batch_size: 32}
model: {layers: [flatten, {linear: {units: 8}}, relu, {linear: {units: 10}}]}
optim: {name: adam}
`

// What compare refuses: one clear line, exit code 2, and nothing ran.
func TestCompareExitCodes(t *testing.T) {
	dir := workplace(t, 128, 32, tiny)
	t.Setenv("HALFSTEP_LIBCUDA", "/nowhere/libcuda.so.1") // the same on a machine with a GPU
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--precision", "fp12"}, `--precision: "fp12", want fp32, tf32, fp16 or bf16`},
		{[]string{"--precision", "fp32,tf32", "--device", "cpu"}, "tf32 needs an NVIDIA GPU, the device is cpu; take fp32 there, or device=cuda"},
		{[]string{"--precision", "fp32,tf32"}, "tf32 needs an NVIDIA GPU of compute capability 8.0 or later, and here is none: device cuda"},
		{[]string{"--batch-sizes", "0"}, `--batch-sizes: "0"`},
		{[]string{"--batch-sizes", "64,129"}, "fp32 at batch 129: trainer: data.batch_size: 129, but there are only 128"},
		{[]string{"--epochs", "-1"}, "--epochs"},
		{[]string{"--epochs", "0"}, "--epochs"},
		{[]string{"--epochs", "1", "epochs=2"}, "--epochs stands for epochs=1, and epochs=2 is given too"},
		{[]string{"--seeds", "-1"}, "--seeds"},
		{[]string{"--seeds", "0"}, "--seeds"},
		{[]string{"--json", "--markdown"}, "exclude each other"},
		{[]string{"model.layers.1.linear.units=2000000000"}, "bytes are free"},
	} {
		o := train(t, dir, append([]string{"compare", "--config", "test.yaml"}, c.args...)...).wants(t, 2, c.says)
		if strings.Count(o.stderr, "\n") != 1 || o.stdout != "" {
			t.Errorf("%v: want one line: %v", c.args, o)
		}
	}
}

// The keys that scripts read, and the tables.
func TestCompareOutput(t *testing.T) {
	dir := workplace(t, 128, 32, tiny)
	o := train(t, dir, "compare", "--config", "test.yaml", "--precision", "fp32,bf16", "--batch-sizes", "16,64", "--seeds", "2", "--json").wants(t, 0)
	var rows []map[string]any
	if err := json.Unmarshal([]byte(o.stdout), &rows); err != nil || len(rows) != 4 {
		t.Fatalf("%v: %v", err, o)
	}
	keys := strings.Fields(`precision batch_size seconds images_per_s ms_input ms_forward ms_backward ms_update mem_peak_bytes ms_evaluation
		mem_planned_bytes memory_ratio test_accuracy_mean test_accuracy_std skipped_steps final_loss_scale speedup bound_by seconds_not_resident`)
	bounds := []any{"input", "memory bandwidth", "arithmetic", "launch overhead"}
	for _, r := range rows {
		for _, k := range keys {
			if r[k] == nil {
				t.Errorf("no %s in %v", k, r)
			}
		}
		if !slices.Contains(bounds, r["bound_by"]) {
			t.Errorf("bound by %v", r["bound_by"])
		}
	}
	if r := rows[3]; r["precision"] != "bf16" || r["batch_size"] != 64.0 {
		t.Errorf("last row: %v", r)
	}
	o = train(t, dir, "compare", "--config", "test.yaml").wants(t, 0, "fp32", "Measured limits", "is bound by", "one seed")
	if !strings.Contains(o.stdout, "precision  batch  seconds") || strings.Contains(o.stdout, "|") {
		t.Error(o)
	}
	o = train(t, dir, "compare", "--config", "test.yaml", "data.resident=false", "--markdown").wants(t, 0, "| precision | batch | seconds |", "| --- |", "| fp32 | 32 |")
	if strings.Contains(o.stdout, "+Inf") || strings.Contains(o.stdout, "NaN") {
		t.Error(o)
	}
}
