package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestBenchStep: the text, the profile's table, and one line of JSON with the keys that scripts read.
func TestBenchStep(t *testing.T) {
	dir := workplace(t, 129, 32, small)
	step := []string{"bench", "step", "--config", "test.yaml", "data.drop_last=true", "device=cpu", "--steps", "2"}
	train(t, dir, append(step, "--profile")...).wants(t, 0, "small on cpu", "batch 32", "GFLOP/s", "float16", "conv2d", "(all)", "MB planned")
	line := train(t, dir, append(step, "--json")...).wants(t, 0).stdout
	if strings.Count(line, "\n") != 1 {
		t.Errorf("not one line: %s", line)
	}
	got := map[string]any{}
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields("config device isa threads dtype tf32 batch ms_step_median ms_step_min images_per_s flops_per_step gflops " +
		"fma_peak_gflops percent_of_peak mem_planned_bytes mem_peak_bytes") {
		if v, ok := got[key]; !ok || v == nil {
			t.Errorf("%s is %v in %s", key, v, line)
		}
	}
}

// TestBenchCommands: each prints its table and conclusion, or one line of JSON.
func TestBenchCommands(t *testing.T) {
	dir := workplace(t, 129, 32, small)
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"matmul", "--device", "cpu", "--batch", "2", "--m", "30", "--k", "20", "--n", "10", "--runs", "2"}, []string{"2 x (30x20)(20x10)", "float64", "bfloat16", "% of peak", "cores"}},
		{[]string{"matmul", "--device", "cpu", "--batch", "1", "--m", "8", "--k", "8", "--n", "8", "--runs", "1", "--dtypes", "float32"}, []string{"float32"}},
		{[]string{"batch", "--device", "cpu", "--batch-sizes", "1,64", "--steps", "2"}, []string{"images/s", "On cpu"}},
		{[]string{"scaler", "max_steps=10"}, []string{"backoff", "2^24 -> 2^23", "overflowed first"}},
		{[]string{"time-to-accuracy", "--config", "test.yaml", "data.drop_last=true", "device=cpu", "--seeds", "2", "--target", "0.9"}, []string{"seed 42", "seed 43", "a seed (std"}},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			args := append([]string{"bench"}, c.args...)
			train(t, dir, args...).wants(t, 0, c.says...)
			line := train(t, dir, append(args, "--json")...).wants(t, 0).stdout
			if !json.Valid([]byte(line)) || strings.Count(line, "\n") != 1 {
				t.Errorf("not one line of JSON: %s", line)
			}
		})
	}
}

// TestBenchRequests: what cannot be followed is told in one line, with the exit code of its kind.
func TestBenchRequests(t *testing.T) {
	dir := workplace(t, 129, 32, small)
	for _, c := range []struct {
		code int
		args string
		says string
	}{
		{2, "foo", `unknown command "foo" for "train bench"`},
		{2, "matmul x", `unknown command "x" for "train bench matmul": train bench matmul`},
		{2, "step", "config"},
		{2, "step --config test.yaml data.batch_size=200", "data.batch_size"},
		{2, "step --config test.yaml data.drop_last=true --steps -1", "--steps"},
		{2, "step --config test.yaml amp.dtype=float8", "amp.dtype"},
		{2, "step --config test.yaml data.drop_last=true --steps 0", "--steps"},
		{2, "step --config test.yaml --no-graph cuda.graph=true", "--no-graph stands for cuda.graph=false, and cuda.graph=true is given too"},
		{2, "matmul --m 0x", "--m"},
		{2, "matmul --m 0", `invalid argument "0" for "--m" flag: want a whole number from 1 on`},
		{2, "matmul --runs 0", "--runs"},
		{2, "matmul --device cpu --batch 16777216", "--batch"},
		{2, "matmul --dtypes int8", "--dtypes"},
		{4, "matmul --device cuda:9", "cuda:9"},
		{2, "batch --batch-sizes 0", "--batch-sizes"},
		{2, "batch --device cpu --batch-sizes 60001", "60000"},
		{2, "mlp --iterations 1", "--iterations"},
		{2, "batch --steps 0", "--steps"},
		{2, "mlp --iterations 0", "--iterations"},
		{2, "tutorial --steps -1", "--steps"},
		{2, "tutorial --steps 0", "--steps"},
		{2, "tutorial --device cpu --steps 1 --precision fp8", "--precision"},
		{2, "tutorial --device cpu --steps 1 --precision fp32,tf32", "tf32 needs an NVIDIA GPU"},
		{2, "time-to-accuracy --config test.yaml --target 99", "--target"},
		{2, "time-to-accuracy --config test.yaml --seeds 0", "--seeds"},
		{2, "time-to-accuracy --config posts/three_matrices", "random"},
	} {
		t.Run(c.args, func(t *testing.T) {
			o := train(t, dir, append([]string{"bench"}, strings.Fields(c.args)...)...).wants(t, c.code, c.says)
			if n := strings.Count(o.stderr, "\n"); n != 1 {
				t.Errorf("%d lines: %s", n, o.stderr)
			}
		})
	}
}
