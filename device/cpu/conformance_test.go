package cpu_test

import (
	"runtime"
	"testing"

	"halfstep/device"
	"halfstep/device/conformance"
	"halfstep/device/cpu"
	"halfstep/device/cpu/kernel"
)

// opener opens the device at a level with so many threads.
func opener(l kernel.Level, threads int) func(testing.TB) device.Device {
	return func(tb testing.TB) device.Device {
		tb.Helper()
		d, err := cpu.Open(cpu.Options{Level: &l, Threads: threads})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := d.Close(); err != nil {
				tb.Error(err)
			}
		})
		return d
	}
}

// TestConformance runs the suite at every level of this machine.
func TestConformance(t *testing.T) {
	for _, l := range kernel.Levels() {
		t.Run(l.String(), func(t *testing.T) {
			conformance.Run(t, opener(l, 2), conformance.Options{Reference: opener(kernel.Portable, 1)})
		})
	}
}

// TestThreads trains the suite's networks with one, two and three workers at every level: no bit may depend on them.
func TestThreads(t *testing.T) {
	for _, l := range kernel.Levels() {
		t.Run(l.String(), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
			var devices []device.Device
			for threads := 1; threads <= 3; threads++ {
				runtime.GOMAXPROCS(threads)
				dev := opener(l, 0)(t)
				if n := dev.Properties().Threads; n != threads {
					t.Fatalf("with GOMAXPROCS=%d the device has %d workers", threads, n)
				}
				devices = append(devices, dev)
			}
			conformance.Identical(t, conformance.Options{}, devices...)
		})
	}
}
