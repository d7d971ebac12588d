package runs

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// tempSuffix ends the name of a file that is not yet whole.
const tempSuffix = ".tmp"

// writeAtomic makes a file appear whole or not at all, also when the process is killed or the disk fills up: it writes a
// temporary file beside it, flushes it to the disk, renames it over path and flushes the folder. Whatever was at path
// stays as it was until the rename.
func writeAtomic(path string, write func(w io.Writer) error) (err error) {
	f, err := os.OpenFile(path+"."+shortID()+tempSuffix, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(f.Close()), os.Remove(f.Name()))
		}
	}()
	// The lock tells removeLeftovers that this file has a living owner. A file system without locks refuses it here and
	// there, and then nothing is removed.
	_ = lock(f)
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if runtime.GOOS == "windows" { // where an open file cannot be renamed
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if err := ignoreClosed(f.Close()); err != nil {
		return fmt.Errorf("closing %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a folder durable, where the system can.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) { // some network file systems
		err = nil
	}
	return errors.Join(err, d.Close())
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// removeLeftovers deletes the temporary files of writers that have died.
func removeLeftovers(dir string) error {
	names, err := filepath.Glob(filepath.Join(globEscape(dir), "*"+tempSuffix))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue // renamed or removed by its owner meanwhile, or not ours to touch
		}
		if lock(f) == nil {
			errs = append(errs, os.Remove(name))
		}
		f.Close()
	}
	return errors.Join(errs...)
}

// globEscape quotes what filepath.Glob takes for a pattern.
func globEscape(path string) string {
	if runtime.GOOS == "windows" { // where a backslash separates folders and nothing can be quoted
		return path
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// shortID is 32 random bits in hexadecimal.
func shortID() string {
	var b [4]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}
