//go:build gpu && linux && (amd64 || arm64)

package devices

import (
	"testing"

	"halfstep/device/cuda"
)

// TestCUDAOptions: the name gives the GPU, every option arrives, and none is on by default.
func TestCUDAOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want cuda.Options
	}{
		{"cuda", Options{}, cuda.Options{}},
		{"cuda", Options{Threads: 3}, cuda.Options{}},
		{"cuda:2", Options{NoGraph: true}, cuda.Options{Ordinal: 2, NoGraph: true}},
		{"cuda:0", Options{TF32: true}, cuda.Options{TF32: true}},
	} {
		if got, err := cudaOptions(c.name, c.o); err != nil || got != c.want {
			t.Errorf("%s with %+v: %+v, %v; want %+v", c.name, c.o, got, err, c.want)
		}
	}
	for _, name := range []string{"cuda:", "cuda:-1", "cuda:x"} {
		if o, err := cudaOptions(name, Options{}); err == nil {
			t.Errorf("%s is %+v", name, o)
		}
	}
}
