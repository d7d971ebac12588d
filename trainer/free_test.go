package trainer

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"halfstep/device"
	"halfstep/device/devices"
)

// What the system's files say, written out as Linux has them.
func TestAvailable(t *testing.T) {
	const meminfo = "MemTotal:       24684012 kB\nMemFree:        17510400 kB\nMemAvailable:    1000000 kB\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing", nil, math.MaxInt64},
		{"no groups", map[string]string{"proc/meminfo": meminfo}, 1000000 * 1024},
		{"version 2 without a limit", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user\n",
			"sys/fs/cgroup/user/memory.max": "max\n", "sys/fs/cgroup/user/memory.current": "5\n",
		}, 1000000 * 1024},
		{"version 2, cache counts as free", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user/job\n",
			"sys/fs/cgroup/user/job/memory.max": "1000\n", "sys/fs/cgroup/user/job/memory.current": "600\n",
			"sys/fs/cgroup/user/job/memory.stat": "anon 500\ninactive_file 50\n",
		}, 450},
		{"version 2, a group around it is tighter", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user/job\n",
			"sys/fs/cgroup/user/job/memory.max": "1000\n", "sys/fs/cgroup/user/job/memory.current": "600\n",
			"sys/fs/cgroup/user/memory.max": "1000\n", "sys/fs/cgroup/user/memory.current": "900\n",
		}, 100},
		{"version 2, seen from inside a container", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/outside/path\n",
			"sys/fs/cgroup/memory.max": "700\n", "sys/fs/cgroup/memory.current": "300\n",
		}, 400},
		{"version 1", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/job\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1000\n", "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "1200\n",
			"sys/fs/cgroup/memory/job/memory.stat":       "total_inactive_file 100\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1200\n",
		}, 0},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := available(root); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

// full is a device whose driver says how much is left.
type full struct {
	device.Device
	kind string
	free int64
}

func (f full) Properties() device.Properties { return device.Properties{Kind: f.kind} }
func (f full) Memory() device.Memory         { return device.Memory{Free: f.free, Total: 1 << 40} }

// A plan that does not fit is refused before anything is allocated, with both figures and the exit code of its kind.
func TestPlanDoesNotFit(t *testing.T) {
	c := load(t, hostImages).Config
	set := images(t, 64, 0)
	d := open(t, nil, 1)
	for _, k := range []struct {
		kind string
		exit int
	}{{"cpu", ExitUsage}, {"cuda", ExitDevice}} {
		_, err := New(c, set, full{d, k.kind, 12345}, Options{})
		if ExitCode(err) != k.exit || err == nil || !strings.Contains(err.Error(), "12345 bytes are free") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: exit code %d, error %v", k.kind, ExitCode(err), err)
		}
		if got := d.Memory().Allocated; got != 0 {
			t.Errorf("%s: %d bytes were allocated", k.kind, got)
		}
	}
	var own *ConfigError
	if _, err := New(c, set, full{d, "cpu", 12345}, Options{}); !errors.As(err, &own) || own.Key != "data.batch_size" {
		t.Errorf("error %v, want one on data.batch_size", err)
	}
	tr := newTrainer(t, c, set, d, Options{})
	need := tr.Memory().Peak() + tr.Memory().ResidentData
	if err := Fits(tr.Memory(), full{d, "cuda", need}); err != nil {
		t.Errorf("just enough: %v", err)
	}
	var dev *devices.Error
	if err := Fits(tr.Memory(), full{d, "cuda", need - 1}); !errors.As(err, &dev) {
		t.Errorf("a byte too few: %v", err)
	}
	if free := Free(d); runtime.GOOS == "linux" && (free <= 0 || free == math.MaxInt64) {
		t.Errorf("this machine has %d bytes left", free)
	}
}
