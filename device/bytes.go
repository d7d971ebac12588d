package device

import (
	"fmt"
	"unsafe"
)

// element is a type that store values are made of.
type element interface {
	~float32 | ~float64 | ~uint16 | ~uint8 | ~int32
}

// Bytes views a slice as its bytes.
func Bytes[E element](s []E) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(E))))
}

// View views bytes as a slice; they must be aligned for E.
func View[E element](b []byte) []E {
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(E))))
}

// Read copies a value of n elements out of the store.
func Read[E element](s Store, name string, n int) ([]E, error) {
	r := make([]E, n)
	if err := s.Read(name, Bytes(r)); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return r, nil
}

// Write copies a value into the store.
func Write[E element](s Store, name string, v []E) error {
	if err := s.Write(name, Bytes(v)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
