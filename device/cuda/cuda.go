//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"halfstep/device"
	"halfstep/device/cuda/driver"
	"halfstep/program"
)

// Options choose how a Device runs. The zero value uses the first GPU, captured graphs and full float32.
type Options struct {
	Ordinal int
	NoGraph bool // launch kernel by kernel, for comparison
	TF32    bool // multiply float32 matrices on tensor cores with 10 bits of fraction, where the GPU can (8.0 and later)
}

// Device is an NVIDIA GPU.
type Device struct {
	opts    Options
	owner   *owner
	gpu     driver.Device
	info    driver.Info
	stream  driver.Stream
	kernels *kernels
	pinned  []byte // staging for small copies
	meter   meter

	closing sync.Once
	closed  error
}

// pinnedBytes is enough for counters, metrics and a learning-rate table.
const pinnedBytes = 64 << 10

// Open finds the GPU. Without a driver, a GPU, or a new enough one of each it fails and says which.
func Open(o Options) (*Device, error) {
	if err := driver.Open(); err != nil {
		return nil, err
	}
	d := &Device{opts: o, owner: newOwner()}
	if err := d.owner.do(d.start); err != nil {
		d.owner.stop()
		return nil, fmt.Errorf("cuda: %w", err)
	}
	return d, nil
}

// minCapability is Turing, the oldest target of the PTX.
const minCapability = 75

// start runs on the device's thread.
func (d *Device) start() (err error) {
	if d.gpu, err = driver.Get(d.opts.Ordinal); err != nil {
		return err
	}
	if d.info, err = d.gpu.Info(); err != nil {
		return err
	}
	if d.capability() < minCapability {
		return fmt.Errorf("%s has compute capability %d.%d, the kernels need 7.5 or newer", d.info.Name, d.info.Major, d.info.Minor)
	}
	if err = d.gpu.Use(); err != nil {
		return err
	}
	if d.stream, err = driver.NewStream(); err != nil {
		return errors.Join(err, d.gpu.Release())
	}
	if d.pinned, err = driver.AllocPinned(pinnedBytes); err != nil {
		return errors.Join(err, d.gpu.Release())
	}
	d.kernels = newKernels(d.capability())
	return nil
}

// capability is the compute capability times ten: 90 is 9.0.
func (d *Device) capability() int { return 10*d.info.Major + d.info.Minor }

// Properties implements device.Device.
func (d *Device) Properties() device.Properties {
	return device.Properties{
		Kind: "cuda", Name: d.info.Name, ISA: fmt.Sprintf("sm_%d", d.capability()), Cores: d.info.Multiprocessors, Threads: 1,
		Memory: d.info.Memory,
	}
}

// Fusions implements device.Device.
func (d *Device) Fusions() []program.Rule {
	return []program.Rule{
		program.FuseConvReLU, program.FuseConvReLUPool, program.FuseConvBackward,
		program.FuseLinearReLU, program.FuseLinearGrads,
	}
}

// Memory implements device.Device. Free and Total are the driver's figures, 0 when it does not answer.
func (d *Device) Memory() device.Memory {
	var m device.Memory
	err := d.owner.do(func() (err error) {
		m.Free, m.Total, err = driver.MemInfo()
		return err
	})
	if err != nil {
		m.Free, m.Total = 0, 0
	}
	m.Allocated, m.Reserved, m.Peak = d.meter.read()
	return m
}

// ResetPeak implements device.Device.
func (d *Device) ResetPeak() { d.meter.resetPeak() }

// Close implements device.Device. Stores and arenas must be closed before. It may be called again.
func (d *Device) Close() error {
	d.closing.Do(func() {
		d.closed = d.owner.do(d.shutDown)
		d.owner.stop()
	})
	return d.closed
}

// shutDown gives everything back, on the device's thread. After a failed kernel the driver refuses; the context's memory
// then goes with its last release.
func (d *Device) shutDown() error {
	var errs []error
	errs = append(errs, d.kernels.unload(), driver.FreePinned(d.pinned), d.stream.Close(), d.gpu.Release())
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("cuda: close: %w", err) // the rest says the same
		}
	}
	return nil
}

var _ device.Device = (*Device)(nil)
