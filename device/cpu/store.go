package cpu

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"halfstep/device"
	"halfstep/program"
)

// cacheLine is the alignment of every buffer: a cache line, and a full AVX-512 vector.
const cacheLine = 64

// hugePage is the size of a large page; buffers of that size and more start on one.
const hugePage = 2 << 20

// alignedBytes is a zeroed buffer whose first byte starts a cache line, or a large page where the buffer fills one.
func alignedBytes(n int64) []byte {
	align := int64(cacheLine)
	if n >= hugePage {
		align = hugePage
	}
	b := make([]byte, n+align)
	skip := -int64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (align - 1)
	b = b[skip : skip+n : skip+n]
	if n >= hugePage {
		adviseHuge(b[:n&^(hugePage-1)])
	}
	return b
}

// meter counts the bytes of all stores and arenas.
type meter struct {
	mu              sync.Mutex
	allocated, peak int64
}

func (m *meter) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.allocated += n
	m.peak = max(m.peak, m.allocated)
}

type entry struct {
	shape []int
	dtype program.DType
	bytes []byte
}

type store struct {
	m       *meter
	entries map[string]*entry
}

// Add implements device.Store.
func (s *store) Add(persistent []*program.Value) error {
	for _, v := range persistent {
		if e := s.entries[v.Name]; e != nil {
			if e.dtype != v.DType || !slices.Equal(e.shape, v.Shape) {
				return fmt.Errorf("cpu: store: %s is %s%v, asked for as %s%v", v.Name, e.dtype, e.shape, v.DType, v.Shape)
			}
			continue
		}
		s.entries[v.Name] = &entry{shape: slices.Clone(v.Shape), dtype: v.DType, bytes: alignedBytes(v.Bytes)}
		s.m.add(v.Bytes)
	}
	return nil
}

func (s *store) find(name string, n int) (*entry, error) {
	e := s.entries[name]
	if e == nil {
		return nil, fmt.Errorf("cpu: store: no value %s", name)
	}
	if len(e.bytes) != n {
		return nil, fmt.Errorf("cpu: store: %s has %d bytes, not %d", name, len(e.bytes), n)
	}
	return e, nil
}

// Read implements device.Store.
func (s *store) Read(name string, dst []byte) error {
	e, err := s.find(name, len(dst))
	if err == nil {
		copy(dst, e.bytes)
	}
	return err
}

// Write implements device.Store.
func (s *store) Write(name string, src []byte) error {
	e, err := s.find(name, len(src))
	if err == nil {
		copy(e.bytes, src)
	}
	return err
}

// Close implements device.Store.
func (s *store) Close() error {
	for _, e := range s.entries {
		s.m.add(-int64(len(e.bytes)))
	}
	s.entries = nil
	return nil
}

type arena struct {
	m     *meter
	bytes []byte
}

// Size implements device.Arena.
func (a *arena) Size() int64 { return int64(len(a.bytes)) }

// Close implements device.Arena.
func (a *arena) Close() error {
	a.m.add(-a.Size())
	a.bytes = nil
	return nil
}

var (
	_ device.Store = (*store)(nil)
	_ device.Arena = (*arena)(nil)
)
