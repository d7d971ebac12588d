package trainer

import (
	"testing"

	"halfstep/configs"
	"halfstep/device"
	"halfstep/device/devices"
)

// Every setting of a configuration that a device takes arrives, and the defaults are the devices' own.
func TestDeviceOptions(t *testing.T) {
	for _, c := range []struct {
		overrides []string
		want      devices.Options
	}{
		{nil, devices.Options{}},
		{[]string{"threads=3"}, devices.Options{Threads: 3}},
		{[]string{"cuda.graph=false"}, devices.Options{NoGraph: true}},
		{[]string{"cuda.allow_tf32=true"}, devices.Options{TF32: true}},
	} {
		r, err := configs.Load("mlp", c.overrides)
		if err != nil {
			t.Fatal(err)
		}
		if got := deviceOptions(r.Config); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.overrides, got, c.want)
		}
	}
	r, err := configs.Load("mlp", []string{"threads=3", "device=cpu"})
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := OpenDevice(r.Config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if n := d.Properties().Threads; n != 3 {
		t.Errorf("%d threads, want 3", n)
	}
}

// Which precision a configuration and a word for it come to, on each kind of device.
func TestPrecision(t *testing.T) {
	cpu := device.Properties{Kind: "cpu", ISA: "avx512bf16"}
	turing, hopper := device.Properties{Kind: "cuda", ISA: "sm_75"}, device.Properties{Kind: "cuda", ISA: "sm_90"}
	for _, c := range []struct {
		config, word string // word "": the configuration as it is
		on           device.Properties
		want         string
	}{
		{"mlp", "", hopper, "fp32"},
		{"mlp_amp", "", hopper, "fp16"},
		{"mlp", "tf32", hopper, "tf32"},
		{"mlp_amp", "tf32", hopper, "tf32"},
		{"mlp", "tf32", turing, "fp32"},
		{"mlp", "tf32", cpu, "fp32"},
		{"mlp", "bf16", hopper, "bf16"},
		{"mlp_amp", "fp32", hopper, "fp32"},
		{"mlp", "float16", cpu, "fp16"},
	} {
		for _, allowed := range []string{"false", "true"} { // by the file: a word counts more
			r, err := configs.Load(c.config, []string{"cuda.allow_tf32=" + allowed})
			if err != nil {
				t.Fatal(err)
			}
			cfg, want := r.Config, c.want
			if c.word != "" {
				if cfg, err = Precision(cfg, c.word); err != nil {
					t.Fatal(err)
				}
			} else if allowed == "true" && want == "fp32" && c.on == hopper {
				want = TF32
			}
			got, err := PrecisionName(cfg, c.on)
			if err != nil || got != want || UsesTF32(cfg, c.on) != (want == TF32) {
				t.Errorf("%s, allow_tf32 %s, %q on %s: %s, %v; want %s", c.config, allowed, c.word, c.on.ISA, got, err, want)
			}
		}
	}
	for _, name := range []string{"cpu", devices.Gorgonia} {
		if _, err := Precision(configs.Config{Device: name}, TF32); ExitCode(err) != ExitUsage {
			t.Errorf("tf32 on %s: %v", name, err)
		}
	}
}
