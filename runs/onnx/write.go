package onnx

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"halfstep/runs/safetensors"
)

// MaxBytes is the size that a protobuf message may have at most.
const MaxBytes = math.MaxInt32

// Write writes the model.
func Write(w io.Writer, m *Model) error {
	var b message
	b.integer(1, IRVersion)
	b.text(2, m.Producer)
	b.text(3, m.Version)
	if err := m.Graph.check(); err != nil {
		return fmt.Errorf("onnx: %w", err)
	}
	b.nested(7, m.Graph.encode())
	var opset message
	opset.text(1, "") // OperatorSetIdProto.domain: the standard operators
	opset.integer(2, Opset)
	b.nested(8, opset)
	for _, key := range slices.Sorted(maps.Keys(m.Meta)) {
		var entry message
		entry.text(1, key)
		entry.text(2, m.Meta[key])
		b.nested(14, entry)
	}
	if len(b) > MaxBytes {
		return fmt.Errorf("onnx: the model takes %d bytes, a protobuf message at most %d", len(b), MaxBytes)
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("onnx: %w", err)
	}
	return nil
}

// check refuses initializers that have no form, or that are larger than the whole model may be.
func (g *Graph) check() error {
	total := 0
	for _, t := range g.Initializers {
		if DataType(t.DType) == 0 {
			return fmt.Errorf("tensor %q: no form for %s", t.Name, t.DType)
		}
		n := t.DType.Size()
		for _, d := range t.Shape {
			n *= d
		}
		if n != len(t.Data) {
			return fmt.Errorf("tensor %q: %s%v wants %d bytes, got %d", t.Name, t.DType, t.Shape, n, len(t.Data))
		}
		if total += n; total > MaxBytes {
			return fmt.Errorf("the weights take more than the %d bytes of a protobuf message", MaxBytes)
		}
	}
	return nil
}

func (g *Graph) encode() (b message) {
	for _, n := range g.Nodes {
		b.nested(1, n.encode())
	}
	b.text(2, g.Name)
	for _, t := range g.Initializers {
		b.nested(5, encodeTensor(t))
	}
	for _, v := range g.Inputs {
		b.nested(11, v.encode())
	}
	for _, v := range g.Outputs {
		b.nested(12, v.encode())
	}
	return b
}

func (n *Node) encode() (b message) {
	for _, name := range n.Inputs {
		b.text(1, name)
	}
	for _, name := range n.Outputs {
		b.text(2, name)
	}
	b.text(3, n.Name)
	b.text(4, n.Op)
	for _, a := range n.Attributes {
		b.nested(5, a.encode())
	}
	return b
}

func (a *Attribute) encode() (b message) {
	b.text(1, a.name)
	switch a.kind {
	case floatAttribute:
		b = protowire.AppendTag(b, 2, protowire.Fixed32Type)
		b = protowire.AppendFixed32(b, math.Float32bits(a.float))
	case intAttribute:
		b.integer(3, a.number)
	case intsAttribute:
		for _, v := range a.list {
			b.integer(8, v)
		}
	}
	b.integer(20, int64(a.kind))
	return b
}

// encodeTensor keeps the data as it is: raw_data is little endian and row-major, too.
func encodeTensor(t safetensors.Tensor) (b message) {
	for _, d := range t.Shape {
		b.integer(1, int64(d))
	}
	b.integer(2, int64(DataType(t.DType)))
	b.text(8, t.Name)
	b.nested(9, t.Data)
	return b
}

func (v *Value) encode() (b message) {
	var shape message
	for _, d := range v.Shape {
		var dim message
		if d.Name != "" {
			dim.text(2, d.Name)
		} else {
			dim.integer(1, int64(d.Size))
		}
		shape.nested(1, dim)
	}
	var tensor, kind message
	tensor.integer(1, int64(DataType(safetensors.F32)))
	tensor.nested(2, shape)
	kind.nested(1, tensor)
	b.text(1, v.Name)
	b.nested(2, kind)
	if v.Doc != "" {
		b.text(3, v.Doc)
	}
	return b
}

// message is an encoded protobuf message that grows field by field.
type message []byte

func (b *message) integer(field protowire.Number, v int64) {
	*b = protowire.AppendTag(*b, field, protowire.VarintType)
	*b = protowire.AppendVarint(*b, uint64(v))
}

func (b *message) text(field protowire.Number, s string) {
	*b = protowire.AppendTag(*b, field, protowire.BytesType)
	*b = protowire.AppendString(*b, s)
}

func (b *message) nested(field protowire.Number, m []byte) {
	*b = protowire.AppendTag(*b, field, protowire.BytesType)
	*b = protowire.AppendBytes(*b, m)
}
