package trainer

import (
	"bufio"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"halfstep/amp"
	"halfstep/device"
	"halfstep/device/devices"
)

// Fits refuses a plan that the device has no room for, before anything is allocated: a *ConfigError on data.batch_size for the
// CPU, whose memory is the machine's, a *devices.Error for a device with memory of its own.
func Fits(m amp.Memory, d device.Device) error {
	need := m.Peak() + m.ResidentData
	free := Free(d)
	if need > free { // what earlier trainers left to the garbage collector may do
		debug.FreeOSMemory()
		free = Free(d)
	}
	if need <= free {
		return nil
	}
	message := fmt.Sprintf("the plan needs %d bytes and %d of resident data, of memory %d bytes are free", m.Peak(), m.ResidentData, free)
	if p := d.Properties(); p.Kind != "cpu" {
		return &devices.Error{Name: p.Kind, Err: fmt.Errorf("%s; take a smaller data.batch_size", message)}
	}
	return &ConfigError{Key: "data.batch_size", Message: message + "; `train memory --fit` tells the largest batch that fits"}
}

// Free is the memory in bytes that a device has left: what its driver says, or for the CPU what the system and the limit of
// the process's control groups leave. It is the largest number where neither tells.
func Free(d device.Device) int64 {
	if m := d.Memory(); m.Total > 0 {
		return m.Free
	}
	return available(os.DirFS("/"))
}

// available is what this process may still take from the system's memory, by the files under root.
func available(root fs.FS) int64 {
	free := int64(math.MaxInt64)
	if kb, ok := field(root, "proc/meminfo", "MemAvailable:"); ok {
		free = kb * 1024
	}
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return free
	}
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path, with no controllers in version 2
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, controller := range strings.Split(parts[1], ",") {
			switch controller {
			case "":
				free = min(free, groupsAvailable(root, "sys/fs/cgroup", parts[2], "memory.max", "memory.current", "inactive_file"))
			case "memory":
				free = min(free, groupsAvailable(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))
			}
		}
	}
	return free
}

// groupsAvailable is the least that a control group or one around it leaves. Pages of files that nobody uses count as free.
// In a container the group's own path may not be visible; the root it sees is then the container's.
func groupsAvailable(root fs.FS, base, group, limitFile, usageFile, cacheKey string) int64 {
	free := int64(math.MaxInt64)
	for dir := path.Join(base, group); strings.HasPrefix(dir, base); dir = path.Dir(dir) {
		limit, ok := number64(root, path.Join(dir, limitFile))
		usage, ok2 := number64(root, path.Join(dir, usageFile))
		if !ok || !ok2 {
			continue // no such group here, or no limit ("max")
		}
		cache, _ := field(root, path.Join(dir, "memory.stat"), cacheKey)
		free = min(free, max(0, limit-usage+cache))
	}
	return free
}

// number64 is the number that a file holds alone.
func number64(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// field is the number after a key at the start of one of a file's lines.
func field(root fs.FS, name, key string) (int64, bool) {
	f, err := root.Open(name)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		words := strings.Fields(s.Text())
		if len(words) < 2 || words[0] != key {
			continue
		}
		n, err := strconv.ParseInt(words[1], 10, 64)
		return n, err == nil
	}
	return 0, false
}
