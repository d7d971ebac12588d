package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func file(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

// A file written by hand after the format's description, not by Write.
func TestDecodeByHand(t *testing.T) {
	b := file(`{"b":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},"__metadata__":{"format":"pt"},`+
		`"a":{"shape":[],"data_offsets":[0,4],"dtype":"F32"},"none":{"dtype":"I64","shape":[3,0],"data_offsets":[8,8]}}   `,
		0, 0, 0x80, 0x3f, 0, 0x3c, 0, 0xc0)
	f, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	want := &File{
		Meta: map[string]string{"format": "pt"},
		Tensors: []Tensor{
			{"a", F32, []int{}, []byte{0, 0, 0x80, 0x3f}},
			{"b", F16, []int{2}, []byte{0, 0x3c, 0, 0xc0}},
			{"none", I64, []int{3, 0}, []byte{}},
		},
	}
	if d := cmp.Diff(want, f); d != "" {
		t.Error(d)
	}
	if f.Lookup("b") != &f.Tensors[1] || f.Lookup("c") != nil {
		t.Error("Lookup finds the wrong tensor")
	}
}

// The exact bytes of a small file: header length, header padded to eight, larger elements first.
func TestWriteBytes(t *testing.T) {
	var b bytes.Buffer
	err := Write(&b, &File{Tensors: []Tensor{
		{"u", U8, []int{1}, []byte{7}},
		{"conv1.weight", F32, []int{1, 1}, []byte{1, 2, 3, 4}},
	}, Meta: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	header := `{"__metadata__":{"k":"v"},"conv1.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},` +
		`"u":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	if d := cmp.Diff(file(header, 1, 2, 3, 4, 7), b.Bytes()); d != "" {
		t.Error(d)
	}
}

func TestDecodeRejects(t *testing.T) {
	tensor := func(offsets, shape string) string {
		return fmt.Sprintf(`{"dtype":"U8","shape":%s,"data_offsets":%s}`, shape, offsets)
	}
	one := tensor("[0,1]", "[1]")
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "too few"},
		{"short", []byte{1, 0, 0, 0, 0, 0, 0}, "too few"},
		{"header longer than file", binary.LittleEndian.AppendUint64(nil, 10), "header of 10 bytes"},
		{"huge header", binary.LittleEndian.AppendUint64(nil, 1<<63), "at most"},
		{"no header", file(""), "does not start"},
		{"leading space", file(` {}`), "does not start"},
		{"cut JSON", file(`{"a":`), "EOF"},
		{"trailing text", file(`{} {}`), "after the closing brace"},
		{"not UTF-8", file("{\"\xff\":1}"), "UTF-8"},
		{"same tensor twice", file(`{"a":`+one+`,"a":`+one+`}`, 1), "twice"},
		{"same field twice", file(`{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), "twice"},
		{"field in capitals", file(`{"a":{"DTYPE":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), "unknown key"},
		{"missing field", file(`{"a":{"dtype":"U8","shape":[1]}}`, 1), "wants dtype"},
		{"metadata not a string", file(`{"__metadata__":{"a":1}}`), "not a string"},
		{"unknown dtype", file(`{"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}}`, 1), "unknown dtype"},
		{"negative dimension", file(`{"a":`+tensor("[0,1]", "[-1]")+`}`, 1), "whole number"},
		{"fractional dimension", file(`{"a":`+tensor("[0,1]", "[1.0]")+`}`, 1), "whole number"},
		{"overflowing shape", file(`{"a":` + tensor("[0,0]", "[4294967296,4294967296]") + `}`), "too large"},
		{"dimension above int64", file(`{"a":` + tensor("[0,0]", "[18446744073709551615]") + `}`), "too large"},
		{"one offset", file(`{"a":`+tensor("[0]", "[1]")+`}`, 1), "want 2"},
		{"reversed offsets", file(`{"a":`+tensor("[1,0]", "[1]")+`}`, 1), "data_offsets [1, 0]"},
		{"beyond the file", file(`{"a":`+tensor("[0,2]", "[2]")+`}`, 1), "in 1 bytes"},
		{"wrong size", file(`{"a":`+tensor("[0,2]", "[3]")+`}`, 1, 2), "wants 3 bytes"},
		{"overlap", file(`{"a":`+tensor("[0,2]", "[2]")+`,"b":`+tensor("[1,3]", "[2]")+`}`, 1, 2, 3), "overlap"},
		{"gap", file(`{"a":`+tensor("[0,1]", "[1]")+`,"b":`+tensor("[2,3]", "[1]")+`}`, 1, 2, 3), "gap"},
		{"trailing data", file(`{"a":`+one+`}`, 1, 2), "belong to no tensor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode(c.b)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestWriteRejects(t *testing.T) {
	for _, c := range []struct {
		f    File
		want string
	}{
		{File{Tensors: []Tensor{{"a", F32, []int{2}, make([]byte, 4)}}}, "wants 8 bytes, got 4"},
		{File{Tensors: []Tensor{{"a", U8, nil, []byte{1}}, {"a", U8, nil, []byte{1}}}}, "twice"},
		{File{Tensors: []Tensor{{"__metadata__", U8, nil, []byte{1}}}}, "reserved"},
		{File{Tensors: []Tensor{{"\xff", U8, nil, []byte{1}}}}, "UTF-8"},
		{File{Tensors: []Tensor{{"a", "X", nil, []byte{1}}}}, "unknown dtype"},
		{File{Tensors: []Tensor{{"a", U8, []int{-1}, nil}}}, "negative"},
		{File{Meta: map[string]string{"a": "\xff"}}, "UTF-8"},
	} {
		if err := Write(&bytes.Buffer{}, &c.f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

// The sizes of the format's description, and of package program's types.
func TestDTypes(t *testing.T) {
	for name, size := range map[string]int{"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "uint8": 1, "int32": 4} {
		if got := Of(name).Size(); got != size {
			t.Errorf("%s has %d bytes, want %d", name, got, size)
		}
	}
	if Of("float8") != "" || DType("").Size() != 0 {
		t.Error("an unknown type has a size")
	}
}

var sortByName = cmpopts.SortSlices(func(a, b Tensor) bool { return a.Name < b.Name })

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &File{Meta: rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "meta")}
		for _, name := range rapid.SliceOfDistinct(rapid.String(), rapid.ID[string]).Draw(t, "names") {
			if name == metadataKey {
				continue
			}
			d := rapid.SampledFrom([]DType{U8, I16, F16, BF16, F32, I64}).Draw(t, "dtype")
			shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")
			size, err := byteSize(d, shape)
			if err != nil {
				t.Fatal(err)
			}
			f.Tensors = append(f.Tensors, Tensor{name, d, shape, rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "data")})
		}
		var b bytes.Buffer
		if err := Write(&b, f); err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(f, got, sortByName, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// Whatever bytes come: no panic, and what is accepted covers the data exactly and survives being written again.
func FuzzDecode(f *testing.F) {
	f.Add(file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"__metadata__":{"x":"y"}}`, 1))
	f.Add(file(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"I8","shape":[0],"data_offsets":[4,4]}} `, 1, 2, 3, 4))
	f.Add(file(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Decode(b)
		if err != nil {
			return
		}
		_, data, _ := Split(b)
		var joined []byte
		for _, x := range got.Tensors {
			joined = append(joined, x.Data...)
		}
		if !bytes.Equal(joined, data) {
			t.Fatal("the tensors do not cover the data")
		}
		var w bytes.Buffer
		if err := Write(&w, got); err != nil {
			t.Fatal(err)
		}
		again, err := Decode(w.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(got, again, sortByName, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}
