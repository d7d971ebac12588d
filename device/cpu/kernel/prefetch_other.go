//go:build !amd64

package kernel

import "unsafe"

// Prefetch does nothing here.
func Prefetch(unsafe.Pointer, int) {}
