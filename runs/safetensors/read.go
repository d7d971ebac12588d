package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"unicode/utf8"
)

// ReadFile reads a whole file.
func ReadFile(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	f, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Decode reads a file from memory. The tensors come in the order of their data, which stays where it is in b. As in the
// reference implementation the data must cover the rest of the file without gap or overlap.
func Decode(b []byte) (*File, error) {
	header, data, err := Split(b)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	entries, meta, err := decodeHeader(header)
	if err != nil {
		return nil, fmt.Errorf("safetensors: header: %w", err)
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	f := &File{Meta: meta, Tensors: make([]Tensor, 0, len(entries))}
	at := uint64(0)
	for _, e := range entries {
		if err := e.check(at, uint64(len(data))); err != nil {
			return nil, fmt.Errorf("safetensors: tensor %q: %w", e.Name, err)
		}
		e.Data = data[e.begin:e.end:e.end]
		f.Tensors = append(f.Tensors, e.Tensor)
		at = e.end
	}
	if at != uint64(len(data)) {
		return nil, fmt.Errorf("safetensors: %d bytes of data belong to no tensor", uint64(len(data))-at)
	}
	return f, nil
}

// Split cuts a file into its JSON header and its data.
func Split(b []byte) (header, data []byte, err error) {
	if len(b) < 8 {
		return nil, nil, fmt.Errorf("%d bytes are too few for a header length", len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	if n > MaxHeader {
		return nil, nil, fmt.Errorf("header of %d bytes, at most %d", n, MaxHeader)
	}
	if n > uint64(len(b)-8) {
		return nil, nil, fmt.Errorf("header of %d bytes in a file of %d", n, len(b))
	}
	return b[8 : 8+n], b[8+n:], nil
}

// entry is a tensor whose data is not yet found.
type entry struct {
	Tensor
	begin, end uint64
}

// check wants the entry to start at this offset, to have the size of its shape and to end within the data.
func (e *entry) check(at, size uint64) error {
	switch {
	case e.begin > e.end || e.end > size:
		return fmt.Errorf("data_offsets [%d, %d] in %d bytes of data", e.begin, e.end, size)
	case e.begin < at:
		return fmt.Errorf("data_offsets [%d, %d] overlap the tensor before, which ends at %d", e.begin, e.end, at)
	case e.begin > at:
		return fmt.Errorf("data_offsets [%d, %d] leave a gap after %d", e.begin, e.end, at)
	}
	want, err := byteSize(e.DType, e.Shape)
	if err != nil {
		return err
	}
	if uint64(want) != e.end-e.begin {
		return fmt.Errorf("%s%v wants %d bytes, data_offsets give %d", e.DType, e.Shape, want, e.end-e.begin)
	}
	return nil
}

// decodeHeader reads the JSON token by token: encoding/json's own decoding would let duplicate, unknown and differently
// capitalised keys pass.
func decodeHeader(header []byte) ([]entry, map[string]string, error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("does not start with {")
	}
	if !utf8.Valid(header) {
		return nil, nil, errors.New("is not UTF-8")
	}
	d := &headerDecoder{json.NewDecoder(bytes.NewReader(header))}
	d.UseNumber()
	var entries []entry
	var meta map[string]string
	err := d.object(func(key string) error {
		if key == metadataKey {
			meta = map[string]string{}
			return d.object(func(key string) (err error) {
				meta[key], err = d.string()
				return err
			})
		}
		e, err := d.entry(key)
		entries = append(entries, e)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if rest := header[d.InputOffset():]; len(bytes.Trim(rest, " ")) > 0 {
		return nil, nil, errors.New("has text after the closing brace")
	}
	return entries, meta, nil
}

type headerDecoder struct{ *json.Decoder }

// object reads an object and calls value for each key, which must differ.
func (d *headerDecoder) object(value func(key string) error) error {
	if err := d.delim('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.string()
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("key %q is there twice", key)
		}
		seen[key] = true
		if err := value(key); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	return d.delim('}')
}

func (d *headerDecoder) entry(name string) (entry, error) {
	e := entry{Tensor: Tensor{Name: name}}
	fields := 0
	err := d.object(func(key string) error {
		fields++
		switch key {
		case "dtype":
			s, err := d.string()
			e.DType = DType(s)
			return err
		case "shape":
			dims, err := d.numbers()
			e.Shape = make([]int, len(dims))
			for i, n := range dims {
				if n > uint64(maxInt) {
					return fmt.Errorf("dimension %d is too large", n)
				}
				e.Shape[i] = int(n)
			}
			return err
		case "data_offsets":
			at, err := d.numbers()
			if err == nil && len(at) != 2 {
				return fmt.Errorf("%d numbers, want 2", len(at))
			}
			if err == nil {
				e.begin, e.end = at[0], at[1]
			}
			return err
		}
		return errors.New("unknown key")
	})
	if err == nil && fields != 3 {
		err = errors.New("wants dtype, shape and data_offsets")
	}
	return e, err
}

func (d *headerDecoder) numbers() ([]uint64, error) {
	if err := d.delim('['); err != nil {
		return nil, err
	}
	var r []uint64
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		s, ok := t.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%v is not a number", t)
		}
		n, err := strconv.ParseUint(string(s), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not a whole number that fits", s)
		}
		r = append(r, n)
	}
	return r, d.delim(']')
}

func (d *headerDecoder) string() (string, error) {
	t, err := d.Token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("%v is not a string", t)
	}
	return s, nil
}

func (d *headerDecoder) delim(want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("%v where %v is due", t, want)
	}
	return nil
}
