package onnx

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"halfstep/runs/safetensors"
)

// floats are float32 elements that are small whole numbers, halves or quarters, little endian.
func floats(v ...float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		i := map[float32]uint32{
			0: 0, 1: 0x3f800000, 2: 0x40000000, 3: 0x40400000, 4: 0x40800000, 5: 0x40a00000, 6: 0x40c00000, 7: 0x40e00000,
			0.25: 0x3e800000, -1.5: 0xbfc00000,
		}[x]
		b = append(b, byte(i), byte(i>>8), byte(i>>16), byte(i>>24))
	}
	return b
}

// halves are the float16 elements 1, -2, 0.5, 0, 3, 0, 0, 65504; seven zeros, -1.
func halves() []byte {
	b := make([]byte, 32)
	for at, v := range map[int]uint16{0: 0x3c00, 1: 0xc000, 2: 0x3800, 4: 0x4200, 7: 0x7bff, 15: 0xbc00} {
		b[2*at], b[2*at+1] = byte(v), byte(v>>8)
	}
	return b
}

// tiny has each kind of attribute, dimension and element type that models have.
func tiny() *Model {
	g := Graph{
		Name: "tiny",
		Nodes: []Node{
			{Op: "Cast", Name: "linear1.weight/cast", Inputs: []string{"linear1.weight"}, Outputs: []string{"linear1.weight/float32"}, Attributes: []Attribute{Int("to", 1)}},
			{
				Op: "Conv", Name: "conv1", Inputs: []string{"input", "conv1.weight"}, Outputs: []string{"conv1/y"},
				Attributes: []Attribute{Ints("kernel_shape", 2, 2), Ints("pads", 0, 0, 0, 0), Ints("strides", 1, 1)},
			},
			{
				Op: "BatchNormalization", Name: "bn1", Outputs: []string{"bn1/y"}, Attributes: []Attribute{Float("epsilon", 1e-5)},
				Inputs: []string{"conv1/y", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"},
			},
			{Op: "Flatten", Name: "flatten1", Inputs: []string{"bn1/y"}, Outputs: []string{"flatten1/y"}, Attributes: []Attribute{Int("axis", 1)}},
			{Op: "Gemm", Name: "linear1", Inputs: []string{"flatten1/y", "linear1.weight/float32"}, Outputs: []string{"logits"}, Attributes: []Attribute{Int("transB", 1)}},
		},
		Initializers: []safetensors.Tensor{{Name: "conv1.weight", DType: safetensors.F32, Shape: []int{2, 1, 2, 2}, Data: floats(0, 1, 2, 3, 4, 5, 6, 7)}},
		Inputs:       []Value{{Name: "input", Shape: []Dim{{Name: "N"}, {Size: 1}, {Size: 3}, {Size: 3}}, Doc: "pixels"}},
		Outputs:      []Value{{Name: "logits", Shape: []Dim{{Name: "N"}, {Size: 2}}}},
	}
	for _, name := range []string{"weight", "bias", "running_mean", "running_var"} {
		g.Initializers = append(g.Initializers, safetensors.Tensor{Name: "bn1." + name, DType: safetensors.F32, Shape: []int{2}, Data: floats(0.25, 4)})
	}
	g.Initializers = append(g.Initializers,
		safetensors.Tensor{Name: "linear1.weight", DType: safetensors.F16, Shape: []int{2, 8}, Data: halves()},
		safetensors.Tensor{Name: "scalar", DType: safetensors.F32, Data: floats(-1.5)})
	return &Model{Producer: "halfstep", Version: "v1", Graph: g, Meta: map[string]string{"b": "", "a": "1"}}
}

// testdata/tiny.onnx is the same model made with onnx.helper of the Python package onnx 1.23 and serialised by protobuf. It passed
// onnx.checker.check_model(full_check=True).
func TestWriteMatchesPython(t *testing.T) {
	want, err := os.ReadFile("testdata/tiny.onnx")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // metadata is a map, whose order differs from one loop to the next
		var b bytes.Buffer
		if err := Write(&b, tiny()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, b.Bytes()); d != "" {
			t.Fatal(d)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	quarter := safetensors.Tensor{Name: "x", DType: safetensors.F16, Shape: []int{1 << 28}, Data: make([]byte, 1<<29)} // never touched
	for want, list := range map[string][]safetensors.Tensor{
		`tensor "x": no form for I64`:                   {{Name: "x", DType: safetensors.I64, Shape: []int{1}, Data: make([]byte, 8)}},
		`tensor "x": F32[2] wants 8 bytes, got 4`:       {{Name: "x", DType: safetensors.F32, Shape: []int{2}, Data: make([]byte, 4)}},
		"the weights take more than the 2147483647 byt": {quarter, quarter, quarter, quarter},
	} {
		m := tiny()
		m.Graph.Initializers = append(m.Graph.Initializers, list...)
		var b bytes.Buffer
		if err := Write(&b, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if b.Len() > 0 {
			t.Errorf("%d bytes were written", b.Len())
		}
	}
}
