package runs

import (
	"bytes"
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

// appendFile is a file of lines that grows. A line that was written only in part, because the disk was full or the process
// was killed, is taken back: what is in the file are whole lines.
type appendFile struct {
	mu   sync.Mutex
	f    *os.File
	torn int64 // bytes after the last whole line
}

// openAppend opens path for appending; flag may add os.O_EXCL. The file stays as it is until something is written.
func openAppend(path string, flag int) (*appendFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND|flag, 0o644)
	if err != nil {
		return nil, err
	}
	torn, err := tornBytes(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &appendFile{f: f, torn: torn}, nil
}

// tornBytes counts the bytes after the last newline.
func tornBytes(f *os.File) (int64, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	block := make([]byte, 4096)
	for end := size; end > 0; {
		b := block[:min(end, int64(len(block)))]
		if _, err := f.ReadAt(b, end-int64(len(b))); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return size - (end - int64(len(b)) + int64(i) + 1), nil
		}
		end -= int64(len(b))
	}
	return size, nil
}

// Write appends one line, newline included, or nothing.
func (a *appendFile) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.mend(); err != nil {
		return 0, err
	}
	n, err := a.f.Write(line)
	if err != nil {
		a.torn = int64(n)
		err = errors.Join(err, a.mend())
	}
	return n, err
}

// mend takes a torn line back. It goes by the file's name, since Windows lets a handle that appends do nothing else.
func (a *appendFile) mend() error {
	if a.torn == 0 {
		return nil
	}
	size, err := a.f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := os.Truncate(a.f.Name(), size-a.torn); err != nil {
		return err
	}
	a.torn = 0
	return nil
}

func (a *appendFile) Sync() error { return a.f.Sync() }

func (a *appendFile) Close() error { return a.f.Close() }
