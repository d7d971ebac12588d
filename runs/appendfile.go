package runs

import (
	"errors"
	"io"
	"os"
	"sync"
)

// errorKeeper remembers the first write error of a run. Training goes on without its log rather than stop for it.
type errorKeeper struct {
	mu    sync.Mutex
	first error
}

func (k *errorKeeper) keep(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.first == nil {
		k.first = err
	}
}

func (k *errorKeeper) err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.first
}

// appendFile is a file of lines that grows. A line that was written only in part, because the disk was full or the
// process was killed, is ended before the next one, so that no other line is lost with it.
type appendFile struct {
	mu   sync.Mutex
	f    *os.File
	torn bool // the file ends within a line
}

// openAppend opens path for appending; flag may add os.O_EXCL.
func openAppend(path string, flag int) (*appendFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND|flag, 0o644)
	if err != nil {
		return nil, err
	}
	torn, err := endsWithinLine(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &appendFile{f: f, torn: torn}, nil
}

func endsWithinLine(f *os.File) (bool, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], size-1)
	return last[0] != '\n', err
}

// Write appends one line, newline included.
func (a *appendFile) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.torn {
		if _, err := a.f.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		a.torn = false
	}
	n, err := a.f.Write(line)
	a.torn = err != nil && n > 0
	return n, err
}

func (a *appendFile) Sync() error { return a.f.Sync() }

func (a *appendFile) Close() error { return a.f.Close() }
