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

// writeAtomic makes a file appear whole or not at all, also when the process is killed or the disk fills up. Whatever was at
// path stays as it was until then.
func writeAtomic(path string, write func(w io.Writer) error) error {
	s, err := Stage(path, write)
	if err != nil {
		return err
	}
	return s.Commit()
}

// Staged is a whole file on the disk, under a temporary name beside the one that it is for. It is to be committed or dropped.
type Staged struct {
	path string
	f    *os.File
}

// Stage writes the temporary file for path and flushes it to the disk. Where that fails nothing is left behind.
func Stage(path string, write func(w io.Writer) error) (_ *Staged, err error) {
	f, err := os.OpenFile(path+"."+shortID()+tempSuffix, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	s := &Staged{path, f}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Drop())
		}
	}()
	// The lock tells removeLeftovers that this file has a living owner. A file system without locks refuses it here and
	// there, and then nothing is removed.
	_ = lock(f)
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return nil, err
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return s, f.Sync()
}

// Name is the temporary file's path.
func (s *Staged) Name() string { return s.f.Name() }

// Commit renames the file over its path and flushes the folder. Where that fails the temporary file is removed.
func (s *Staged) Commit() error {
	if runtime.GOOS == "windows" { // where an open file cannot be renamed
		if err := s.f.Close(); err != nil {
			return errors.Join(err, s.Drop())
		}
	}
	if err := os.Rename(s.Name(), s.path); err != nil {
		return errors.Join(err, s.Drop())
	}
	if err := ignoreClosed(s.f.Close()); err != nil {
		return fmt.Errorf("closing %s: %w", s.path, err)
	}
	return syncDir(filepath.Dir(s.path))
}

// Drop removes the temporary file.
func (s *Staged) Drop() error { return errors.Join(ignoreClosed(s.f.Close()), os.Remove(s.Name())) }

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

// removeLeftovers deletes the temporary files of writers that have died. Files whose names only end alike are not theirs.
func removeLeftovers(dir string) error {
	names, err := filepath.Glob(filepath.Join(globEscape(dir), "*."+strings.Repeat("[0-9a-f]", shortIDLen)+tempSuffix))
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

// shortIDLen is the length of a shortID.
const shortIDLen = 8

// shortID is 32 random bits in hexadecimal.
func shortID() string {
	var b [shortIDLen / 2]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}
