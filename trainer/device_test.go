package trainer

import (
	"errors"
	"math"
	"strings"
	"testing"

	"halfstep/device"
	"halfstep/device/cpu"
	"halfstep/device/cpu/kernel"
	"halfstep/device/devices"
	"halfstep/runs"
)

// threads is a CPU at a level; which of two is faster is known beforehand.
func cpuAt(l kernel.Level) func() (device.Device, error) {
	return func() (device.Device, error) { return cpu.Open(cpu.Options{Level: &l, Threads: 1}) }
}

// With two devices the faster one is taken and both figures are told. The slow one runs plain Go; the fast one vectors.
func TestAutoTakesTheFaster(t *testing.T) {
	levels := kernel.Levels()
	if len(levels) == 1 {
		t.Skip("needs a machine with two instruction-set levels")
	}
	best := levels[len(levels)-1]
	c := load(t, hostImages, "data.batch_size=16", "model.layers=[{conv2d: {filters: 16, kernel: 3}}, {conv2d: {filters: 16, kernel: 3}}, flatten, {linear: {units: 10}}]").Config
	set := images(t, 128, 0)
	for _, list := range []map[string]kernel.Level{
		{"cpu": kernel.Portable, "cuda": best},
		{"cpu": best, "cuda": kernel.Portable},
	} {
		d, choice, err := chooseDevice(c, set, []string{"cpu", "cuda"}, func(name string) (device.Device, error) { return cpuAt(list[name])() })
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if d.Properties().ISA != best.String() || list[choice.Device] != best || choice.Reason != "faster" {
			t.Errorf("%v: took %s, %+v", list, d.Properties().ISA, *choice)
		}
		if choice.CPUMSPerStep == nil || choice.CUDAMSPerStep == nil || len(choice.NotUsable) != 0 {
			t.Fatalf("%v: %+v", list, *choice)
		}
		t.Logf("cpu (%v) %.3f ms, cuda (%v) %.3f ms, took %s; %.2f s", list["cpu"], *choice.CPUMSPerStep, list["cuda"], *choice.CUDAMSPerStep, choice.Device, choice.Seconds)
		if m := d.Memory(); m.Allocated != 0 {
			t.Errorf("%d bytes are left of the probe", m.Allocated)
		}
	}
}

// With one usable device nothing is measured, and the others' reasons are told.
func TestAutoWithOneDevice(t *testing.T) {
	c := load(t, hostImages).Config
	set := images(t, 64, 0)
	missing := &devices.Error{Name: "cuda", Err: errors.New("no driver")}
	d, choice, err := chooseDevice(c, set, []string{"cpu", "cuda"}, func(name string) (device.Device, error) {
		if name == "cuda" {
			return nil, missing
		}
		return cpuAt(kernel.Portable)()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if choice.Device != "cpu" || choice.Reason != "only_usable" || choice.CPUMSPerStep != nil || len(choice.NotUsable) != 1 || choice.NotUsable[0] != "cuda: no driver" {
		t.Errorf("%+v", *choice)
	}
	if _, _, err := chooseDevice(c, set, []string{"cuda"}, func(string) (device.Device, error) { return nil, missing }); !errors.Is(err, missing.Err) {
		t.Errorf("no device at all: error %v", err)
	}
}

// A device that opens but has no room for the step is not taken.
func TestAutoPassesOverWhatCannotRun(t *testing.T) {
	c := load(t, hostImages).Config
	d, choice, err := chooseDevice(c, images(t, 64, 0), []string{"cpu", "cuda"}, func(name string) (device.Device, error) {
		d, err := cpuAt(kernel.Portable)()
		if name == "cuda" {
			return full{d, "cuda", 1000}, err
		}
		return d, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if choice.Device != "cpu" || choice.Reason != "only_usable" || choice.CPUMSPerStep == nil || !strings.Contains(strings.Join(choice.NotUsable, ""), "1000 bytes are free") {
		t.Errorf("%+v", *choice)
	}
}

// The choice is in the log, and a resumed run stays on its device.
func TestAutoIsLogged(t *testing.T) {
	r := load(t, smallCNN, "device=auto", "epochs=1", "max_steps=4", "data.name=mnist")
	_, dir, err := Train(t.Context(), r, SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{"only_usable", "resumed"} {
		rec, err := runs.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got *runs.DeviceChoice
		for _, l := range rec.Lines {
			if e, ok := l.Event.(runs.DeviceChoice); ok {
				got = &e
			}
		}
		if got == nil || got.Device != "cpu" || got.Reason != reason || math.IsNaN(got.Seconds) {
			t.Errorf("logged %+v, want reason %s", got, reason)
		}
		if reason == "resumed" {
			return
		}
		r.Config.MaxSteps = 8
		if _, _, err := Train(t.Context(), r, SessionOptions{Resume: dir, Allow: []string{"max_steps"}}); err != nil {
			t.Fatal(err)
		}
	}
}
