//go:build linux && gpu && (amd64 || arm64)

package driver

import (
	"unsafe"

	"gorgonia.org/cu"
)

// Device is one GPU.
type Device struct{ d cu.Device }

// Get gives the GPU of an ordinal, from 0.
func Get(ordinal int) (Device, error) {
	d, err := cu.GetDevice(ordinal)
	return Device{d}, wrap(err, "find device %d", ordinal)
}

// Info says what a GPU is.
type Info struct {
	Name            string
	Major, Minor    int // compute capability
	Multiprocessors int
	Memory          int64 // bytes
}

// Info asks the driver.
func (d Device) Info() (Info, error) {
	var i Info
	var err error
	if i.Name, err = d.d.Name(); err != nil {
		return i, wrap(err, "read the device's name")
	}
	if i.Major, i.Minor, err = d.d.ComputeCapability(); err != nil {
		return i, wrap(err, "read the compute capability")
	}
	if i.Multiprocessors, err = d.d.Attribute(cu.MultiprocessorCount); err != nil {
		return i, wrap(err, "read the number of multiprocessors")
	}
	i.Memory, err = d.d.TotalMem()
	return i, wrap(err, "read the memory's size")
}

// Use makes the GPU's primary context current on this OS thread.
func (d Device) Use() error {
	ctx, err := d.d.RetainPrimaryCtx()
	if err != nil {
		return wrap(err, "retain the context")
	}
	return wrap(cu.SetCurrentContext(ctx), "make the context current")
}

// Release gives the context back.
func (d Device) Release() error { return wrap(d.d.ReleasePrimaryCtx(), "release the context") }

// Ptr is an address in device memory.
type Ptr = cu.DevicePtr

// Alloc allocates device memory; its content is undefined.
func Alloc(bytes int64) (Ptr, error) {
	p, err := cu.MemAlloc(bytes)
	return p, wrap(err, "allocate %d bytes", bytes)
}

// Free frees device memory.
func Free(p Ptr) error { return wrap(cu.MemFree(p), "free memory") }

// MemInfo is the driver's free and total memory in bytes.
func MemInfo() (free, total int64, err error) {
	free, total, err = cu.MemInfo()
	return free, total, wrap(err, "read free memory")
}

// Stream is a queue of work. It does not wait for the default stream.
type Stream struct{ s cu.Stream }

// NewStream makes a stream.
func NewStream() (Stream, error) {
	s, err := cu.MakeStream(cu.NonBlocking)
	return Stream{s}, wrap(err, "make a stream")
}

// Close destroys the stream.
func (s *Stream) Close() error { return wrap(s.s.Destroy(), "destroy a stream") }

// Synchronize waits until all work of the stream is done.
func (s Stream) Synchronize() error { return wrap(s.s.Synchronize(), "wait for the device") }

// Upload queues a copy to the device. src must stay until the stream has been synchronized.
func (s Stream) Upload(dst Ptr, src unsafe.Pointer, bytes int64) error {
	return wrap(cu.MemcpyHtoDAsync(dst, src, bytes, s.s), "copy %d bytes to the device", bytes)
}

// Download queues a copy from the device. dst must stay until the stream has been synchronized.
func (s Stream) Download(dst unsafe.Pointer, src Ptr, bytes int64) error {
	return wrap(cu.MemcpyDtoHAsync(dst, src, bytes, s.s), "copy %d bytes from the device", bytes)
}

// Zero queues the clearing of memory.
func (s Stream) Zero(p Ptr, bytes int64) error {
	return wrap(cu.MemsetD8Async(p, 0, bytes, s.s), "clear %d bytes", bytes)
}

// Event marks a point in a stream.
type Event struct{ e cu.Event }

// NewEvent makes an event.
func NewEvent() (Event, error) {
	e, err := cu.MakeEvent(cu.DefaultEvent)
	return Event{e}, wrap(err, "make an event")
}

// Close destroys the event.
func (e *Event) Close() error { return wrap(cu.DestroyEvent(&e.e), "destroy an event") }

// Record queues the event.
func (e Event) Record(s Stream) error { return wrap(e.e.Record(s.s), "record an event") }

// Since is the time from an earlier event to this one, in nanoseconds. Both must have passed.
func (e Event) Since(start Event) (int64, error) {
	ms, err := start.e.Elapsed(e.e)
	return int64(ms * 1e6), wrap(err, "read the time between events")
}
