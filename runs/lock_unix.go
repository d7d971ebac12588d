//go:build unix && !solaris && !aix

package runs

import (
	"os"
	"syscall"
)

// lock takes the file for this process without waiting. The system lets go of it when the file is closed, however the
// process ends.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
