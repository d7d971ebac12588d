package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"halfstep/configs"
)

// Each damaged file with its exact message. DIR stands for the folder.
func TestDamagedFiles(t *testing.T) {
	html := []byte("<!DOCTYPE html>\n<html><body>403 Forbidden</body></html>")
	images, labels := small()["train-images-idx3-ubyte"], small()["train-labels-idx1-ubyte"]
	badSum := gz(t, labels)
	badSum[len(badSum)-8] ^= 1 // the checksum in gzip's trailer
	huge := slices.Concat(images[:4], bytes.Repeat([]byte{0xff}, 12), images[16:])
	for _, c := range []struct {
		what, name string
		file       []byte
		want       string
	}{
		{
			"labels where images belong", "train-images-idx3-ubyte", labels,
			"data: train-images: DIR/train-images-idx3-ubyte: magic 0x00000801, want 0x00000803 (a labels file)",
		},
		{
			"images where labels belong", "train-labels-idx1-ubyte", images,
			"data: train-labels: DIR/train-labels-idx1-ubyte: magic 0x00000803, want 0x00000801 (an images file)",
		},
		{
			"the same, compressed", "t10k-labels-idx1-ubyte", gz(t, images),
			"data: test-labels: DIR/t10k-labels-idx1-ubyte: magic 0x00000803, want 0x00000801 (an images file)",
		},
		{
			"neither", "train-labels-idx1-ubyte", []byte("some text"),
			"data: train-labels: DIR/train-labels-idx1-ubyte: magic 0x736f6d65, want 0x00000801",
		},
		{
			"empty", "train-images-idx3-ubyte", nil,
			"data: train-images: DIR/train-images-idx3-ubyte: an empty file, want an IDX file (delete it and fetch it again)",
		},
		{
			"nothing, compressed", "train-images-idx3-ubyte", gz(t, nil),
			"data: train-images: DIR/train-images-idx3-ubyte: an empty file, want an IDX file (delete it and fetch it again)",
		},
		{
			"half a header", "train-images-idx3-ubyte", images[:9],
			"data: train-images: DIR/train-images-idx3-ubyte: 9 bytes, want at least the 16 of an IDX header (cut short)",
		},
		{
			"three bytes", "train-labels-idx1-ubyte", labels[:3],
			"data: train-labels: DIR/train-labels-idx1-ubyte: 3 bytes, want at least the 8 of an IDX header (cut short)",
		},
		{
			"cut short", "train-images-idx3-ubyte", images[:70],
			"data: train-images: DIR/train-images-idx3-ubyte: 70 bytes of content, want 76 for 4 images of 3x5 (cut short by 6)",
		},
		{
			"cut short, then compressed", "train-images-idx3-ubyte", gz(t, images[:70]),
			"data: train-images: DIR/train-images-idx3-ubyte: 70 bytes of content, want 76 for 4 images of 3x5 (cut short by 6)",
		},
		{
			"trailing bytes", "train-labels-idx1-ubyte", append(slices.Clone(labels), 0, 0),
			"data: train-labels: DIR/train-labels-idx1-ubyte: 14 bytes of content, want 12 for 4 labels (2 too many at the end)",
		},
		{
			"trailing bytes, compressed", "train-labels-idx1-ubyte", gz(t, append(slices.Clone(labels), 0, 0)),
			"data: train-labels: DIR/train-labels-idx1-ubyte: 14 bytes of content, want 12 for 4 labels (2 too many at the end)",
		},
		{
			"compressed, then cut short", "train-labels-idx1-ubyte", gz(t, labels)[:10],
			"data: train-labels: DIR/train-labels-idx1-ubyte: gzip data cut short after 0 bytes of content, want the whole file",
		},
		{
			"gzip's checksum", "train-labels-idx1-ubyte", badSum,
			"data: train-labels: DIR/train-labels-idx1-ubyte: damaged gzip data after 12 bytes of content: gzip: invalid checksum",
		},
		{
			"bytes after gzip's end", "train-labels-idx1-ubyte", append(gz(t, labels), "0123456789"...),
			"data: train-labels: DIR/train-labels-idx1-ubyte: damaged gzip data after 12 bytes of content: gzip: invalid header",
		},
		{
			"gzip inside gzip", "train-labels-idx1-ubyte", gz(t, gz(t, labels)),
			"data: train-labels: DIR/train-labels-idx1-ubyte: gzip inside gzip, want IDX inside gzip (gunzip it once)",
		},
		{
			"a page", "train-images-idx3-ubyte.gz", html,
			"data: train-images: DIR/train-images-idx3-ubyte.gz: an HTML page, want an IDX file " +
				"(a server's answer saved under this name: delete it and fetch it again)",
		},
		{
			"a page after a byte order mark", "train-images-idx3-ubyte.gz", append([]byte("\xef\xbb\xbf\r\n "), html...),
			"data: train-images: DIR/train-images-idx3-ubyte.gz: an HTML page, want an IDX file " +
				"(a server's answer saved under this name: delete it and fetch it again)",
		},
		{
			"an archive", "train-images-idx3-ubyte.gz", []byte("PK\x03\x04 and so on"),
			"data: train-images: DIR/train-images-idx3-ubyte.gz: a zip archive, want an IDX file (unpack it)",
		},
		{
			"no images", "train-images-idx3-ubyte", imagesIDX(0, 3, 5, 0),
			"data: train-images: DIR/train-images-idx3-ubyte: 0 images of 3x5, want at least one, not empty",
		},
		{
			"images of nothing", "train-images-idx3-ubyte", gz(t, imagesIDX(4, 0, 5, 0)),
			"data: train-images: DIR/train-images-idx3-ubyte: 4 images of 0x5, want at least one, not empty",
		},
		{
			"a header beyond any file", "train-images-idx3-ubyte", huge,
			"data: train-images: DIR/train-images-idx3-ubyte: a header of 4294967295 images of 4294967295x4294967295, " +
				"want what fits in memory (damaged)",
		},
		{
			"the same, compressed", "train-images-idx3-ubyte", gz(t, huge),
			"data: train-images: DIR/train-images-idx3-ubyte: a header of 4294967295 images of 4294967295x4294967295, " +
				"want what fits in memory (damaged)",
		},
		{
			"more labels than a file holds", "train-labels-idx1-ubyte", gz(t, slices.Concat(labels[:4], []byte{0x80, 0, 0, 0}, labels[8:])),
			"data: train-labels: DIR/train-labels-idx1-ubyte: a header of 2147483648 labels, want what fits in memory (damaged)",
		},
		{
			"images too large", "train-images-idx3-ubyte", slices.Concat(images[:4], []byte{0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0}, images[16:]),
			"data: train-images: DIR/train-images-idx3-ubyte: a header of 1 images of 65536x65536, want what fits in memory (damaged)",
		},
		{
			"more labels than images", "train-labels-idx1-ubyte", labelsIDX(1, 2, 3, 4, 5),
			"data: train-labels: DIR/train-labels-idx1-ubyte: 5 labels, want 4, one for each image in train-images-idx3-ubyte",
		},
		{
			"a label out of range", "train-labels-idx1-ubyte", labelsIDX(1, 2, 10, 4),
			"data: train-labels: DIR/train-labels-idx1-ubyte: label 10 of image 2, want 0 to 9",
		},
		{
			"a test label out of range", "t10k-labels-idx1-ubyte", labelsIDX(255, 2),
			"data: test-labels: DIR/t10k-labels-idx1-ubyte: label 255 of image 0, want 0 to 9",
		},
		{
			"higher test images", "t10k-images-idx3-ubyte", imagesIDX(2, 5, 5, 0),
			"data: test-images: DIR/t10k-images-idx3-ubyte: images of 5x5, want 3x5 as in train-images-idx3-ubyte",
		},
		{
			"narrower test images", "t10k-images-idx3-ubyte", imagesIDX(2, 3, 3, 0),
			"data: test-images: DIR/t10k-images-idx3-ubyte: images of 3x3, want 3x5 as in train-images-idx3-ubyte",
		},
	} {
		t.Run(strings.ReplaceAll(c.what, " ", "_"), func(t *testing.T) {
			files := small()
			delete(files, strings.TrimSuffix(c.name, ".gz"))
			files[c.name] = c.file
			dir := writeFiles(t, t.TempDir(), files)
			_, err := Open(configs.Data{Name: "mnist", Dir: dir}, 1)
			if typed := (*Error)(nil); !errors.As(err, &typed) {
				t.Fatalf("%T %v, want an *Error", err, err)
			}
			if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != c.want {
				t.Errorf("got\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// FuzzIDX feeds any bytes as an images and as a labels file, plain and compressed: no panic, no success with a length that
// the header denies, and plain and compressed agree.
func FuzzIDX(f *testing.F) {
	for _, b := range small() {
		f.Add(b)
		f.Add(gz(f, b))
		f.Add(b[:len(b)-1])
	}
	f.Add([]byte("<html>"))
	f.Add(imagesIDX(0, 1, 1, 0))
	f.Add(slices.Concat(imagesIDX(1, 1, 1, 0)[:4], bytes.Repeat([]byte{0xff}, 12)))
	dir := f.TempDir()
	read := func(t *testing.T, p part, name string, b []byte) (idx, error) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		x, _, err := readIDX(p, path, sum{})
		return x, err
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range []part{trainImages, trainLabels} {
			x, err := read(t, p, "plain", b)
			if typed := (*Error)(nil); err != nil && !errors.As(err, &typed) {
				t.Fatalf("%T %v", err, err)
			}
			if err == nil {
				if len(x.body) != x.count*x.rows*x.cols || len(x.body) == 0 {
					t.Fatalf("%d bytes for %d of %dx%d", len(x.body), x.count, x.rows, x.cols)
				}
				if !isGzip(b) && (uint32(x.count) != binary.BigEndian.Uint32(b[4:]) || !bytes.Equal(x.body, b[headerSize(p):])) {
					t.Fatal("other count or bytes than the file's")
				}
			}
			if isGzip(b) {
				continue
			}
			z, zerr := read(t, p, "compressed", gz(t, b))
			if (err == nil) != (zerr == nil) || err == nil && !bytes.Equal(x.body, z.body) {
				t.Fatalf("plain: %v, compressed: %v", err, zerr)
			}
		}
	})
}
