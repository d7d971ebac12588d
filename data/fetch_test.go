package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/"
}

func answer(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b) }
}

// One mirror of each bad kind, then a good one: each is passed over with its reason, and the file arrives whole.
func TestFetchPassesOverBadMirrors(t *testing.T) {
	file := gz(t, imagesIDX(50, 28, 28, 0))
	wrong := bytes.Clone(file)
	wrong[len(wrong)/2] ^= 1
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	stall := func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(file[:20])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	drip := func(w http.ResponseWriter, r *http.Request) {
		for range file {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
			_, _ = w.Write([]byte{0x1f})
			w.(http.Flusher).Flush()
		}
	}
	drop := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(file)))
		_, _ = w.Write(file[:30])
	}
	// A server may mark what is stored compressed as compressed in transit; the stored bytes are what is wanted.
	encoded := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(file)
	}
	for _, c := range []struct {
		what   string
		h      http.HandlerFunc
		reason string // "": this mirror is good
	}{
		{"403", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, "HTTP status 403 Forbidden"},
		{"hang", hang, "nothing came for 700ms"},
		{"stall", stall, "nothing came for 700ms"},
		{"drip", drip, "not done after 700ms"},
		{"page", answer([]byte(" <html>please log in</html>")), "an HTML page instead of the file"},
		{"connection dropped", drop, fmt.Sprintf("cut short: 30 bytes of %d", len(file))},
		{"truncated", answer(file[:40]), fmt.Sprintf("cut short: 40 bytes of %d", len(file))},
		{"too long", answer(append(bytes.Clone(file), 0, 0)), fmt.Sprintf("more than the file's %d bytes", len(file))},
		{"wrong hash", answer(wrong), fmt.Sprintf("SHA-256 %s, want %s", hexSum(wrong), hexSum(file))},
		{"encoded", encoded, ""},
		{"good", answer(file), ""},
	} {
		t.Run(strings.ReplaceAll(c.what, " ", "_"), func(t *testing.T) {
			t.Parallel()
			first, second := serve(t, c.h), serve(t, answer(file))
			var said []string
			f := &Fetcher{
				Mirrors: []string{first, second}, Progress: func(s string) { said = append(said, s) },
				files: []remote{{"file.gz", hexSum(file), int64(len(file))}},
			}
			// Only the limit that is meant is short, and long enough for the good mirror on a busy machine.
			switch c.what {
			case "hang", "stall":
				f.Stall = 700 * time.Millisecond
			case "drip":
				f.Limit = 700 * time.Millisecond
			}
			dir := filepath.Join(t.TempDir(), "new", "folder")
			if err := f.Fetch(context.Background(), "mnist", dir); err != nil {
				t.Fatal(err)
			}
			expectOnly(t, dir, "file.gz", file)
			from := second
			if c.reason == "" {
				from = first
			} else if want := first + "file.gz: " + c.reason; len(said) != 2 || said[0] != want {
				t.Errorf("said %q, want %q first", said, want)
			}
			want := fmt.Sprintf("%s: %d bytes from %s, SHA-256 as published", filepath.Join(dir, "file.gz"), len(file), from)
			if said[len(said)-1] != want {
				t.Errorf("said %q, want %q", said[len(said)-1], want)
			}
		})
	}
}

// expectOnly: this file, and no temporary one beside it.
func expectOnly(t *testing.T, dir, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, want the file's %d", len(got), err, len(want))
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%v in the folder, want only %s", entries, name)
	}
}

func TestFetchNoMirrorLeft(t *testing.T) {
	file := gz(t, labelsIDX(1, 2))
	forbidden := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	page := serve(t, answer([]byte("<html>")))
	dir := t.TempDir()
	f := &Fetcher{Mirrors: []string{forbidden, page}, files: []remote{{"file.gz", hexSum(file), int64(len(file))}}}
	err := f.Fetch(context.Background(), "mnist", dir)
	want := "data: fetch: " + filepath.Join(dir, "file.gz") + ": no mirror gave the file:\n  " + forbidden +
		": HTTP status 403 Forbidden\n  " + page + ": an HTML page instead of the file"
	if typed := (*Error)(nil); !errors.As(err, &typed) || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("%v left behind", entries)
	}
}

func TestFetchKeepsRightFilesAndReplacesWrongOnes(t *testing.T) {
	right, other := gz(t, labelsIDX(1, 2)), gz(t, labelsIDX(3))
	asked := 0
	mirror := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked++; _, _ = w.Write(right) })
	dir := writeFiles(t, t.TempDir(), map[string][]byte{"file.gz": right})
	f := &Fetcher{Mirrors: []string{mirror}, files: []remote{{"file.gz", hexSum(right), int64(len(right))}}}
	if err := f.Fetch(context.Background(), "mnist", dir); err != nil || asked != 0 {
		t.Errorf("%v, asked the mirror %d times for a file that was there", err, asked)
	}
	writeFiles(t, dir, map[string][]byte{"file.gz": other})
	if err := f.Fetch(context.Background(), "mnist", dir); err != nil || asked != 1 {
		t.Errorf("%v, asked the mirror %d times for a damaged file", err, asked)
	}
	expectOnly(t, dir, "file.gz", right)
}

func TestFetchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	mirror := serve(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	dir := t.TempDir()
	f := &Fetcher{Mirrors: []string{mirror, mirror}, files: []remote{{"file.gz", "", 1}}}
	err := f.Fetch(ctx, "mnist", dir)
	if typed := (*Error)(nil); !errors.Is(err, context.Canceled) || errors.As(err, &typed) {
		t.Errorf("%T %v, want a cancelled context, not a data error", err, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("%v left behind", entries)
	}
}

// What is fetched into the cache is what Open finds.
func TestFetchThenOpen(t *testing.T) {
	emptyHome(t)
	files := smallGz(t)
	mirror := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(files[strings.TrimPrefix(r.URL.Path, "/")])
	})
	f := &Fetcher{Mirrors: []string{mirror}}
	for p := range parts {
		b := files[p.published()]
		f.files = append(f.files, remote{p.published(), hexSum(b), int64(len(b))})
	}
	if err := f.Fetch(context.Background(), "fashion_mnist", ""); err != nil {
		t.Fatal(err)
	}
	if set := open(t, "fashion_mnist", ""); set.Train.N != 4 {
		t.Errorf("%d training images", set.Train.N)
	}
}

func TestFetchWithoutMirrors(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"emnist", "data: fetch: emnist has no mirror (unpack https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip and name its folder in data.dir)"},
		{"idx", "data: fetch: idx has no mirror (name the folder of the four IDX files in data.dir)"},
		{"random", `data.name: "random" cannot be fetched, want mnist, fashion_mnist or kmnist`},
	} {
		if err := Fetch(context.Background(), c.name, t.TempDir(), nil); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Every published set has four hashes of the right length, sizes and a mirror that ends in a slash.
func TestSourcesAreComplete(t *testing.T) {
	for _, s := range []source{mnist(), fashionMNIST(), kmnist()} {
		for p, r := range s.remotes() {
			if len(r.sha256) != 64 || r.bytes == 0 || r.name == "" {
				t.Errorf("%s: %v: %+v", s.name, part(p), r)
			}
		}
		for _, m := range s.mirrors {
			if !strings.HasPrefix(m, "http") || !strings.HasSuffix(m, "/") {
				t.Errorf("%s: mirror %s", s.name, m)
			}
		}
	}
}
