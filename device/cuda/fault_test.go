//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"context"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"halfstep/device"
	"halfstep/device/cuda/driver"
	"halfstep/program"
)

// wantError fails unless err says all of what.
func wantError(t *testing.T, err error, what ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one about %q", what)
	}
	t.Log(err)
	for _, w := range what {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q", w)
		}
	}
}

// TestOpenFails: a machine or a driver that cannot run the kernels is an ordinary error that says why.
func TestOpenFails(t *testing.T) {
	needSimulator(t)
	for _, c := range []struct {
		settings string
		want     []string
	}{
		{"no_device", []string{"finds no device"}},
		{"version=11040", []string{"too old", "CUDA 11.4", "520"}},
		{"capability=70", []string{"compute capability 7.0", "7.5"}},
		{"memory=0", []string{}}, // opening needs no device memory
	} {
		t.Run(c.settings, func(t *testing.T) {
			t.Setenv("HALFSTEP_SIM", c.settings)
			d, err := Open(Options{})
			if len(c.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				d.Close()
				return
			}
			wantError(t, err, c.want...)
		})
	}
	t.Setenv("HALFSTEP_SIM", "")
	_, err := Open(Options{Ordinal: 3})
	wantError(t, err, "device 3", "invalid device ordinal")
}

// TestNoDriver starts this test's binary anew with a library that is not there: it starts, and Open says which.
func TestNoDriver(t *testing.T) {
	if os.Getenv("HALFSTEP_TEST_NO_DRIVER") != "" {
		_, err := Open(Options{})
		wantError(t, err, "no NVIDIA driver", "/nowhere/libcuda.so.1")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNoDriver$", "-test.v")
	cmd.Env = append(os.Environ(), "HALFSTEP_TEST_NO_DRIVER=1", "HALFSTEP_LIBCUDA=/nowhere/libcuda.so.1", "LD_BIND_NOW=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// TestNotLinked: the binary does not name the driver's library, so it starts where there is none.
func TestNotLinked(t *testing.T) {
	f, err := elf.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range libraries {
		if strings.Contains(l, "cuda") {
			t.Errorf("the binary needs %s", l)
		}
	}
	t.Log(libraries)
}

// addProgram is y = x + x over n elements, x persistent.
func addProgram(n int) *program.Program {
	p := &program.Program{Name: "add"}
	x := p.NewPersistent("x", program.RoleData, program.Float32, n)
	y := p.NewValue("y", program.RoleMetric, program.Float32, n)
	p.Emit(program.Forward, "", program.Add{}, []*program.Value{x, x}, []*program.Value{y}, nil)
	return p
}

// compileAdd builds the program on a device.
func compileAdd(t *testing.T, d *Device) (device.Store, device.Arena, device.Executable) {
	t.Helper()
	p := addProgram(1000)
	if err := p.Plan(d.Workspace); err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStore(p.Persistent())
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.NewArena(p.Peak)
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Compile(p, s, a)
	if err != nil {
		t.Fatal(err)
	}
	return s, a, e
}

// TestOutOfMemory: what does not fit is refused before anything is allocated, with both figures.
func TestOutOfMemory(t *testing.T) {
	d := open(t, "memory=1000000", Options{})
	_, err := d.NewArena(1000001)
	wantError(t, err, "1000001", "1000000")
	var noMemory *NoMemoryError
	if !errors.As(err, &noMemory) {
		t.Errorf("%T, want a *NoMemoryError", err)
	}
	a, err := d.NewArena(900000)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.NewStore(addProgram(50000).Persistent())
	wantError(t, err, "200000", "100000")
	if m := d.Memory(); m.Allocated != 900000 || m.Free != 100000 || m.Total != 1000000 {
		t.Errorf("%+v, want 900000 allocated, 100000 free, 1000000 in all", m)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if m := d.Memory(); m.Allocated != 0 || m.Free != 1000000 || m.Peak != 900000 {
		t.Errorf("%+v, want nothing allocated, all free, a peak of 900000", m)
	}
}

// TestBrokenDevice: after a failed kernel or a lost device every call fails, with the driver's words, and none hangs. A
// device that is opened anew works.
func TestBrokenDevice(t *testing.T) {
	needSimulator(t)
	for settings, want := range map[string]string{
		"fail_launch=2":          "unspecified launch failure",
		"deferred,fail_launch=2": "unspecified launch failure",
		"lose_device=2":          "unknown error",
		"deferred,lose_device=2": "unknown error",
	} {
		t.Run(settings, func(t *testing.T) {
			t.Setenv("HALFSTEP_SIM", settings)
			d, err := Open(Options{})
			if err != nil {
				t.Fatal(err)
			}
			s, a, e := compileAdd(t, d)
			hung := time.AfterFunc(20*time.Second, func() { panic("a call on a broken device hangs") })
			defer hung.Stop()
			wantError(t, e.Run(context.Background(), 100), "run add", want)
			wantError(t, e.Run(context.Background(), 1), want)
			_, err = e.Profile(context.Background())
			wantError(t, err, want)
			wantError(t, e.Trace(context.Background(), func(*program.Instr, func(*program.Value) []float32) bool { return true }), want)
			wantError(t, s.Read("x", make([]byte, 4000)), "x", want)
			wantError(t, s.Write("x", make([]byte, 4000)), "x", want)
			_, err = d.NewArena(1)
			wantError(t, err, want)
			if m := d.Memory(); m.Free != 0 || m.Total != 0 {
				t.Errorf("%+v: a broken device tells free memory", m)
			}
			wantError(t, a.Close(), want)
			wantError(t, s.Close(), want)
			wantError(t, d.Close(), want)
			if again := d.Close(); again == nil {
				t.Error("a second Close forgets the error")
			}
			if err := e.Run(context.Background(), 1); !errors.Is(err, errClosed) {
				t.Errorf("run on a closed device: %v", err)
			}
			_, _, e = compileAdd(t, open(t, "", Options{}))
			if err := e.Run(context.Background(), 3); err != nil {
				t.Errorf("opened anew: %v", err)
			}
		})
	}
}

// TestWrongThread: the driver knows its context on the device's own thread only. A call from elsewhere fails and harms
// nothing; that is why all calls go through owner.
func TestWrongThread(t *testing.T) {
	d := open(t, "", Options{})
	_, _, e := compileAdd(t, d)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := driver.Alloc(16)
	wantError(t, err, "invalid device context")
	if err := e.Run(context.Background(), 1); err != nil {
		t.Error(err)
	}
}

// TestOldGPU: a GPU without bfloat16 tensor cores refuses such products when the program is compiled, and runs the rest.
func TestOldGPU(t *testing.T) {
	d := open(t, "capability=75", Options{TF32: true})
	for dtype, want := range map[program.DType]string{program.Float32: "", program.Float16: "", program.BFloat16: "needs compute capability 8.0, this GPU has 7.5"} {
		p := &program.Program{Name: "old"}
		x := p.NewPersistent("x", program.RoleData, dtype, 4, 8)
		w := p.NewPersistent("w", program.RoleParam, dtype, 8, 3)
		p.Emit(program.Forward, "", program.Linear{}, []*program.Value{x, w}, []*program.Value{p.NewValue("y", program.RoleMetric, dtype, 4, 3)}, nil)
		if err := p.Plan(d.Workspace); err != nil {
			t.Fatal(err)
		}
		s, err := d.NewStore(p.Persistent())
		if err != nil {
			t.Fatal(err)
		}
		a, err := d.NewArena(p.Peak)
		if err != nil {
			t.Fatal(err)
		}
		e, err := d.Compile(p, s, a)
		if want != "" {
			wantError(t, err, want)
			continue
		}
		if err == nil {
			err = e.Run(context.Background(), 1)
		}
		if err != nil {
			t.Errorf("%s: %v", dtype, err)
		}
	}
}
