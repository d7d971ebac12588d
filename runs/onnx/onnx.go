// Package onnx writes ONNX models: those messages of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto) that
// the inference graph of a network needs. The encoding is that of protobuf, whose field numbers stand beside each field below.
// The same model always gives the same bytes.
package onnx

import "halfstep/runs/safetensors"

// IRVersion and Opset are what models are written for: ONNX 1.12 (June 2022), which every later runtime reads.
const (
	IRVersion = 8
	Opset     = 17
)

// Model is a graph and where it came from (ModelProto).
type Model struct {
	Producer, Version string            // producer_name 2, producer_version 3
	Graph             Graph             // graph 7
	Meta              map[string]string // metadata_props 14: StringStringEntryProto of key 1, value 2
}

// Graph is a list of nodes, each after those whose outputs it reads (GraphProto). Inputs, initializers and the outputs of nodes
// share one set of names.
type Graph struct {
	Nodes           []Node               // node 1
	Name            string               // name 2
	Initializers    []safetensors.Tensor // initializer 5: TensorProto of dims 1, data_type 2, name 8, raw_data 9
	Inputs, Outputs []Value              // input 11, output 12
}

// Node applies an operator (NodeProto).
type Node struct {
	Inputs, Outputs []string    // input 1, output 2
	Name, Op        string      // name 3, op_type 4
	Attributes      []Attribute // attribute 5
}

// Attribute is a constant of a node (AttributeProto). Float, Int and Ints make one.
type Attribute struct {
	name   string        // name 1
	kind   attributeType // type 20
	float  float32       // f 2
	number int64         // i 3
	list   []int64       // ints 8
}

// attributeType is AttributeProto.AttributeType.
type attributeType uint64

const (
	floatAttribute attributeType = 1
	intAttribute   attributeType = 2
	intsAttribute  attributeType = 7
)

// Float is an attribute of one float32.
func Float(name string, v float32) Attribute {
	return Attribute{name: name, kind: floatAttribute, float: v}
}

// Int is an attribute of one integer.
func Int(name string, v int) Attribute {
	return Attribute{name: name, kind: intAttribute, number: int64(v)}
}

// Ints is an attribute of a list of integers.
func Ints(name string, v ...int) Attribute {
	a := Attribute{name: name, kind: intsAttribute}
	for _, n := range v {
		a.list = append(a.list, int64(n))
	}
	return a
}

// Value is an input or output of the graph, in float32 (ValueInfoProto: name 1, type 2, doc_string 3). The type is a TypeProto of
// tensor_type 1, that of elem_type 1 and shape 2, the shape one of dim 1, a dimension of dim_value 1 or dim_param 2.
type Value struct {
	Name  string
	Shape []Dim
	Doc   string
}

// Dim is a dimension: a number, or a name where the user chooses it.
type Dim struct {
	Size int
	Name string // "N"; then Size is 0
}

// DataType is TensorProto.DataType of an element type: 1 of F32, 10 of F16, 16 of BF16; 0 of one that models do not use.
func DataType(d safetensors.DType) int {
	switch d {
	case safetensors.F32:
		return 1
	case safetensors.F16:
		return 10
	case safetensors.BF16:
		return 16
	}
	return 0
}
