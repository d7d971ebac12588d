// Package safetensors reads and writes the safetensors file format (https://github.com/huggingface/safetensors): eight
// bytes of header length, a JSON header, then the tensors as raw little-endian bytes. Files are not trusted: every size,
// offset and name is checked before it is used.
package safetensors

import (
	"fmt"
	"math/bits"
)

// DType is the element type as the header spells it.
type DType string

// The element types of the format that fill whole bytes.
const (
	Bool   DType = "BOOL"
	U8     DType = "U8"
	I8     DType = "I8"
	F8E5M2 DType = "F8_E5M2"
	F8E4M3 DType = "F8_E4M3"
	I16    DType = "I16"
	U16    DType = "U16"
	F16    DType = "F16"
	BF16   DType = "BF16"
	I32    DType = "I32"
	U32    DType = "U32"
	F32    DType = "F32"
	I64    DType = "I64"
	U64    DType = "U64"
	F64    DType = "F64"
)

// Size is the number of bytes of one element; 0 of an unknown type.
func (d DType) Size() int {
	switch d {
	case Bool, U8, I8, F8E5M2, F8E4M3:
		return 1
	case I16, U16, F16, BF16:
		return 2
	case I32, U32, F32:
		return 4
	case I64, U64, F64:
		return 8
	}
	return 0
}

// Of gives the format's name of a dtype by the name of package program: Of("float32") is F32, and so on for float16,
// bfloat16, float64, uint8 and int32. It is empty for any other name.
func Of(dtype string) DType {
	switch dtype {
	case "float32":
		return F32
	case "float16":
		return F16
	case "bfloat16":
		return BF16
	case "float64":
		return F64
	case "uint8":
		return U8
	case "int32":
		return I32
	}
	return ""
}

// Tensor is one named array, row-major and little endian.
type Tensor struct {
	Name  string
	DType DType
	Shape []int // empty is a scalar
	Data  []byte
}

// File is the content of a safetensors file.
type File struct {
	Tensors []Tensor
	Meta    map[string]string // "__metadata__"; nil when the file has none
}

// Lookup finds a tensor by name; nil when there is none.
func (f *File) Lookup(name string) *Tensor {
	for i := range f.Tensors {
		if f.Tensors[i].Name == name {
			return &f.Tensors[i]
		}
	}
	return nil
}

// metadataKey is the header's one key that is not a tensor.
const metadataKey = "__metadata__"

// MaxHeader is the longest header that is read or written, in bytes; the reference implementation has the same limit.
const MaxHeader = 100_000_000

// byteSize is the size of a tensor, checked for overflow.
func byteSize(d DType, shape []int) (int, error) {
	size := uint64(d.Size())
	if size == 0 {
		return 0, fmt.Errorf("unknown dtype %q", d)
	}
	for _, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		hi, lo := bits.Mul64(size, uint64(n))
		if hi != 0 || lo > uint64(maxInt) {
			return 0, fmt.Errorf("shape %v is too large", shape)
		}
		size = lo
	}
	return int(size), nil
}

const maxInt = int(^uint(0) >> 1)
