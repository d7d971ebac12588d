package trainer

import (
	"fmt"
	"strings"

	"halfstep/amp"
	"halfstep/device"
	"halfstep/half"
	"halfstep/model"
	"halfstep/program"
	"halfstep/runs"
	"halfstep/runs/safetensors"
)

// weights are a model's parameters and running statistics in a device's store.
type weights struct {
	store   device.Store
	params  []model.Param
	norms   []model.BatchNorm
	halves  map[string]program.DType // of the parameters that have a half copy
	shadows bool                     // micro-batches move shadows of the running statistics
}

// describe takes parameters and statistics from a model, and half copies from a program of it.
func (w *weights) describe(m *model.Model, p *program.Program) {
	w.params, w.norms, w.halves = m.Params, m.BatchNorms, map[string]program.DType{}
	for _, q := range m.Params {
		if h := p.Lookup(amp.HalfCopyName(q.Name)); h != nil {
			w.halves[q.Name] = h.DType
		}
	}
}

// saved is a value of the store that checkpoints hold, with its layout. States follow their parameter's layout.
type saved struct {
	name   string
	tensor string // in the file
	layout model.Param
	key    string // of the configuration, which says that there is such a value
	write  func(to *writer, v []float32)
}

// torchName is a parameter's name as PyTorch writes it: "conv1.weight".
func torchName(name string) string { return strings.ReplaceAll(name, "/", ".") }

// saved lists parameters and running statistics.
func (w *weights) saved() []saved {
	var r []saved
	for _, p := range w.params {
		r = append(r, saved{p.Name, torchName(p.Name), p, "model", func(to *writer, v []float32) { w.writeParam(to, p, v) }})
	}
	for _, n := range w.norms {
		for _, name := range []string{n.RunningMean, n.RunningVar} {
			r = append(r, saved{name, torchName(name), n.Statistic(name), "model", func(to *writer, v []float32) { w.writeRunning(to, name, v) }})
		}
	}
	return r
}

// tensors reads values from the store, in PyTorch's layout.
func (w *weights) tensors(list []saved) ([]safetensors.Tensor, error) {
	var r []safetensors.Tensor
	for _, v := range list {
		x, err := device.Read[float32](w.store, v.name, v.layout.Elems())
		if err != nil {
			return nil, err
		}
		r = append(r, safetensors.Tensor{
			Name: v.tensor, DType: safetensors.F32, Shape: v.layout.TorchShape(), Data: device.Bytes(model.ToTorch(v.layout, x)),
		})
	}
	return r, nil
}

// restore writes the tensors of a checkpoint to the store. One that the configuration wants and the checkpoint lacks is a
// *ConfigError.
func (w *weights) restore(list []saved, c *runs.Checkpoint) error {
	to := &writer{store: w.store}
	for _, v := range list {
		x := c.Lookup(v.tensor)
		if x == nil || x.DType != safetensors.F32 || len(x.Data) != 4*v.layout.Elems() {
			return &ConfigError{Key: v.key, Message: fmt.Sprintf("the checkpoint has no tensor for it: float32 %s of shape %v", v.tensor, v.layout.TorchShape())}
		}
		v.write(to, model.FromTorch(v.layout, float32s(*x)))
	}
	if to.err != nil {
		return fmt.Errorf("trainer: restore: %w", to.err)
	}
	return nil
}

// writeParam writes a parameter and its half copy.
func (w *weights) writeParam(to *writer, p model.Param, v []float32) {
	put(to, p.Name, v)
	d, ok := w.halves[p.Name]
	if !ok {
		return
	}
	h := make([]uint16, len(v))
	if d == program.Float16 {
		half.EncodeFloat16(h, v)
	} else {
		half.EncodeBFloat16(h, v)
	}
	put(to, amp.HalfCopyName(p.Name), h)
}

// writeRunning writes a running statistic and its shadow.
func (w *weights) writeRunning(to *writer, name string, v []float32) {
	put(to, name, v)
	if w.shadows {
		put(to, name+shadowSuffix, v)
	}
}

// writer writes to a store until something fails.
type writer struct {
	store device.Store
	err   error
}

func put[E float32 | uint16 | int32 | uint8](w *writer, name string, v []E) {
	if w.err == nil {
		w.err = device.Write(w.store, name, v)
	}
}
