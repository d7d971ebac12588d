package kernel

import "unsafe"

// Prefetch asks for the cache lines of n bytes at p, n > 0, without waiting for them. It changes nothing and may be given
// any address; elsewhere it does nothing.
//
//go:noescape
func Prefetch(p unsafe.Pointer, n int)
