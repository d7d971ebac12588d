package data

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Fetch downloads the four files of a published set into dir ("": the user's cache, where Open finds them), from public
// mirrors one after another, and checks their hashes. Files that are there and right are kept. progress, which may be
// nil, hears one line for each file and each failed try.
//
// A file that no mirror gives is an *Error with what each answered. When ctx ends, the error wraps ctx.Err().
func Fetch(ctx context.Context, name, dir string, progress func(string)) error {
	return (&Fetcher{Progress: progress}).Fetch(ctx, name, dir)
}

// Fetcher is Fetch with other mirrors or patience. The zero value is Fetch's.
type Fetcher struct {
	Mirrors  []string      // URLs ending in / to which the files' names are added; nil: the set's public ones
	Stall    time.Duration // a try ends after so long without a byte; 0: 20 s
	Limit    time.Duration // and after so long in all; 0: 10 min
	Progress func(string)

	files []remote // tests fetch small files
}

// remote is a file as it should arrive.
type remote struct {
	name   string
	sha256 string
	bytes  int64
}

// Fetch is the package's Fetch.
func (f *Fetcher) Fetch(ctx context.Context, name, dir string) error {
	src, ok := lookup(name)
	if !ok {
		return &ConfigError{Key: "data.name", Message: fmt.Sprintf("%q cannot be fetched, want mnist, fashion_mnist or kmnist", name)}
	}
	if src.mirrors == nil {
		return &Error{Step: "fetch", Found: name + " has no mirror", Hint: src.byHand}
	}
	if dir == "" {
		var err error
		if dir, err = CacheDir(name); err != nil {
			return &Error{Step: "fetch", Found: "no folder for the user's cache", Hint: "set data.dir", Err: err}
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &Error{Step: "fetch", Path: dir, Found: "cannot be made", Err: err}
	}
	mirrors, files := f.Mirrors, f.files
	if mirrors == nil {
		mirrors = src.mirrors
	}
	if files == nil {
		files = src.remotes()
	}
	for _, r := range files {
		if err := f.file(ctx, mirrors, r, dir); err != nil {
			return err
		}
	}
	return nil
}

func (s source) remotes() []remote {
	var all []remote
	for p := range parts {
		all = append(all, remote{p.published(), s.sums[p].gz, s.sums[p].bytes})
	}
	return all
}

// file gets one file from the first mirror that gives it right.
func (f *Fetcher) file(ctx context.Context, mirrors []string, r remote, dir string) error {
	path := filepath.Join(dir, r.name)
	if have, err := os.ReadFile(path); err == nil {
		if hexSum(have) == r.sha256 {
			f.say("%s: kept, SHA-256 as published", path)
			return nil
		}
		f.say("%s: SHA-256 %s, want %s: fetched again", path, hexSum(have), r.sha256)
	}
	var failed string
	for _, mirror := range mirrors {
		err := f.try(ctx, mirror+r.name, r, path)
		if err == nil {
			f.say("%s: %d bytes from %s, SHA-256 as published", path, r.bytes, mirror)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("data: fetch: %s: %w", r.name, ctx.Err())
		}
		// A folder that takes no files will take none from the next mirror either.
		if local := (*localError)(nil); errors.As(err, &local) {
			return &Error{Step: "fetch", Path: path, Found: "cannot be written", Err: local.err}
		}
		f.say("%s%s: %v", mirror, r.name, err)
		failed += fmt.Sprintf("\n  %s: %v", mirror, err)
	}
	return &Error{Step: "fetch", Path: path, Found: "no mirror gave the file:" + failed}
}

// localError is a failure on this side: the next mirror would not help.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }

// try gets one file from one address: into a temporary file, which takes the name once its size and hash are right.
func (f *Fetcher) try(ctx context.Context, url string, r remote, path string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall, limit := orDefault(f.Stall, 20*time.Second), orDefault(f.Limit, 10*time.Minute)
	watch := time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing came for %v", stall)) })
	defer watch.Stop()
	whole := time.AfterFunc(limit, func() { cancel(fmt.Errorf("not done after %v", limit)) })
	defer whole.Stop()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "identity") // else the client would unpack what is stored as gzip
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return causeOr(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %s", resp.Status)
	}
	body := readerFunc(func(p []byte) (int, error) {
		n, err := resp.Body.Read(p)
		if n > 0 {
			watch.Reset(stall)
		}
		return n, err
	})
	return writeVerified(path, r, body, func(err error) error { return causeOr(ctx, err) })
}

// writeVerified copies body to path if it is what r says. cause explains a failed read.
func writeVerified(path string, r remote, body io.Reader, cause func(error) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+r.name+".*")
	if err != nil {
		return &localError{err}
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	in := &sniffer{r: io.LimitReader(body, r.bytes+1)}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(hash, localWriter{tmp}), in)
	switch local := (*localError)(nil); {
	case errors.As(err, &local):
		return err
	case in.failed != nil && !errors.Is(in.failed, io.ErrUnexpectedEOF):
		return cause(in.failed)
	case isHTML(in.head):
		return errors.New("an HTML page instead of the file")
	case n > r.bytes:
		return fmt.Errorf("more than the file's %d bytes", r.bytes)
	case n < r.bytes:
		return fmt.Errorf("cut short: %d bytes of %d", n, r.bytes)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != r.sha256 {
		return fmt.Errorf("SHA-256 %s, want %s", got, r.sha256)
	}
	if err := keep(tmp, path); err != nil {
		return &localError{err}
	}
	return nil
}

// keep gives a written temporary file its name, so that the name never stands for half a file, even after a crash.
func keep(tmp *os.File, path string) error {
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	// Not every system can sync a folder, and the file is whole either way.
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

// sniffer keeps the first bytes that pass, and the error that ended them.
type sniffer struct {
	r      io.Reader
	head   []byte
	failed error
}

func (s *sniffer) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if room := 512 - len(s.head); room > 0 {
		s.head = append(s.head, p[:min(n, room)]...)
	}
	if err != nil && err != io.EOF {
		s.failed = err
	}
	return n, err
}

// localWriter marks write errors as ours.
type localWriter struct{ w io.Writer }

func (l localWriter) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	if err != nil {
		err = &localError{err}
	}
	return n, err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// causeOr says why ctx was ended, if it was: "context canceled" would tell nobody.
func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

func (f *Fetcher) say(format string, args ...any) {
	if f.Progress != nil {
		f.Progress(fmt.Sprintf(format, args...))
	}
}
