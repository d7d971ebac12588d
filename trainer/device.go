package trainer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/device/devices"
	"halfstep/runs"
)

// probeTime is how long device: auto times steps on each device, after a warm-up of half of it.
const probeTime = 200 * time.Millisecond

// OpenNamed opens a device by its name as the configuration wants it. Whoever runs a configuration opens its device here or by
// OpenDevice, so that no setting is forgotten.
func OpenNamed(name string, c configs.Config) (device.Device, error) {
	return devices.Open(name, deviceOptions(c))
}

func deviceOptions(c configs.Config) devices.Options {
	return devices.Options{Threads: c.Threads, NoGraph: !c.CUDA.Graph, TF32: c.CUDA.AllowTF32}
}

// OpenDevice opens the device that a configuration names. For auto it measures this configuration's own step on each
// usable device and takes the faster one; where only one is usable there is nothing to measure. The choice is nil where
// the configuration names a device.
func OpenDevice(c configs.Config, set *data.Set) (device.Device, *runs.DeviceChoice, error) {
	if c.Device != "auto" {
		d, err := OpenNamed(c.Device, c)
		return d, nil, err
	}
	return chooseDevice(c, set, []string{"cpu", "cuda"}, func(name string) (device.Device, error) {
		return OpenNamed(name, c)
	})
}

// openDevice opens the run's device. A run that is resumed stays on its own, so that it ends as if it had never stopped.
func (s *Session) openDevice() (err error) {
	if s.cfg.Device == "auto" && s.opts.Resume != "" {
		if rec, err := runs.Open(s.opts.Resume); err == nil && rec.Environment.Device != "" {
			name := rec.Environment.Device
			if s.dev, err = OpenNamed(name, s.cfg); err == nil {
				s.choice = &runs.DeviceChoice{Device: name, Reason: "resumed"}
				return nil
			}
			s.doubt("device", fmt.Sprintf("the run was on %s, which cannot be used now: %v", name, err))
		}
	}
	s.dev, s.choice, err = OpenDevice(s.cfg, s.set)
	return err
}

// chooser looks for the fastest device.
type chooser struct {
	cfg    configs.Config
	set    *data.Set
	choice runs.DeviceChoice
	usable []candidate
	first  error // why the first device that is not usable is not
}

// candidate is a device that can be opened.
type candidate struct {
	name string
	dev  device.Device
	ms   float64 // of one step
}

// chooseDevice opens the devices of a list and keeps the one with the fastest step. One that cannot be opened or cannot run
// the step is not usable. Where none is, the error is that of the first.
func chooseDevice(c configs.Config, set *data.Set, names []string, open func(string) (device.Device, error)) (device.Device, *runs.DeviceChoice, error) {
	start := time.Now()
	k := &chooser{cfg: c, set: set, choice: runs.DeviceChoice{Reason: "only_usable"}}
	for _, name := range names {
		d, err := open(name)
		if err != nil {
			k.refuse(name, err)
			continue
		}
		k.usable = append(k.usable, candidate{name: name, dev: d})
	}
	if len(k.usable) > 1 {
		k.probe()
	}
	if len(k.usable) == 0 {
		return nil, nil, k.first
	}
	best := k.usable[0]
	for _, other := range k.usable[1:] {
		k.choice.Reason = "faster"
		if other.ms < best.ms {
			best, other = other, best
		}
		if err := other.dev.Close(); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("device %s: %w", other.name, err), best.dev.Close())
		}
	}
	k.choice.Device, k.choice.Seconds = best.name, time.Since(start).Seconds()
	return best.dev, &k.choice, nil
}

// refuse notes why a device is not usable.
func (k *chooser) refuse(name string, err error) {
	if k.first == nil {
		k.first = err
	}
	var d *devices.Error
	if errors.As(err, &d) {
		err = d.Err // the name is there already
	}
	k.choice.NotUsable = append(k.choice.NotUsable, fmt.Sprintf("%s: %v", name, err))
}

// probe times a step on each device and drops those that cannot run it.
func (k *chooser) probe() {
	opened := k.usable
	k.usable = nil
	for _, c := range opened {
		ms, err := probeStep(k.cfg, k.set, c.dev)
		if err != nil {
			k.refuse(c.name, errors.Join(err, c.dev.Close()))
			continue
		}
		c.ms = ms
		k.usable = append(k.usable, c)
		if c.name == "cpu" {
			k.choice.CPUMSPerStep = &ms
		} else {
			k.choice.CUDAMSPerStep = &ms
		}
	}
}

// probeStep is the time of a training step on a device in milliseconds, after warm-up.
func probeStep(c configs.Config, set *data.Set, d device.Device) (ms float64, err error) {
	t, err := New(c, set, d, Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	s, err := t.Stepper()
	if err != nil {
		return 0, err
	}
	if _, err := s.time(probeTime / 2); err != nil {
		return 0, err
	}
	return s.time(probeTime)
}

// time runs steps for at least a while and gives the time of one in milliseconds. Rewinding is not counted.
func (s *Stepper) time(while time.Duration) (ms float64, err error) {
	var total time.Duration
	steps := 0
	for n := 1; total < while; n *= 2 {
		if s.Left() == 0 {
			if err := s.Rewind(); err != nil {
				return 0, err
			}
		}
		n = min(n, s.Left())
		start := time.Now()
		if err := s.Run(context.Background(), n); err != nil {
			return 0, err
		}
		total += time.Since(start)
		steps += n
	}
	return total.Seconds() * 1e3 / float64(steps), nil
}
