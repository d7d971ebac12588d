package trainer

import (
	"encoding/binary"
	"fmt"
	"math"

	"halfstep/configs"
	"halfstep/model/op/ref"
	"halfstep/program"
	"halfstep/runs"
	"halfstep/runs/onnx"
	"halfstep/runs/safetensors"
)

// The names of an ONNX model's input and output, and of the dimension that its user chooses: how many samples.
const (
	onnxInput  = "input"
	onnxOutput = "logits"
	onnxBatch  = "N"
)

// onnxModel is the inference graph of the model over the tensors that are exported, in PyTorch's layout: what torch.onnx.export
// gives for that model in eval mode. It takes normalised float32 [N,C,H,W] or [N,D] and gives the last layer's output [N,units].
// Tensors in half precision are cast to float32 before they are used.
func onnxModel(x *export) (*onnx.Model, error) {
	c := x.cfg
	a, err := classifierAssembler(c, x.from, x.dev)
	if err != nil {
		return nil, err
	}
	t, err := a.inference(1)
	if err != nil {
		return nil, err
	}
	g := &onnxGraph{names: map[*program.Value]string{t.inputs.X: onnxInput, t.lowered.Logits: onnxOutput}}
	g.Name = c.Name
	for _, w := range x.tensors {
		g.weight(w)
	}
	for _, i := range t.program.Instrs[t.from:t.to] {
		if i.Layer == "loss" {
			break // what precedes it are the layers
		}
		if err := g.add(i); err != nil {
			return nil, fmt.Errorf("%s: %w", i.Layer, err)
		}
	}
	g.Inputs = []onnx.Value{{Name: onnxInput, Shape: torchDims(t.inputs.X.Shape), Doc: onnxInputDoc(c)}}
	g.Outputs = []onnx.Value{{Name: onnxOutput, Shape: torchDims(t.lowered.Logits.Shape)}}
	return &onnx.Model{Producer: "halfstep", Version: runs.ReadEnvironment().Version, Graph: g.Graph, Meta: x.meta}, nil
}

func onnxInputDoc(c configs.Config) string {
	if c.Data.Name == "random" {
		return ""
	}
	return fmt.Sprintf("(pixel / 255 - %v) / %v", c.Data.Normalize.Mean, c.Data.Normalize.Std)
}

// torchDims is a shape [B,H,W,C] or [B,K] in PyTorch's order, the batch being the user's.
func torchDims(s []int) []onnx.Dim {
	dims := []onnx.Dim{{Name: onnxBatch}}
	if len(s) == 4 {
		s = []int{s[0], s[3], s[1], s[2]}
	}
	for _, n := range s[1:] {
		dims = append(dims, onnx.Dim{Size: n})
	}
	return dims
}

// onnxGraph grows by a layer at a time.
type onnxGraph struct {
	onnx.Graph
	names map[*program.Value]string // of values that are not called what the program calls them
}

// weight adds a parameter or a running statistic under the name that safetensors files give it, and where it is in half
// precision the cast that its readers take.
func (g *onnxGraph) weight(t safetensors.Tensor) {
	g.Initializers = append(g.Initializers, t)
	if t.DType != safetensors.F32 {
		g.Nodes = append(g.Nodes, onnx.Node{
			Op: "Cast", Name: t.Name + "/cast", Inputs: []string{t.Name}, Outputs: []string{t.Name + "/float32"},
			Attributes: []onnx.Attribute{onnx.Int("to", onnx.DataType(safetensors.F32))},
		})
	}
}

// name is what the graph calls a value of the program.
func (g *onnxGraph) name(v *program.Value) string {
	if !v.Persistent {
		if name, ok := g.names[v]; ok {
			return name
		}
		return v.Name
	}
	name := torchName(v.Name)
	for _, t := range g.Initializers {
		if t.Name == name && t.DType != safetensors.F32 {
			return name + "/float32"
		}
	}
	return name
}

// add appends the nodes of an instruction. Its operands are in NHWC, those of the nodes in NCHW; weights were permuted to fit.
func (g *onnxGraph) add(i *program.Instr) error {
	switch o := i.Op.(type) {
	case program.Conv2D:
		g.node(i, "Conv", onnx.Ints("kernel_shape", o.KH, o.KW), onnx.Ints("pads", o.Pad, o.Pad, o.Pad, o.Pad),
			onnx.Ints("strides", o.Stride, o.Stride))
	case program.Linear:
		g.node(i, "Gemm", onnx.Int("transB", 1)) // weight [units,K], as in PyTorch
	case program.BatchNorm:
		g.node(i, "BatchNormalization", onnx.Float("epsilon", o.Eps))
	case program.MaxPool2D:
		g.node(i, "MaxPool", onnx.Ints("kernel_shape", o.Size, o.Size), onnx.Ints("strides", o.Stride, o.Stride))
	case program.AvgPool2D:
		g.node(i, "AveragePool", onnx.Ints("kernel_shape", o.Size, o.Size), onnx.Ints("strides", o.Stride, o.Stride))
	case program.Softmax:
		g.node(i, "Softmax", onnx.Int("axis", 1))
	case program.Add:
		g.node(i, "Add")
	case program.Reshape:
		g.node(i, "Flatten", onnx.Int("axis", 1))
	case program.Activation:
		return g.activation(i, o.Kind)
	default:
		return fmt.Errorf("ONNX has no operator for %s", o.Name())
	}
	return nil
}

// node appends one node that computes the instruction.
func (g *onnxGraph) node(i *program.Instr, op string, attributes ...onnx.Attribute) {
	n := onnx.Node{Op: op, Name: i.Layer, Outputs: []string{g.name(i.Out[0])}, Attributes: attributes}
	for _, v := range i.In {
		n.Inputs = append(n.Inputs, g.name(v))
	}
	g.Nodes = append(g.Nodes, n)
}

// activation appends an activation. ONNX has GELU from opset 20 on only, so it is written out, as torch.onnx.export does.
func (g *onnxGraph) activation(i *program.Instr, kind ref.Activation) error {
	x, y := g.name(i.In[0]), g.name(i.Out[0])
	s := &steps{g: g, layer: i.Layer}
	switch kind {
	case ref.ReLU:
		g.node(i, "Relu")
	case ref.Sigmoid:
		g.node(i, "Sigmoid")
	case ref.Tanh:
		g.node(i, "Tanh")
	case ref.GELU: // x · (erf(x/√2) + 1) · ½
		e := s.do("Erf", s.do("Div", x, s.constant("sqrt2", math.Sqrt2)))
		s.to(y, "Mul", s.do("Mul", x, s.do("Add", e, s.constant("one", 1))), s.constant("half", 0.5))
	case ref.GELUTanh: // x · (tanh(√(2/π)·(x + 0.044715·x³)) + 1) · ½
		cube := s.do("Mul", s.do("Mul", x, x), x)
		inner := s.do("Add", x, s.do("Mul", cube, s.constant("cubic", 0.044715)))
		e := s.do("Tanh", s.do("Mul", inner, s.constant("scale", math.Sqrt(2/math.Pi))))
		s.to(y, "Mul", s.do("Mul", x, s.do("Add", e, s.constant("one", 1))), s.constant("half", 0.5))
	default:
		return fmt.Errorf("ONNX has no operator for %s", kind)
	}
	return nil
}

// steps are the nodes that a layer takes where it takes several: layer/1, layer/2, ...
type steps struct {
	g     *onnxGraph
	layer string
	n     int
}

// do appends a node and gives the name of its output.
func (s *steps) do(op string, inputs ...string) string {
	return s.to(fmt.Sprintf("%s/%d", s.layer, s.n+1), op, inputs...)
}

// to appends a node whose output has a name.
func (s *steps) to(output, op string, inputs ...string) string {
	s.n++
	s.g.Nodes = append(s.g.Nodes, onnx.Node{
		Op: op, Name: fmt.Sprintf("%s/%d", s.layer, s.n), Inputs: inputs, Outputs: []string{output},
	})
	return output
}

// constant adds a float32 scalar.
func (s *steps) constant(name string, v float64) string {
	name = s.layer + "/" + name
	s.g.Initializers = append(s.g.Initializers, safetensors.Tensor{
		Name: name, DType: safetensors.F32, Data: binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v))),
	})
	return name
}
