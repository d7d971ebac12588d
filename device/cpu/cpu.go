// Package cpu runs programs on the processor: Go and generated assembly, no cgo.
package cpu

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"

	"halfstep/device"
	"halfstep/device/cpu/kernel"
	"halfstep/device/cpu/pool"
	"halfstep/program"
)

// Options choose how a Device runs. The zero value uses the best level and all processors.
type Options struct {
	Level   *kernel.Level // nil: kernel.Best
	Threads int           // 0: GOMAXPROCS, which honours a container's quota
}

// Device is the processor.
type Device struct {
	level kernel.Level
	pool  *pool.Pool
	vec   *kernel.Vec
	meter meter
}

// Open starts the device's workers.
func Open(o Options) (*Device, error) {
	level, err := kernel.Best()
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	if o.Level != nil {
		level = *o.Level
	}
	threads := o.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	return &Device{level: level, pool: pool.New(threads), vec: kernel.NewVec(level)}, nil
}

// Properties implements device.Device.
func (d *Device) Properties() device.Properties {
	return device.Properties{
		Kind: "cpu", Name: modelName(), ISA: d.level.String(), Cores: runtime.NumCPU(), Threads: d.pool.Workers(),
		Memory: memTotal(),
	}
}

// Fusions implements device.Device.
func (d *Device) Fusions() []program.Rule {
	return []program.Rule{
		program.FuseConvReLU, program.FuseConvReLUPool, program.FuseConvBackward,
		program.FuseLinearReLU, program.FuseLinearGrads,
	}
}

// NewStore implements device.Device.
func (d *Device) NewStore(persistent []*program.Value) (device.Store, error) {
	s := &store{m: &d.meter, entries: map[string]*entry{}}
	return s, s.Add(persistent)
}

// NewArena implements device.Device.
func (d *Device) NewArena(bytes int64) (device.Arena, error) {
	a := &arena{m: &d.meter, bytes: alignedBytes(bytes)}
	d.meter.add(bytes)
	return a, nil
}

// Memory implements device.Device.
func (d *Device) Memory() device.Memory {
	d.meter.mu.Lock()
	defer d.meter.mu.Unlock()
	return device.Memory{Allocated: d.meter.allocated, Reserved: d.meter.allocated, Peak: d.meter.peak}
}

// ResetPeak implements device.Device.
func (d *Device) ResetPeak() {
	d.meter.mu.Lock()
	defer d.meter.mu.Unlock()
	d.meter.peak = d.meter.allocated
}

// Close implements device.Device.
func (d *Device) Close() error {
	d.pool.Close()
	return nil
}

// modelName is the processor's name as the kernel reports it.
func modelName() string {
	if s := procField("/proc/cpuinfo", "model name"); s != "" {
		return s
	}
	return runtime.GOARCH
}

// memTotal is the machine's memory in bytes; 0 when unknown.
func memTotal() int64 {
	var kb int64
	if _, err := fmt.Sscanf(procField("/proc/meminfo", "MemTotal"), "%d", &kb); err != nil {
		return 0
	}
	return kb * 1024
}

// procField finds the first `key: value` line of a file under /proc; empty where there is none.
func procField(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

var _ device.Device = (*Device)(nil)
