package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// Write writes the file. Tensors are ordered by element size, largest first, then by name, so that each is aligned to its
// element and the same tensors always give the same bytes.
func Write(w io.Writer, f *File) error {
	tensors := slices.Clone(f.Tensors)
	slices.SortStableFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(b.DType.Size(), a.DType.Size()), cmp.Compare(a.Name, b.Name))
	})
	header, err := encodeHeader(tensors, f.Meta)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(len(header))); err != nil {
		return fmt.Errorf("safetensors: header: %w", err)
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("safetensors: header: %w", err)
	}
	for _, t := range tensors {
		if _, err := w.Write(t.Data); err != nil {
			return fmt.Errorf("safetensors: tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// encodeHeader gives the JSON header for tensors in this order, padded with spaces so that the data starts at a multiple
// of eight.
func encodeHeader(tensors []Tensor, meta map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	if len(meta) > 0 {
		if err := checkMeta(meta); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s:%s", quote(metadataKey), quote(meta))
	}
	seen := make(map[string]bool, len(tensors))
	offset := 0
	for _, t := range tensors {
		if err := checkTensor(t); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("tensor %q: given twice", t.Name)
		}
		seen[t.Name] = true
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		end := offset + len(t.Data)
		fmt.Fprintf(&b, `%s:{"dtype":%s,"shape":%s,"data_offsets":[%d,%d]}`,
			quote(t.Name), quote(t.DType), quote(shape), offset, end)
		offset = end
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len() > MaxHeader {
		return nil, fmt.Errorf("header of %d bytes, at most %d", b.Len(), MaxHeader)
	}
	return b.Bytes(), nil
}

// quote is v as JSON; v is a string, a list of numbers or a map of strings, which cannot fail.
func quote(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func checkTensor(t Tensor) error {
	if t.Name == metadataKey {
		return fmt.Errorf("the name is reserved")
	}
	if !utf8.ValidString(t.Name) {
		return fmt.Errorf("the name is not UTF-8")
	}
	size, err := byteSize(t.DType, t.Shape)
	if err != nil {
		return err
	}
	if size != len(t.Data) {
		return fmt.Errorf("%s%v wants %d bytes, got %d", t.DType, t.Shape, size, len(t.Data))
	}
	return nil
}

func checkMeta(meta map[string]string) error {
	for k, v := range meta {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return fmt.Errorf("metadata %q is not UTF-8", k)
		}
	}
	return nil
}
