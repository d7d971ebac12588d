package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"halfstep/configs"
)

// imagesIDX writes count images of h x w; byte k of the body is k·7 + salt, so every place is told from its neighbours.
func imagesIDX(count, h, w int, salt byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, 0x803)
	for _, v := range []int{count, h, w} {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	for k := range count * h * w {
		b = append(b, byte(k*7)+salt)
	}
	return b
}

func labelsIDX(labels ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, 0x801)
	b = binary.BigEndian.AppendUint32(b, uint32(len(labels)))
	return append(b, labels...)
}

func gz(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// small is a set of four training and two test images of 3x5, by plain file names.
func small() map[string][]byte {
	return map[string][]byte{
		"train-images-idx3-ubyte": imagesIDX(4, 3, 5, 1),
		"train-labels-idx1-ubyte": labelsIDX(3, 0, 9, 1),
		"t10k-images-idx3-ubyte":  imagesIDX(2, 3, 5, 2),
		"t10k-labels-idx1-ubyte":  labelsIDX(2, 4),
	}
}

func writeFiles(t testing.TB, dir string, files map[string][]byte) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t testing.TB, name, dir string) *Set {
	t.Helper()
	set, err := Open(configs.Data{Name: name, Dir: dir}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
