package trainer

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/runs"
	"halfstep/runs/safetensors"
)

// everyLayer has each kind of layer, images and rows, with strides, padding, overlapping windows, flattened images that PyTorch
// orders otherwise, and a residual block around them.
const everyLayer = `
epochs: 1
max_steps: 12
device: cpu
data: {batch_size: 32}
model:
  layers:
    - conv2d: {filters: 5, kernel: 3, stride: 2, padding: 1, bias: false}
    - batch_norm
    - gelu
    - residual: {layers: [{conv2d: {filters: 5, kernel: 3, padding: 1}}, {batch_norm: {eps: 0.01}}, {gelu: {approximate: tanh}}, {dropout: {rate: 0.1}}, tanh]}
    - avg_pool2d: {size: 3, stride: 2}
    - conv2d: {filters: 4, kernel: 2}
    - sigmoid
    - max_pool2d: {size: 2, stride: 1}
    - flatten
    - batch_norm
    - residual: {layers: [{linear: {units: 64, bias: false}}, relu]}
    - linear: {units: 10}
    - softmax
loss: {name: mse}
optim: {name: adam, lr: 0.01}
`

// trainedRun trains a configuration and gives its run folder, with the last checkpoint at step 12.
func trainedRun(t *testing.T, r *configs.Resolved, set *data.Set) string {
	t.Helper()
	tr, _, _ := fit(t, r.Config, set, open(t, nil, 0))
	text, err := r.Config.YAML()
	if err != nil {
		t.Fatal(err)
	}
	run, err := runs.Create(t.TempDir(), r.Config.Name, time.Now(), runs.Options{Config: text})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runs.SaveCheckpoint(run.CheckpointDir(), 12, checkpoint(t, tr)); err != nil {
		t.Fatal(err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	return run.Dir
}

// exported exports a run and reads the file.
func exported(t *testing.T, dir string, o ExportOptions) []byte {
	t.Helper()
	e, err := Export(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	if e.Bytes != int64(len(b)) {
		t.Errorf("%d bytes are reported, %d in the file", e.Bytes, len(b))
	}
	return b
}

// outputsOf are the outputs that the weights of a run's safetensors export have on the CPU, in float32, for the first n test
// images, and these images as PyTorch normalises and orders them.
func outputsOf(t *testing.T, dir string, o ExportOptions, n int) (want []float32, x onnxTensor) {
	t.Helper()
	o.Format = FormatSafetensors
	f, err := safetensors.Decode(exported(t, dir, o))
	if err != nil {
		t.Fatal(err)
	}
	r, c, _, err := openRun(dir, UseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Tensors = nil
	for _, w := range f.Tensors {
		c.Tensors = append(c.Tensors, widened(w))
	}
	k, err := NewClassifier(r.Config, c, open(t, nil, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	s := images(t, 1, n).Test
	if want, err = k.Outputs(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	x.shape = []int{n, 1, 28, 28}
	for _, b := range s.Images {
		x.v = append(x.v, float64((float32(b)/255-0.1307)/0.3081))
	}
	return want, x
}

// The graph of an exported model, run by the operators' definitions on the weights in the file, gives the outputs of the model.
func TestONNXGivesTheOutputs(t *testing.T) {
	dir := trainedRun(t, load(t, everyLayer), images(t, 512, 64))
	for dtype, kind := range map[string]uint64{"float32": 1, "float16": 10, "bfloat16": 16} {
		want, x := outputsOf(t, dir, ExportOptions{DType: dtype}, 16)
		f := decodeONNX(t, exported(t, dir, ExportOptions{Format: FormatONNX, DType: dtype}))
		for name, k := range f.types {
			if k != kind && strings.Contains(name, ".") { // the constants of GELU are float32
				t.Errorf("%s: %s has element type %d, want %d", dtype, name, k, kind)
			}
		}
		got := f.eval(t, x)
		if d := cmp.Diff([]int{16, 10}, got.shape); d != "" {
			t.Fatal(d)
		}
		var worst, spread float64
		for i, v := range got.v {
			worst = max(worst, math.Abs(v-float64(want[i])))
			spread = max(spread, math.Abs(v-got.v[i%10])) // from the same output of the first image
		}
		t.Logf("%s: outputs differ by at most %.3g; those of two images by %.3g", dtype, worst, spread)
		// Probabilities after a dozen layers that sum up to 64 products of numbers near 1. Each sum is off by about √64·2⁻²⁴, all by
		// 12 times that: 6e-6. Images differ by more than a hundred times the bound, so that a wrong layer would be seen.
		if worst > 6e-6 || spread < 100*6e-6 {
			t.Errorf("%s: outputs differ by %g, those of two images by %g", dtype, worst, spread)
		}
	}
}

const smallNet = `
name: net
epochs: 1
max_steps: 2
device: cpu
data: {batch_size: 32}
model:
  layers: [{conv2d: {filters: 4, kernel: 3, padding: 1}}, relu, {max_pool2d: {size: 2}}, {dropout: {rate: 0.4}}, flatten, {linear: {units: 10}}]
amp: {enabled: true}
`

// What the file declares: versions, nodes in order with their attributes, shapes, metadata, and the weights of the safetensors file.
func TestONNXFile(t *testing.T) {
	dir := trainedRun(t, load(t, smallNet), images(t, 512, 64))
	o := ExportOptions{Out: filepath.Join(t.TempDir(), "net.ONNX")} // the format is that of the name
	b := exported(t, dir, o)
	f := decodeONNX(t, b)
	if f.ir != 8 || f.opset != 17 {
		t.Errorf("IR version %d, opset %d", f.ir, f.opset)
	}
	none := map[string]float64{}
	want := []onnxNode{
		{"Conv", []string{"input", "conv1.weight", "conv1.bias"}, []string{"conv1/y"}, map[string][]int{"kernel_shape": {3, 3}, "pads": {1, 1, 1, 1}, "strides": {1, 1}}, none},
		{"Relu", []string{"conv1/y"}, []string{"relu1/y"}, map[string][]int{}, none},
		{"MaxPool", []string{"relu1/y"}, []string{"pool1/y"}, map[string][]int{"kernel_shape": {2, 2}, "strides": {2, 2}}, none},
		{"Flatten", []string{"pool1/y"}, []string{"flatten1/y"}, map[string][]int{}, map[string]float64{"axis": 1}},
		{"Gemm", []string{"flatten1/y", "linear1.weight", "linear1.bias"}, []string{"logits"}, map[string][]int{}, map[string]float64{"transB": 1}},
	}
	if d := cmp.Diff(want, f.nodes, cmp.AllowUnexported(onnxNode{})); d != "" {
		t.Error(d)
	}
	got := []string{f.input, strings.Join(f.inputDims, ","), f.output, strings.Join(f.outputDims, ",")}
	if d := cmp.Diff([]string{"input", "N,1,28,28", "logits", "N,10"}, got); d != "" {
		t.Error(d)
	}
	if f.meta["normalize_mean"] != "0.1307" || f.meta["normalize_std"] != "0.3081" || f.meta["name"] != "net" || f.meta["step"] != "12" {
		t.Errorf("metadata %v", f.meta)
	}
	weights, err := safetensors.Decode(exported(t, dir, ExportOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	if len(weights.Tensors) != 4 || len(f.weights) != 4 {
		t.Errorf("%d tensors, %d initializers, want 4", len(weights.Tensors), len(f.weights))
	}
	for _, w := range weights.Tensors {
		x := f.weights[w.Name]
		if d := cmp.Diff(w.Shape, x.shape); d != "" {
			t.Errorf("%s: shape %s", w.Name, d)
		}
		if !slices.EqualFunc(float32s(w), x.v, func(a float32, b float64) bool { return float64(a) == b }) {
			t.Errorf("%s has other values than in the safetensors file", w.Name)
		}
	}
	if !bytes.Equal(b, exported(t, dir, o)) {
		t.Error("the same model gave other bytes")
	}
}

// A model of rows takes rows. Unknown formats are refused, and a failed export leaves nothing behind.
func TestONNXOfRows(t *testing.T) {
	r := load(t, `
epochs: 1
device: cpu
data: {name: random, batch_size: 8, random: {samples: 32, features: 6, targets: 3}}
model: {layers: [{linear: {units: 4}}, relu, {linear: {units: 3, bias: false}}]}
loss: {name: mse}
`)
	set, err := data.Open(r.Config.Data, r.Config.Seed)
	if err != nil {
		t.Fatal(err)
	}
	dir := trainedRun(t, r, set)
	f := decodeONNX(t, exported(t, dir, ExportOptions{Format: FormatONNX}))
	got := []string{strings.Join(f.inputDims, ","), strings.Join(f.outputDims, ",")}
	if d := cmp.Diff([]string{"N,6", "N,3"}, got); d != "" {
		t.Error(d)
	}
	if n := f.nodes[2]; n.op != "Gemm" || len(n.in) != 2 {
		t.Errorf("%+v", n)
	}
	if _, err := Export(context.Background(), dir, ExportOptions{Format: "tflite"}); ExitCode(err) != ExitUsage {
		t.Error(err)
	}
	folder := t.TempDir()
	if _, err := Export(context.Background(), dir, ExportOptions{Format: FormatONNX, Out: filepath.Join(folder, "none", "x.onnx")}); err == nil {
		t.Error("exported to a folder that is not there")
	}
	if list, _ := os.ReadDir(folder); len(list) > 0 {
		t.Errorf("left behind: %v", list)
	}
}
