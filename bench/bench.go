// Package bench times what the users of half precision and of GPUs ask about: a training step, a matrix product, a net too
// small for a GPU, batch sizes, mixed precision, the loss scale, time to an accuracy. Every figure is taken after warm-up
// and synchronised with the device; what a warm-up or a copy costs is reported apart from it.
//
// Each function returns figures; conclusions are computed from them, and are tested on figures made up for each case.
package bench

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"halfstep/device"
	"halfstep/device/devices"
	"halfstep/program"
)

// Error is a request that cannot be followed, such as a shape that does not fit the memory. A command that fails with it
// exits with code 2.
type Error struct{ Flag, Message string }

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Flag, e.Message) }

// median is the middle value, or the mean of the two in the middle; NaN of none.
func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// meanStd is the mean and the sample standard deviation, which is 0 of a single value.
func meanStd(x []float64) (mean, std float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	if len(x) < 2 {
		return mean, 0
	}
	for _, v := range x {
		std += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(std / float64(len(x)-1))
}

// milliseconds is a duration as a number.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ratio is a/b; 0 where b is not above 0.
func ratio(a, b float64) float64 {
	if b > 0 {
		return a / b
	}
	return 0
}

// choose lists the devices that a benchmark runs on: the one that is asked for, or all that are usable with empty or
// "auto". Those that are not usable are told with the reason.
func choose(want string) (use, missing []devices.Usable, err error) {
	for _, u := range devices.List() {
		switch {
		case want != "" && want != "auto" && u.Name != want:
		case u.Why != "":
			missing = append(missing, u)
		default:
			use = append(use, u)
		}
	}
	if len(use) > 0 {
		return use, missing, nil
	}
	// Not in the list (cuda:1), or not usable: opening it tells the reason.
	d, err := devices.Open(want, devices.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	return []devices.Usable{{Name: want, Properties: d.Properties()}}, nil, nil
}

func hasTF32(u devices.Usable) bool { return devices.HasTF32(u.Properties) }

// needTF32 refuses tf32 on a device that has not got it.
func needTF32(p device.Properties) error {
	if devices.HasTF32(p) {
		return nil
	}
	return &Error{"--precision", fmt.Sprintf("tf32 needs an NVIDIA GPU of compute capability 8.0 or later, the device is %s (%s, %s); take fp32 there", p.Kind, p.Name, p.ISA)}
}

// peaks are a device's measured limits in GFLOP/s by dtype; a dtype is missing where it has none of its own.
type peaks map[program.DType]float64

func measurePeaks(d device.Device, dtypes ...program.DType) peaks {
	p := peaks{}
	b, ok := d.(device.Benchmarker)
	if !ok {
		return p
	}
	for _, t := range dtypes {
		if flops, ok := b.PeakFLOPS(t); ok {
			p[t] = flops / 1e9
		}
	}
	return p
}

// or is the larger of two measurements: a busy machine can only lower one.
func (p peaks) or(q peaks) peaks {
	r := maps.Clone(p)
	for t, v := range q {
		r[t] = max(r[t], v)
	}
	return r
}

// own is the limit of a dtype's own instructions; nil where it has none.
func (p peaks) own(d program.DType) *float64 {
	if v, ok := p[d]; ok {
		return &v
	}
	return nil
}

// of is the limit of a kernel on operands of a dtype: a half type without instructions of its own is computed in float32.
func (p peaks) of(d program.DType) *float64 {
	if v := p.own(d); v != nil || !d.Half() {
		return v
	}
	return p.own(program.Float32)
}

// percent is x as a percentage of a limit; nil without one.
func percent(x float64, limit *float64) *float64 {
	if limit == nil {
		return nil
	}
	p := 100 * x / *limit
	return &p
}
