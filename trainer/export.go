package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/device/cpu"
	"halfstep/half"
	"halfstep/philox"
	"halfstep/program"
	"halfstep/runs"
	"halfstep/runs/safetensors"
)

// exportSamples is how many samples an export is tried on.
const exportSamples = 64

// ExportOptions say what to export.
type ExportOptions struct {
	UseOptions
	Out   string // file; empty: model.safetensors in the run folder
	DType string // float32, float16 or bfloat16; empty is float32
}

// Exported tells what was written.
type Exported struct {
	Path       string  `json:"path"`
	DType      string  `json:"dtype"`
	Bytes      int64   `json:"bytes"`
	Tensors    int     `json:"tensors"`
	Step       int     `json:"step"`
	Samples    int     `json:"samples"`        // compared
	Difference float64 `json:"max_difference"` // of an output by the rounding to DType
	Outputs    float64 `json:"max_output"`     // largest absolute output, which the difference is to be seen against
}

// Export writes the weights of a run as a safetensors file under PyTorch's names and in its layout. Before the file gets its
// name it is read back, and its outputs on random samples must be, bit for bit, those of the weights that went in, rounded to
// the file's type.
func Export(ctx context.Context, dir string, o ExportOptions) (*Exported, error) {
	dtype, err := program.ParseDType(orElse(o.DType, "float32"))
	if err != nil || !dtype.Float() {
		return nil, &ConfigError{Key: "--dtype", Message: fmt.Sprintf("%q, want float32, float16 or bfloat16", o.DType)}
	}
	r, c, err := openRun(dir, o.UseOptions)
	if err != nil {
		return nil, err
	}
	x := &export{cfg: r.Config, from: weightsOnly(c), dtype: dtype, path: orElse(o.Out, filepath.Join(dir, "model.safetensors"))}
	x.cfg.AMP.Enabled = false // the weights are compared, not the arithmetic
	x.file = &safetensors.File{Meta: map[string]string{
		"format": "pt", "name": r.Config.Name, "run": runID(dir), "step": strconv.Itoa(c.Step), "input_shape": c.Meta[metaShape],
		"normalize_mean": fmt.Sprint(r.Config.Data.Normalize.Mean), "normalize_std": fmt.Sprint(r.Config.Data.Normalize.Std),
	}}
	for _, t := range x.from.Tensors {
		x.file.Tensors = append(x.file.Tensors, rounded(t, dtype))
	}
	if x.dev, err = cpu.Open(cpu.Options{Threads: r.Config.Threads}); err != nil {
		return nil, err
	}
	defer x.dev.Close()
	return x.write(ctx)
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
	cfg   configs.Config
	from  *runs.Checkpoint
	dtype program.DType
	path  string
	file  *safetensors.File
	dev   device.Device
}

// write writes the file under another name, tries it, and renames it.
func (x *export) write(ctx context.Context) (*Exported, error) {
	temp := x.path + ".tmp"
	e := &Exported{Path: x.path, DType: x.dtype.String(), Tensors: len(x.file.Tensors), Step: x.from.Step, Samples: exportSamples}
	err := x.writeFile(temp)
	if err == nil {
		err = x.compare(ctx, temp, e)
	}
	if err == nil {
		err = os.Rename(temp, x.path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("export: %w", err), removeIfThere(temp))
	}
	info, err := os.Stat(x.path)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	e.Bytes = info.Size()
	return e, nil
}

func (x *export) writeFile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(safetensors.Write(f, x.file), f.Sync(), f.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// compare reads the file back and computes the outputs of its weights, of those that went in, and of those rounded.
func (x *export) compare(ctx context.Context, path string, e *Exported) error {
	file, err := safetensors.ReadFile(path)
	if err != nil {
		return err
	}
	var outputs [3][]float32
	for k, tensors := range [][]safetensors.Tensor{x.from.Tensors, x.file.Tensors, file.Tensors} {
		if outputs[k], err = x.outputs(ctx, tensors); err != nil {
			return err
		}
	}
	full, want, got := outputs[0], outputs[1], outputs[2]
	if !slices.Equal(device.Bytes(want), device.Bytes(got)) {
		return fmt.Errorf("%s was read back with other outputs than the weights that were written", path)
	}
	for k, v := range full {
		e.Outputs = max(e.Outputs, math.Abs(float64(v)))
		e.Difference = max(e.Difference, math.Abs(float64(v)-float64(got[k])))
	}
	if !finite([]float32{float32(e.Difference)}) {
		return fmt.Errorf("the weights give outputs that are not finite in %s; export them as float32", x.dtype)
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
