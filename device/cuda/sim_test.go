//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"os"
	"testing"

	"halfstep/device"
	"halfstep/device/conformance"
	"halfstep/device/cpu"
	"halfstep/device/cpu/kernel"
	"halfstep/device/cuda/driver"
)

// needSimulator skips the test where HALFSTEP_LIBCUDA does not name the simulator.
func needSimulator(t testing.TB) {
	t.Helper()
	if os.Getenv("HALFSTEP_LIBCUDA") == "" {
		t.Skip("runs on the simulator: build it with scripts/sim.sh and set HALFSTEP_LIBCUDA to its libcuda.so.1")
	}
}

// open opens the simulated device with the simulator's settings (sim/driver.h) and closes it when the test ends.
func open(t testing.TB, settings string, o Options) *Device {
	t.Helper()
	needSimulator(t)
	t.Setenv("HALFSTEP_SIM", settings)
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// portable is the CPU's slow, readable level.
func portable(t testing.TB) device.Device {
	level := kernel.Portable
	d, err := cpu.Open(cpu.Options{Level: &level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// TestConformance runs the suite of all devices on the simulator, in each of its modes and without graphs.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name, settings string
		options        Options
	}{
		{"eager", "", Options{}},
		{"eager reverse", "reverse", Options{}},
		{"deferred", "deferred", Options{}},
		{"deferred reverse", "deferred,reverse", Options{}},
		{"no graph", "deferred", Options{NoGraph: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conformance.Run(t, func(t testing.TB) device.Device { return open(t, c.settings, c.options) },
				conformance.Options{Reference: portable, Slow: true})
		})
	}
}

// TestGPU runs the suite on a real GPU. scripts/gpu_check.sh asks for it.
func TestGPU(t *testing.T) {
	if os.Getenv("HALFSTEP_TEST_GPU") == "" {
		t.Skip("runs on a GPU when HALFSTEP_TEST_GPU is set")
	}
	conformance.Run(t, func(t testing.TB) device.Device {
		d, err := Open(Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		t.Logf("%+v, driver for CUDA %d", d.Properties(), driver.Version())
		return d
	}, conformance.Options{Reference: portable})
}
