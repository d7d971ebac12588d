package devices

import (
	"errors"
	"testing"

	"halfstep/device"
)

// TestOpenCPU: the number of threads arrives, and what is for a GPU only changes nothing.
func TestOpenCPU(t *testing.T) {
	for _, name := range []string{"cpu", Gorgonia} {
		d, err := Open(name, Options{Threads: 3, NoGraph: true, TF32: true})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if p := d.Properties(); p.Kind != name || p.Threads != 3 || HasTF32(p) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	var e *Error
	if _, err := Open("cuda:-1", Options{}); !errors.As(err, &e) || e.Name != "cuda:-1" {
		t.Errorf("cuda:-1: %v, want an *Error that names it", err)
	}
}

// TestHasTF32: tensor cores take tf32 from compute capability 8.0 on (CUDA C++ Programming Guide, section "Compute
// Capabilities").
func TestHasTF32(t *testing.T) {
	for _, c := range []struct {
		kind, isa string
		want      bool
	}{
		{"cuda", "sm_75", false},
		{"cuda", "sm_80", true},
		{"cuda", "sm_86", true},
		{"cuda", "sm_90", true},
		{"cuda", "sm_120", true},
		{"cpu", "avx512bf16", false},
		{"cpu", "sm_90", false},
		{Gorgonia, "reference", false},
	} {
		if got := HasTF32(device.Properties{Kind: c.kind, ISA: c.isa}); got != c.want {
			t.Errorf("%s %s: %v", c.kind, c.isa, got)
		}
	}
}
