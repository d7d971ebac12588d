//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"halfstep/device/cuda/driver"
	"halfstep/device/cuda/ptx"
	"halfstep/program"
)

// onThread runs f on the device's thread.
func onThread(t *testing.T, d *Device, f func() error) {
	t.Helper()
	if err := d.owner.do(f); err != nil {
		t.Fatal(err)
	}
}

// TestEntries: every kernel takes one struct and is in one module, and each module of products has all of them.
func TestEntries(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range newKernels(90).sources {
		for name, e := range m.kernels {
			if e.argBytes <= 0 {
				t.Errorf("%s takes %d bytes", name, e.argBytes)
			}
			if seen[name] {
				t.Errorf("%s is in two modules", name)
			}
			seen[name] = true
		}
		t.Logf("%d kernels for compute capability %d.%d", len(m.kernels), m.target/10, m.target%10)
	}
	for _, op := range []string{"linear", "linear_grad_x", "linear_grad_w", "conv2d", "conv2d_grad_x", "conv2d_grad_w"} {
		for _, arithmetic := range []string{"f32", "f16", "bf16", "tf32"} {
			if name := op + "_" + arithmetic; !seen[name] {
				t.Errorf("no kernel %s", name)
			}
		}
	}
}

// TestSlices: every kernel can be compiled alone, and all of a module together are the module.
func TestSlices(t *testing.T) {
	ptxas, err := exec.LookPath("ptxas")
	if err != nil {
		t.Skip("runs where the CUDA toolkit is installed (scripts/install_cuda.sh)")
	}
	for n, m := range newKernels(90).sources {
		all := m.head + m.functions
		for _, line := range strings.Split(m.slice(slices.Collect(maps.Keys(m.kernels)))[len(m.head):], "\n") {
			word, _, _ := strings.Cut(line, " ")
			if strings.HasPrefix(word, ".") && !slices.Contains([]string{".visible", ".func", ".maxntid", ".minnctapersm"}, word) {
				t.Errorf("module %d: %s between the kernels: no slice without the kernel before it would have that", n, line)
			}
		}
		for name, e := range m.kernels {
			all += e.text
			c := exec.Command(ptxas, "-O0", "-arch=sm_90", "-o", os.DevNull, "-")
			c.Stdin = strings.NewReader(m.slice([]string{name}))
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", name, err, out)
			}
		}
		if whole := []string{ptx.Base, ptx.F32, ptx.F16, ptx.BF16, ptx.TF32}[n]; len(all) != len(whole) {
			t.Errorf("module %d: its parts have %d bytes, the whole %d", n, len(all), len(whole))
		}
	}
}

// TestStalePTX: the simulator refuses PTX that is not what its sources give.
func TestStalePTX(t *testing.T) {
	d := open(t, "", Options{})
	onThread(t, d, func() error {
		m, err := driver.LoadModule(strings.Replace(ptx.Base, "add_f16_param_0[32]", "add_f16_param_0[40]", 1))
		if err != nil {
			return err
		}
		_, err = m.Function("add_f16")
		wantError(t, err, "add_f16", "kernel image is invalid")
		if _, err := m.Function("add_f32"); err != nil {
			return err
		}
		_, err = m.Function("absent")
		wantError(t, err, "absent", "not found")
		_, err = driver.LoadModule("no PTX")
		wantError(t, err, "JIT", "the PTX has no kernels")
		wantError(t, newKernels(90).check("add_f16", 40), "add_f16 takes 32 bytes, given 40")
		return m.Unload()
	})
}

// TestWritePastEnd: the simulator notices a kernel that writes past the end of its memory, when that is freed.
func TestWritePastEnd(t *testing.T) {
	needSimulator(t)
	t.Setenv("HALFSTEP_SIM", "")
	d, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() // fails: the device is broken
	onThread(t, d, func() error {
		p, err := driver.Alloc(1000)
		if err != nil {
			return err
		}
		args := zeroArgs{x: p, n: 1001, vectors: 63}
		b := &builder{d: d}
		elementwise(b, "zero", 63, args)
		ls, err := b.ready()
		if err != nil {
			return err
		}
		if err := d.launchAll(ls); err != nil {
			return err
		}
		wantError(t, driver.Free(p), "illegal memory access")
		return nil
	})
}

// TestDeferred: in deferred mode nothing has happened before someone waits, so that a missing wait shows; and a capture
// refuses what would wait.
func TestDeferred(t *testing.T) {
	d := open(t, "deferred", Options{})
	onThread(t, d, func() error {
		p, err := driver.Alloc(4)
		if err != nil {
			return err
		}
		if err := d.stream.Zero(p, 4); err != nil {
			return err
		}
		b := []byte{1, 2, 3, 4}
		if err := d.stream.Download(unsafe.Pointer(&b[0]), p, 4); err != nil {
			return err
		}
		if b[0] != 1 {
			t.Error("a copy was done before anyone waited")
		}
		if err := d.stream.Synchronize(); err != nil {
			return err
		}
		if b[0] != 0 {
			t.Error("a copy was not done after waiting")
		}
		if err := d.stream.BeginCapture(); err != nil {
			return err
		}
		wantError(t, d.stream.Synchronize(), "capturing")
		_, err = driver.Alloc(4)
		wantError(t, err, "capturing")
		g, err := d.stream.EndCapture()
		if err != nil {
			return err
		}
		if err := g.Close(); err != nil {
			return err
		}
		return driver.Free(p)
	})
}

// TestSplits: the parts of a sum over k cover it without gaps, whatever the shape, and none is empty.
func TestSplits(t *testing.T) {
	for _, shape := range [][3]int{
		{1, 1, 1},
		{64, 64, 8192},
		{512, 128, 9216},
		{288, 64, 294912},
		{9, 32, 346112},
		{65, 10, 127},
		{64, 64, 129},
		{512, 4096, 4096},
		{4096, 4096, 512},
	} {
		p := newProduct(shape[0], shape[1], shape[2]).enlarge(program.Float16, shape[1]%8 == 0)
		s, steps := p.splits(), ceilDiv(p.k, p.tile.step)
		per := ceilDiv(steps, s)
		if s < 1 || (s-1)*per >= steps || s*per < steps {
			t.Errorf("%+v: %d splits of %d steps each, %d steps in all", p, s, per, steps)
		}
		t.Logf("%+v: %d tiles, %d splits of %d steps, %d bytes of partials", p, p.tiles(), s, per, p.work())
	}
}
