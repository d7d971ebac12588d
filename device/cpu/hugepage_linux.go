package cpu

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages under a buffer that has not been touched yet: a strided walk over a large tensor would
// otherwise miss the translation cache at every step. Without them everything works, slower.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
