//go:build unix

package kernel

import (
	"syscall"
	"testing"
)

// fenced is an array of n bytes right before a page that must not be touched.
func fenced(t testing.TB, n int) ([]byte, func()) {
	page := syscall.Getpagesize()
	size := (n + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err == nil {
		err = syscall.Mprotect(m[size:], syscall.PROT_NONE)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m[size-n : size], func() { _ = syscall.Munmap(m) }
}
