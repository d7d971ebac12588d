package trainer

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"halfstep/half"
)

// onnxFile is a decoded ONNX model. The decoder knows field numbers of onnx.proto only, and nothing of the writer.
type onnxFile struct {
	nodes         []onnxNode
	weights       map[string]onnxTensor
	types         map[string]uint64 // TensorProto.DataType of the weights
	input, output string
	inputDims     []string
	outputDims    []string
	meta          map[string]string
	ir, opset     uint64
}

type onnxNode struct {
	op         string
	in, out    []string
	ints       map[string][]int
	attributes map[string]float64 // of one number
}

// onnxTensor is a value in float64, row-major.
type onnxTensor struct {
	shape []int
	v     []float64
}

// protoFields gives the values of a message's fields by their numbers: of numbers the bits, of bytes what they hold.
func protoFields(t *testing.T, b []byte) (numbers map[protowire.Number][]uint64, texts map[protowire.Number][][]byte) {
	t.Helper()
	numbers, texts = map[protowire.Number][]uint64{}, map[protowire.Number][][]byte{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			numbers[number] = append(numbers[number], v)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			numbers[number] = append(numbers[number], uint64(v))
		case protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(b)
			texts[number] = append(texts[number], v)
		default:
			t.Fatalf("field %d has wire type %d", number, kind)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
	}
	return numbers, texts
}

func decodeONNX(t *testing.T, b []byte) *onnxFile {
	t.Helper()
	f := &onnxFile{weights: map[string]onnxTensor{}, types: map[string]uint64{}, meta: map[string]string{}}
	numbers, texts := protoFields(t, b)
	f.ir = numbers[1][0]
	opset, _ := protoFields(t, texts[8][0])
	f.opset = opset[2][0]
	for _, p := range texts[14] {
		_, entry := protoFields(t, p)
		f.meta[string(entry[1][0])] = string(entry[2][0])
	}
	_, graph := protoFields(t, texts[7][0])
	for _, n := range graph[1] {
		f.nodes = append(f.nodes, decodeONNXNode(t, n))
	}
	for _, w := range graph[5] {
		n, s := protoFields(t, w)
		name := string(s[8][0])
		if _, twice := f.weights[name]; twice {
			t.Errorf("initializer %s is there twice", name)
		}
		f.types[name] = n[2][0]
		f.weights[name] = onnxTensor{whole(n[1]), decodeONNXData(t, n[2][0], s[9][0])}
	}
	f.input, f.inputDims = decodeONNXValue(t, graph[11][0])
	f.output, f.outputDims = decodeONNXValue(t, graph[12][0])
	return f
}

func decodeONNXNode(t *testing.T, b []byte) onnxNode {
	t.Helper()
	_, texts := protoFields(t, b)
	n := onnxNode{op: string(texts[4][0]), in: words(texts[1]), out: words(texts[2]), ints: map[string][]int{}, attributes: map[string]float64{}}
	for _, a := range texts[5] {
		numbers, texts := protoFields(t, a)
		name := string(texts[1][0])
		switch numbers[20][0] {
		case 1: // FLOAT
			n.attributes[name] = float64(math.Float32frombits(uint32(numbers[2][0])))
		case 2: // INT
			n.attributes[name] = float64(numbers[3][0])
		case 7: // INTS
			n.ints[name] = whole(numbers[8])
		default:
			t.Fatalf("%s: attribute %s of type %d", n.op, name, numbers[20][0])
		}
	}
	return n
}

// decodeONNXData reads raw_data of type 1 FLOAT, 10 FLOAT16 or 16 BFLOAT16.
func decodeONNXData(t *testing.T, kind uint64, b []byte) []float64 {
	t.Helper()
	var v []float64
	for len(b) > 0 {
		var x [1]float32
		switch kind {
		case 1:
			x[0] = math.Float32frombits(binary.LittleEndian.Uint32(b))
			b = b[4:]
		case 10:
			half.DecodeFloat16(x[:], []uint16{binary.LittleEndian.Uint16(b)})
			b = b[2:]
		case 16:
			x[0] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
			b = b[2:]
		default:
			t.Fatalf("element type %d", kind)
		}
		v = append(v, float64(x[0]))
	}
	return v
}

// decodeONNXValue gives the name of a ValueInfoProto and its dimensions as text; it must be a tensor of floats.
func decodeONNXValue(t *testing.T, b []byte) (name string, dims []string) {
	t.Helper()
	_, texts := protoFields(t, b)
	_, kind := protoFields(t, texts[2][0])
	numbers, tensor := protoFields(t, kind[1][0])
	if numbers[1][0] != 1 {
		t.Errorf("%s has element type %d, want 1", texts[1][0], numbers[1][0])
	}
	_, shape := protoFields(t, tensor[2][0])
	for _, d := range shape[1] {
		numbers, texts := protoFields(t, d)
		if numbers[1] != nil {
			dims = append(dims, fmt.Sprint(numbers[1][0]))
		} else {
			dims = append(dims, string(texts[2][0]))
		}
	}
	return string(texts[1][0]), dims
}

func words(list [][]byte) []string {
	var r []string
	for _, b := range list {
		r = append(r, string(b))
	}
	return r
}

func whole(list []uint64) []int {
	var r []int
	for _, n := range list {
		r = append(r, int(n))
	}
	return r
}

// eval runs the graph in float64 by the operators' definitions (https://onnx.ai/onnx/operators), in NCHW.
func (f *onnxFile) eval(t *testing.T, x onnxTensor) onnxTensor {
	t.Helper()
	values := map[string]onnxTensor{f.input: x}
	for name, w := range f.weights {
		values[name] = w
	}
	for _, n := range f.nodes {
		var in []onnxTensor
		for _, name := range n.in {
			v, ok := values[name]
			if !ok {
				t.Fatalf("%s reads %s, which nothing has written", n.op, name)
			}
			in = append(in, v)
		}
		if _, twice := values[n.out[0]]; twice || len(n.out) != 1 {
			t.Fatalf("%s writes %v", n.op, n.out)
		}
		values[n.out[0]] = n.eval(t, in)
	}
	return values[f.output]
}

func (n onnxNode) eval(t *testing.T, in []onnxTensor) onnxTensor {
	t.Helper()
	x := in[0]
	each := func(f func(v float64) float64) onnxTensor {
		y := onnxTensor{x.shape, make([]float64, len(x.v))}
		for i, v := range x.v {
			y.v[i] = f(v)
		}
		return y
	}
	pair := func(f func(a, b float64) float64) onnxTensor { // tensors of one shape, or a tensor and a scalar
		y := onnxTensor{x.shape, make([]float64, len(x.v))}
		for i, v := range x.v {
			if len(in[1].shape) == 0 {
				y.v[i] = f(v, in[1].v[0])
			} else {
				y.v[i] = f(v, in[1].v[i])
			}
		}
		return y
	}
	switch n.op {
	case "Cast":
		return x
	case "Relu":
		return each(func(v float64) float64 { return max(v, 0) })
	case "Sigmoid":
		return each(func(v float64) float64 { return 1 / (1 + math.Exp(-v)) })
	case "Tanh":
		return each(math.Tanh)
	case "Erf":
		return each(math.Erf)
	case "Add":
		return pair(func(a, b float64) float64 { return a + b })
	case "Mul":
		return pair(func(a, b float64) float64 { return a * b })
	case "Div":
		return pair(func(a, b float64) float64 { return a / b })
	case "Flatten":
		return onnxTensor{[]int{x.shape[0], len(x.v) / x.shape[0]}, x.v}
	case "Softmax":
		return softmaxRows(x)
	case "BatchNormalization":
		return n.batchNorm(in)
	case "Gemm":
		return n.gemm(t, in)
	case "Conv":
		return n.conv(in)
	case "MaxPool", "AveragePool":
		return n.pool(x)
	}
	t.Fatalf("operator %s", n.op)
	return onnxTensor{}
}

func softmaxRows(x onnxTensor) onnxTensor {
	y, width := onnxTensor{x.shape, make([]float64, len(x.v))}, x.shape[1]
	for at := 0; at < len(x.v); at += width {
		var total float64
		for j := range width {
			total += math.Exp(x.v[at+j])
		}
		for j := range width {
			y.v[at+j] = math.Exp(x.v[at+j]) / total
		}
	}
	return y
}

func (n onnxNode) batchNorm(in []onnxTensor) onnxTensor {
	x, scale, bias, mean, variance := in[0], in[1].v, in[2].v, in[3].v, in[4].v
	y, C := onnxTensor{x.shape, make([]float64, len(x.v))}, x.shape[1]
	inner := len(x.v) / x.shape[0] / C
	for i, v := range x.v {
		c := i / inner % C
		y.v[i] = (v-mean[c])/math.Sqrt(variance[c]+n.attributes["epsilon"])*scale[c] + bias[c]
	}
	return y
}

// gemm is x·Wᵀ + b with W [units,K].
func (n onnxNode) gemm(t *testing.T, in []onnxTensor) onnxTensor {
	t.Helper()
	x, w := in[0], in[1]
	B, K, N := x.shape[0], x.shape[1], w.shape[0]
	if n.attributes["transB"] != 1 || w.shape[1] != K {
		t.Fatalf("Gemm of %v and %v with %v", x.shape, w.shape, n.attributes)
	}
	y := onnxTensor{[]int{B, N}, make([]float64, B*N)}
	for b := range B {
		for j := range N {
			var sum float64
			if len(in) == 3 {
				sum = in[2].v[j]
			}
			for k := range K {
				sum += x.v[b*K+k] * w.v[j*K+k]
			}
			y.v[b*N+j] = sum
		}
	}
	return y
}

// conv has x [N,C,H,W] and w [OC,C,KH,KW]; windows are square, padding is the same on all sides.
func (n onnxNode) conv(in []onnxTensor) onnxTensor {
	x, w, s, p := in[0], in[1], n.ints["strides"][0], n.ints["pads"][0]
	B, C, H, W, OC, K := x.shape[0], x.shape[1], x.shape[2], x.shape[3], w.shape[0], n.ints["kernel_shape"][0]
	OH, OW := (H+2*p-K)/s+1, (W+2*p-K)/s+1
	y := onnxTensor{shape: []int{B, OC, OH, OW}}
	for i := range B * OC * OH * OW {
		b, oc, oh, ow := i/(OC*OH*OW), i/(OH*OW)%OC, i/OW%OH, i%OW
		var sum float64
		if len(in) == 3 {
			sum = in[2].v[oc]
		}
		for k := range C * K * K {
			c, h, v := k/(K*K), oh*s-p+k/K%K, ow*s-p+k%K
			if h >= 0 && h < H && v >= 0 && v < W {
				sum += x.v[((b*C+c)*H+h)*W+v] * w.v[oc*C*K*K+k]
			}
		}
		y.v = append(y.v, sum)
	}
	return y
}

func (n onnxNode) pool(x onnxTensor) onnxTensor {
	K, s, H, W := n.ints["kernel_shape"][0], n.ints["strides"][0], x.shape[2], x.shape[3]
	OH, OW := (H-K)/s+1, (W-K)/s+1
	y := onnxTensor{shape: []int{x.shape[0], x.shape[1], OH, OW}}
	for i := range x.shape[0] * x.shape[1] * OH * OW {
		plane, oh, ow := i/(OH*OW), i/OW%OH, i%OW
		largest, sum := math.Inf(-1), 0.0
		for k := range K * K {
			v := x.v[(plane*H+oh*s+k/K)*W+ow*s+k%K]
			largest, sum = max(largest, v), sum+v
		}
		if n.op == "MaxPool" {
			y.v = append(y.v, largest)
		} else {
			y.v = append(y.v, sum/float64(K*K))
		}
	}
	return y
}
