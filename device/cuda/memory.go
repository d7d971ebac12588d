//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"halfstep/device"
	"halfstep/device/cuda/driver"
	"halfstep/program"
)

// meter counts the bytes of all stores and arenas; reserved is what the driver's granularity makes of them.
type meter struct {
	mu                        sync.Mutex
	allocated, reserved, peak int64
}

// granularity is what the driver rounds an allocation to.
const granularity = 512

func (m *meter) add(n, sign int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.allocated += sign * n
	m.reserved += sign * ((n + granularity - 1) &^ (granularity - 1))
	m.peak = max(m.peak, m.allocated)
}

func (m *meter) read() (allocated, reserved, peak int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.allocated, m.reserved, m.peak
}

func (m *meter) resetPeak() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peak = m.allocated
}

// NoMemoryError is a plan that does not fit in the device's free memory. It is found before anything is allocated.
type NoMemoryError struct{ Need, Free, Total int64 }

func (e *NoMemoryError) Error() string {
	return fmt.Sprintf("cuda: the plan needs %d bytes of device memory, %d of %d are free", e.Need, e.Free, e.Total)
}

// wantMemory fails when so many bytes are not free. It runs on the device's thread.
func wantMemory(bytes int64) error {
	free, total, err := driver.MemInfo()
	if err == nil && bytes > free {
		return &NoMemoryError{bytes, free, total}
	}
	return err
}

// alloc allocates on the device's thread. The program may hold memory of no bytes; the driver has none.
func (d *Device) alloc(bytes int64) (driver.Ptr, error) {
	if bytes == 0 {
		return 0, nil
	}
	p, err := driver.Alloc(bytes)
	if err == nil {
		d.meter.add(bytes, 1)
	}
	return p, err
}

func (d *Device) free(p driver.Ptr, bytes int64) error {
	if p == 0 {
		return nil
	}
	d.meter.add(bytes, -1)
	return driver.Free(p)
}

type entry struct {
	shape []int
	dtype program.DType
	ptr   driver.Ptr
	bytes int64
}

type store struct {
	d       *Device
	mu      sync.Mutex
	entries map[string]*entry
}

// NewStore implements device.Device.
func (d *Device) NewStore(persistent []*program.Value) (device.Store, error) {
	s := &store{d: d, entries: map[string]*entry{}}
	if err := s.Add(persistent); err != nil {
		return nil, err
	}
	return s, nil
}

// Add implements device.Store.
func (s *store) Add(persistent []*program.Value) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fresh []*program.Value
	var need int64
	for _, v := range persistent {
		if e := s.entries[v.Name]; e == nil {
			fresh = append(fresh, v)
			need += v.Bytes
		} else if e.dtype != v.DType || !slices.Equal(e.shape, v.Shape) {
			return fmt.Errorf("cuda: store: %s is %s%v, asked for as %s%v", v.Name, e.dtype, e.shape, v.DType, v.Shape)
		}
	}
	return s.d.owner.do(func() error {
		if err := wantMemory(need); err != nil {
			return err
		}
		for _, v := range fresh {
			if err := s.allocate(v); err != nil {
				return fmt.Errorf("cuda: store: %s: %w", v.Name, err)
			}
		}
		if err := s.d.stream.Synchronize(); err != nil {
			return fmt.Errorf("cuda: store: %w", err)
		}
		return nil
	})
}

// allocate makes room for a value, zeroed.
func (s *store) allocate(v *program.Value) error {
	p, err := s.d.alloc(v.Bytes)
	if err != nil {
		return err
	}
	s.entries[v.Name] = &entry{shape: slices.Clone(v.Shape), dtype: v.DType, ptr: p, bytes: v.Bytes}
	if p == 0 {
		return nil
	}
	return s.d.stream.Zero(p, v.Bytes)
}

func (s *store) find(name string, n int) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil {
		return nil, fmt.Errorf("cuda: store: no value %s", name)
	}
	if e.bytes != int64(n) {
		return nil, fmt.Errorf("cuda: store: %s has %d bytes, not %d", name, e.bytes, n)
	}
	return e, nil
}

// Read implements device.Store.
func (s *store) Read(name string, dst []byte) error { return s.copy(name, dst, s.d.download) }

// Write implements device.Store.
func (s *store) Write(name string, src []byte) error { return s.copy(name, src, s.d.upload) }

func (s *store) copy(name string, b []byte, f func(p driver.Ptr, b []byte) error) error {
	e, err := s.find(name, len(b))
	if err != nil || len(b) == 0 {
		return err
	}
	if err := s.d.owner.do(func() error { return f(e.ptr, b) }); err != nil {
		return fmt.Errorf("cuda: store: %s: %w", name, err)
	}
	return nil
}

// upload copies to the device and waits, on its thread.
func (d *Device) upload(p driver.Ptr, b []byte) error {
	if len(b) <= len(d.pinned) {
		n := copy(d.pinned, b)
		b = d.pinned[:n]
	}
	return d.transfer(b, func(host unsafe.Pointer) error { return d.stream.Upload(p, host, int64(len(b))) })
}

// download copies from the device and waits, on its thread.
func (d *Device) download(p driver.Ptr, b []byte) error {
	host := b
	if len(b) <= len(d.pinned) {
		host = d.pinned[:len(b)]
	}
	err := d.transfer(host, func(q unsafe.Pointer) error { return d.stream.Download(q, p, int64(len(b))) })
	if err == nil && len(b) <= len(d.pinned) {
		copy(b, host)
	}
	return err
}

// transfer keeps host memory in place until a queued copy is done.
func (d *Device) transfer(host []byte, queue func(unsafe.Pointer) error) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	p := unsafe.SliceData(host)
	pin.Pin(p)
	if err := queue(unsafe.Pointer(p)); err != nil {
		return err
	}
	return d.stream.Synchronize()
}

// Close implements device.Store.
func (s *store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.entries
	s.entries = nil
	return s.d.owner.do(func() error {
		for name, e := range entries {
			if err := s.d.free(e.ptr, e.bytes); err != nil {
				return fmt.Errorf("cuda: store: %s: %w", name, err)
			}
		}
		return nil
	})
}

// arena is scratch memory. The programs compiled for it end with it, and what they own is freed.
type arena struct {
	d      *Device
	ptr    driver.Ptr
	bytes  int64
	tables []driver.Ptr
	graphs []driver.Graph
}

// NewArena implements device.Device. An arena larger than the free memory is a *NoMemoryError.
func (d *Device) NewArena(bytes int64) (device.Arena, error) {
	a := &arena{d: d, bytes: bytes}
	err := d.owner.do(func() (err error) {
		if err = wantMemory(bytes); err != nil {
			return err
		}
		if a.ptr, err = d.alloc(bytes); err != nil {
			return fmt.Errorf("cuda: arena: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Size implements device.Arena.
func (a *arena) Size() int64 { return a.bytes }

// Close implements device.Arena.
func (a *arena) Close() error {
	if err := a.d.owner.do(a.close); err != nil {
		return fmt.Errorf("cuda: arena: %w", err)
	}
	return nil
}

// close runs on the device's thread.
func (a *arena) close() error {
	var errs []error
	for _, g := range a.graphs {
		errs = append(errs, g.Close())
	}
	for _, p := range a.tables {
		errs = append(errs, driver.Free(p))
	}
	errs = append(errs, a.d.free(a.ptr, a.bytes))
	a.ptr, a.tables, a.graphs = 0, nil, nil
	return errors.Join(errs...)
}

var (
	_ device.Store = (*store)(nil)
	_ device.Arena = (*arena)(nil)
)
