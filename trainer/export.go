package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/device/cpu"
	"halfstep/half"
	"halfstep/philox"
	"halfstep/program"
	"halfstep/runs"
	"halfstep/runs/onnx"
	"halfstep/runs/safetensors"
)

// exportSamples is how many samples an export is tried on.
const exportSamples = 64

// The formats of an export.
const (
	FormatSafetensors = "safetensors"
	FormatONNX        = "onnx"
)

// ExportOptions say what to export.
type ExportOptions struct {
	UseOptions
	Format string // safetensors or onnx; empty: onnx where Out ends so, else safetensors
	Out    string // file, or folder for model.safetensors or model.onnx; empty: the run folder
	DType  string // of the weights: float32, float16 or bfloat16; empty is float32
}

// format is the one asked for, or that of the file's name, which must not say otherwise.
func (o ExportOptions) format() (string, error) {
	named := ""
	switch ext := strings.ToLower(filepath.Ext(o.Out)); ext {
	case ".pt", ".pth":
		return "", &ConfigError{Key: "--out", Message: fmt.Sprintf("%s: %s is the name of what torch.load reads; want .safetensors or .onnx", o.Out, ext)}
	case "." + FormatSafetensors, "." + FormatONNX:
		named = ext[1:]
	}
	switch o.Format {
	case FormatSafetensors, FormatONNX:
		if named != "" && named != o.Format {
			return "", &ConfigError{Key: "--out", Message: fmt.Sprintf("%s is the name of another format than --format %s", o.Out, o.Format)}
		}
		return o.Format, nil
	case "":
		return orElse(named, FormatSafetensors), nil
	}
	return "", &ConfigError{Key: "--format", Message: fmt.Sprintf("%q, want safetensors or onnx", o.Format)}
}

// target is the path of the file to write for a run.
func (o ExportOptions) target(dir, format string) (string, error) {
	path := orElse(o.Out, dir)
	refuse := func(why string) (string, error) {
		return "", &ConfigError{Key: "--out", Message: fmt.Sprintf("%s: %s", path, why)}
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, "model."+format)
		info, err = os.Stat(path)
	}
	if err == nil && !info.Mode().IsRegular() {
		return refuse("not a regular file")
	}
	folder := filepath.Dir(path)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return refuse("there is no folder " + folder)
	}
	if runs.Owns(path) {
		return refuse("a run's own file, which is not overwritten")
	}
	return path, nil
}

// Exported tells what was written.
type Exported struct {
	Path       string   `json:"path"`
	Format     string   `json:"format"`
	DType      string   `json:"dtype"`
	Bytes      int64    `json:"bytes"`
	Tensors    int      `json:"tensors"`
	Step       int      `json:"step"`
	Samples    int      `json:"samples"`        // compared
	Difference float64  `json:"max_difference"` // of an output by the rounding to DType
	Outputs    float64  `json:"max_output"`     // largest absolute output, which the difference is to be seen against
	Warnings   []string `json:"warnings,omitempty"`
}

// Export writes the model of a run: its weights as a safetensors file, or weights and inference graph as an ONNX model, under
// PyTorch's names and in its layout. It tells what rounding to DType does to the outputs on random samples. A safetensors file is
// read back before it gets its name, and its outputs must be, bit for bit, those of the weights that went in, rounded.
func Export(ctx context.Context, dir string, o ExportOptions) (*Exported, error) {
	dtype, err := program.ParseDType(orElse(o.DType, "float32"))
	if err != nil || !dtype.Float() {
		return nil, &ConfigError{Key: "--dtype", Message: fmt.Sprintf("%q, want float32, float16 or bfloat16", o.DType)}
	}
	format, err := o.format()
	if err != nil {
		return nil, err
	}
	path, err := o.target(dir, format)
	if err != nil {
		return nil, err
	}
	r, c, warnings, err := openRun(dir, o.UseOptions)
	if err != nil {
		return nil, err
	}
	x := &export{cfg: r.Config, from: weightsOnly(c), format: format, dtype: dtype, path: path}
	x.cfg.AMP.Enabled = false // the weights are compared, not the arithmetic
	x.meta = map[string]string{
		"name": r.Config.Name, "run": runID(dir), "step": strconv.Itoa(c.Step), "input_shape": c.Meta[metaShape],
		"normalize_mean": fmt.Sprint(r.Config.Data.Normalize.Mean), "normalize_std": fmt.Sprint(r.Config.Data.Normalize.Std),
	}
	for _, t := range x.from.Tensors {
		x.tensors = append(x.tensors, rounded(t, dtype))
	}
	if x.dev, err = cpu.Open(cpu.Options{Threads: r.Config.Threads}); err != nil {
		return nil, err
	}
	defer x.dev.Close()
	e, err := x.write(ctx)
	if err != nil {
		return nil, err
	}
	e.Warnings = warnings
	return e, nil
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// weightsOnly is a checkpoint without the optimizer's state.
func weightsOnly(c *runs.Checkpoint) *runs.Checkpoint {
	w := *c
	w.Tensors = nil
	for _, t := range c.Tensors {
		if !isOptimizer(t.Name) {
			w.Tensors = append(w.Tensors, t)
		}
	}
	return &w
}

type export struct {
	cfg     configs.Config
	from    *runs.Checkpoint
	format  string
	dtype   program.DType
	path    string
	tensors []safetensors.Tensor // what is written
	meta    map[string]string
	dev     device.Device
}

// write writes the file under another name, tries it, and renames it.
func (x *export) write(ctx context.Context) (*Exported, error) {
	e := &Exported{Path: x.path, Format: x.format, DType: x.dtype.String(), Tensors: len(x.tensors), Step: x.from.Step, Samples: exportSamples}
	if err := x.writeFile(ctx, e); err != nil {
		return nil, fmt.Errorf("export: %s: %w", x.path, err)
	}
	info, err := os.Stat(x.path)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	e.Bytes = info.Size()
	return e, nil
}

func (x *export) writeFile(ctx context.Context, e *Exported) error {
	encode, err := x.encoder()
	if err != nil {
		return err
	}
	file, err := runs.Stage(x.path, encode)
	if err != nil {
		return err
	}
	if err := x.compare(ctx, file.Name(), e); err != nil {
		return errors.Join(err, file.Drop())
	}
	return file.Commit()
}

// encoder gives what writes the model in its format.
func (x *export) encoder() (func(io.Writer) error, error) {
	if x.format == FormatONNX {
		m, err := onnxModel(x)
		return func(w io.Writer) error { return onnx.Write(w, m) }, err
	}
	f := &safetensors.File{Tensors: x.tensors, Meta: maps.Clone(x.meta)}
	f.Meta["format"] = "pt"
	return func(w io.Writer) error { return safetensors.Write(w, f) }, nil
}

// compare computes the outputs of the weights that went in and of those rounded, and of what a safetensors file holds.
func (x *export) compare(ctx context.Context, path string, e *Exported) error {
	full, err := x.outputs(ctx, x.from.Tensors)
	if err != nil {
		return err
	}
	written, err := x.outputs(ctx, x.tensors)
	if err != nil {
		return err
	}
	if x.format == FormatSafetensors {
		if err := x.readBack(ctx, path, written); err != nil {
			return err
		}
	}
	for k, v := range full {
		e.Outputs = max(e.Outputs, math.Abs(float64(v)))
		e.Difference = max(e.Difference, math.Abs(float64(v)-float64(written[k])))
	}
	if !finite([]float32{float32(e.Difference)}) {
		return fmt.Errorf("the weights give outputs that are not finite in %s; export them as float32", x.dtype)
	}
	return nil
}

// readBack refuses a file whose weights give other outputs than those that were written.
func (x *export) readBack(ctx context.Context, path string, want []float32) error {
	file, err := safetensors.ReadFile(path)
	if err != nil {
		return err
	}
	got, err := x.outputs(ctx, file.Tensors)
	if err != nil {
		return err
	}
	if !slices.Equal(device.Bytes(want), device.Bytes(got)) {
		return errors.New("the file was read back with other outputs than the weights that were written")
	}
	return nil
}

// outputs are those of weights for random samples.
func (x *export) outputs(ctx context.Context, tensors []safetensors.Tensor) ([]float32, error) {
	c := *x.from
	c.Tensors = nil
	for _, t := range tensors {
		c.Tensors = append(c.Tensors, widened(t))
	}
	k, err := NewClassifier(x.cfg, &c, x.dev)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	return k.Outputs(ctx, randomSamples(k.asm.set, exportSamples))
}

// randomSamples are of the shape of a set's.
func randomSamples(set *data.Set, n int) data.Split {
	s := data.Split{N: n}
	random := philox.NewStream(0, philox.Random, 0, 0)
	if set.Features > 0 {
		s.Inputs = make([]float32, n*set.Features)
		for i := range s.Inputs {
			s.Inputs[i] = float32(random.Normal())
		}
		return s
	}
	s.Images = make([]byte, n*set.Height*set.Width*set.Channels)
	for i := range s.Images {
		s.Images[i] = byte(random.Uint32())
	}
	return s
}

// rounded is a float32 tensor in another type.
func rounded(t safetensors.Tensor, d program.DType) safetensors.Tensor {
	if !d.Half() {
		return t
	}
	v := float32s(t)
	h := make([]uint16, len(v))
	if d == program.Float16 {
		half.EncodeFloat16(h, v)
	} else {
		half.EncodeBFloat16(h, v)
	}
	t.DType, t.Data = safetensors.Of(d.String()), device.Bytes(h)
	return t
}

// widened is a tensor of any of the types in float32.
func widened(t safetensors.Tensor) safetensors.Tensor {
	if t.DType == safetensors.F32 {
		return t
	}
	h := make([]uint16, len(t.Data)/2)
	copy(device.Bytes(h), t.Data)
	v := make([]float32, len(h))
	if t.DType == safetensors.F16 {
		half.DecodeFloat16(v, h)
	} else {
		half.DecodeBFloat16(v, h)
	}
	t.DType, t.Data = safetensors.F32, device.Bytes(v)
	return t
}

// float32s are a float32 tensor's elements.
func float32s(t safetensors.Tensor) []float32 {
	v := make([]float32, len(t.Data)/4)
	copy(device.Bytes(v), t.Data)
	return v
}
