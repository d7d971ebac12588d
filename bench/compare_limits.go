package bench

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"halfstep/device"
	"halfstep/program"
)

// limits are what a device can do at most, measured on it: the highest figures of all measurements, since whatever else the
// machine does can only lower them.
type limits struct {
	dev      device.Device
	peaks    map[program.DType]float64 // FLOP/s of multiply-adds in registers
	tf32     device.Device             // the one that computes in tf32; nil without such rows
	peakTF32 float64
	bytes    map[int64]float64 // bytes/s by size of what is streamed, a power of two
}

func newLimits(d device.Device) *limits {
	return &limits{dev: d, peaks: map[program.DType]float64{}, bytes: map[int64]float64{largestStream: 0}}
}

// measurePeaks takes the peaks once more.
func (l *limits) measurePeaks() {
	if b, ok := l.dev.(device.Benchmarker); ok {
		for _, t := range floatTypes {
			if flops, ok := b.PeakFLOPS(t); ok {
				l.peaks[t] = max(l.peaks[t], flops)
			}
		}
	}
	if b, ok := l.tf32.(device.Benchmarker); ok {
		if flops, ok := b.PeakFLOPS(program.Float32); ok {
			l.peakTF32 = max(l.peakTF32, flops)
		}
	}
}

// measureBandwidth takes the bandwidths once more.
func (l *limits) measureBandwidth() error {
	for size, best := range l.bytes {
		rate, err := measureStream(l.dev, size)
		if err != nil {
			return fmt.Errorf("memory bandwidth: %w", err)
		}
		l.bytes[size] = max(best, rate)
	}
	return nil
}

var floatTypes = []program.DType{program.Float32, program.Float16, program.BFloat16}

// peak is the highest rate of multiply-adds for operands of a type in FLOP/s, 0 where the device cannot tell. native is
// false where the device has no instruction for the type and computes it in float32.
func (l *limits) peak(d program.DType) (flops float64, native bool) {
	if p, ok := l.peaks[d]; ok {
		return p, true
	}
	return l.peaks[program.Float32], false
}

// The sizes that bandwidth is measured at: powers of two, from what any first-level cache holds to more than any cache.
const (
	smallestStream = 1 << 15
	largestStream  = 1 << 27
)

// streamSize is the size that stands for so many bytes.
func streamSize(n int64) int64 {
	n = min(max(n, smallestStream), largestStream)
	return 1 << bits.Len64(uint64(n-1))
}

// need makes measureBandwidth take that for a step with so much memory.
func (l *limits) need(n int64) { l.bytes[streamSize(n)] += 0 }

// bandwidth is the rate in bytes/s at which the device streams through so many bytes over and over: the memory of a step,
// which lies in a cache where it fits there.
func (l *limits) bandwidth(n int64) float64 { return l.bytes[streamSize(n)] }

// measureStream is the rate of an instruction that does nothing but read two vectors of size bytes together and write one of
// them: acc += g·1, the traffic of an optimizer. The best of several runs.
func measureStream(d device.Device, size int64) (rate float64, err error) {
	n := int(size / 8)
	p := &program.Program{Name: "stream"}
	g := p.NewPersistent("g", program.RoleState, program.Float32, n)
	acc := p.NewPersistent("acc", program.RoleState, program.Float32, n)
	one := p.NewPersistent("one", program.RoleState, program.Float32)
	p.Emit(program.Update, "", program.Accumulate{}, []*program.Value{g, one}, nil, []*program.Value{acc})
	store, err := d.NewStore(p.Persistent())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	arena, err := d.NewArena(0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, arena.Close()) }()
	// Written, so that its pages are its own: the system backs what nobody wrote by a single page of zeros.
	if err := errors.Join(device.Write(store, "g", make([]float32, n)), device.Write(store, "one", []float32{1})); err != nil {
		return 0, err
	}
	e, err := d.Compile(p, store, arena)
	if err != nil {
		return 0, err
	}
	times := int(1 + 8<<20/size) // of one timing: at least 8 MB
	for k := range 8 {
		start := time.Now()
		if err := e.Run(context.Background(), times); err != nil {
			return 0, err
		}
		if k >= 2 { // after warm-up
			rate = max(rate, float64(size/2*3)*float64(times)/time.Since(start).Seconds())
		}
	}
	return rate, nil
}

// String tells the limits.
func (l *limits) String() string {
	var parts []string
	if l.peakTF32 > 0 {
		parts = append(parts, fmt.Sprintf("%.0f GFLOP/s of multiply-adds in tf32", l.peakTF32/1e9))
	}
	for _, t := range floatTypes {
		if p, ok := l.peaks[t]; ok {
			parts = append(parts, fmt.Sprintf("%.0f GFLOP/s of multiply-adds in %s", p/1e9, t))
		} else if len(l.peaks) > 0 {
			parts = append(parts, fmt.Sprintf("none in %s, which is computed in float32", t))
		}
	}
	parts = append(parts, fmt.Sprintf("memory at %.1f GB/s", l.bytes[largestStream]/1e9))
	return "Measured limits: " + strings.Join(parts, ", ") + "."
}
