package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"halfstep/amp"
	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/program"
	"halfstep/runs"
)

// classifierBatch is how many samples a Classifier computes at a time.
const classifierBatch = 64

// Names of the persistent values of a Classifier.
const (
	classifierSplit = "input"
	classifierOut   = "input/outputs"
)

// Classifier is a trained model without its optimizer and training data: what predictions and exports need.
type Classifier struct {
	weights
	asm   *assembler
	dev   device.Device
	arena device.Arena
	exec  device.Executable
	width int           // outputs of a sample
	owned device.Device // closed with the classifier; nil: the caller's
}

// NewClassifier builds the model of a configuration on a device and gives it the weights of a checkpoint. The shape of its
// input comes from the checkpoint, so the data it was trained on need not be there.
func NewClassifier(c configs.Config, from *runs.Checkpoint, d device.Device) (*Classifier, error) {
	a, err := classifierAssembler(c, from, d)
	if err != nil {
		return nil, err
	}
	k := &Classifier{asm: a, dev: d}
	p, err := k.asm.classify(classifierBatch)
	if err != nil {
		return nil, err
	}
	if err := k.compile(p); err != nil {
		return nil, fmt.Errorf("trainer: classifier: %w", err)
	}
	if err := k.restore(k.saved(), from); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// classifierAssembler builds programs for samples of the shape that a checkpoint tells.
func classifierAssembler(c configs.Config, from *runs.Checkpoint, d device.Device) (*assembler, error) {
	var s shape
	if err := json.Unmarshal([]byte(from.Meta[metaShape]), &s); err != nil {
		return nil, fmt.Errorf("trainer: classifier: the checkpoint does not tell the shape of its input: %w", err)
	}
	dtype, err := DTypeOf(c)
	if err != nil {
		return nil, err
	}
	c.Data.Resident = true
	set := &data.Set{Height: s.Height, Width: s.Width, Channels: s.Channels, Classes: s.Classes, Features: s.Features, Targets: s.Targets}
	set.Test.N = classifierBatch
	return &assembler{cfg: c, set: set, dev: d, dtype: dtype}, nil
}

// inference builds the input and the forward pass of batch samples, in float32, unfused.
func (a *assembler) inference(batch int) (*parts, error) {
	m, err := a.model(batch, false)
	if err != nil {
		return nil, err
	}
	p := &program.Program{Name: "classify"}
	counters := p.NewPersistent(evalCounters, program.RoleState, program.Int32, program.NumCounters)
	in := a.gather(p, m, batch, "test", classifierSplit+"/order", counters, false)
	return a.lower(p, m, in)
}

// classify builds the forward-only program that leaves its outputs in float32.
func (a *assembler) classify(batch int) (*parts, error) {
	t, err := a.inference(batch)
	if err != nil {
		return nil, err
	}
	if err := a.precision(t); err != nil {
		return nil, err
	}
	p, logits := t.program, t.lowered.Logits
	out := p.NewPersistent(classifierOut, program.RoleMetric, program.Float32, logits.Shape...)
	p.Emit(program.Metrics, "", program.Cast{}, []*program.Value{logits}, []*program.Value{out}, nil)
	return t, a.finish(t)
}

func (k *Classifier) compile(p *parts) error {
	k.describe(p.model, p.program)
	k.width = p.lowered.Logits.Elems() / classifierBatch
	m := amp.Plan(p.program)
	if err := Fits(m, k.dev); err != nil {
		return err
	}
	var err error
	if k.store, err = k.dev.NewStore(p.program.Persistent()); err != nil {
		return err
	}
	if k.arena, err = k.dev.NewArena(m.Arena); err != nil {
		return errors.Join(err, k.store.Close())
	}
	k.exec, err = k.dev.Compile(p.program, k.store, k.arena)
	if err == nil {
		err = device.Write(k.store, classifierSplit+"/order", identity(classifierBatch))
	}
	if err != nil {
		return errors.Join(err, k.Close())
	}
	return nil
}

// Close frees the device's memory, and the device where the classifier opened it.
func (k *Classifier) Close() error {
	err := errors.Join(k.arena.Close(), k.store.Close())
	if k.owned != nil {
		err = errors.Join(err, k.owned.Close())
	}
	return err
}

// Dataset is the name of the data set that the model was trained on.
func (k *Classifier) Dataset() string { return k.asm.cfg.Data.Name }

// Shape is the height, width and channels of the images that the model takes, and the number of its classes; zeros where it
// takes or gives something else.
func (k *Classifier) Shape() (height, width, channels, classes int) {
	s := k.asm.set
	return s.Height, s.Width, s.Channels, s.Classes
}

// Outputs are the model's outputs for samples: images [N,H,W,C], or rows of features. [N,outputs]
func (k *Classifier) Outputs(ctx context.Context, s data.Split) ([]float32, error) {
	r := make([]float32, 0, s.N*k.width)
	for from := 0; from < s.N; from += classifierBatch {
		n := min(classifierBatch, s.N-from)
		w := &writer{store: k.store}
		put(w, evalCounters, make([]int32, program.NumCounters))
		if s.Inputs != nil {
			put(w, "test/inputs", padded(s.Inputs, from, n, k.asm.set.Features))
		} else {
			put(w, "test/images", padded(s.Images, from, n, k.asm.set.Height*k.asm.set.Width*k.asm.set.Channels))
		}
		if w.err != nil {
			return nil, fmt.Errorf("trainer: classifier: %w", w.err)
		}
		if err := k.exec.Run(ctx, 1); err != nil {
			return nil, err
		}
		out, err := device.Read[float32](k.store, classifierOut, classifierBatch*k.width)
		if err != nil {
			return nil, fmt.Errorf("trainer: classifier: %w", err)
		}
		r = append(r, out[:n*k.width]...)
	}
	return r, nil
}

// padded is n samples of size elements from one on, filled up to a batch with zeros.
func padded[E float32 | uint8](v []E, from, n, size int) []E {
	b := make([]E, classifierBatch*size)
	copy(b, v[from*size:(from+n)*size])
	return b
}

// checkImages refuses a model that takes or gives something else than images and classes.
func (k *Classifier) checkImages() error {
	if s := k.asm.set; s.Height*s.Width == 0 || s.Classes == 0 {
		return &ConfigError{Key: k.asm.cfg.Name, Message: "its model does not classify images"}
	}
	return nil
}

// Probabilities are the classes' probabilities for images [N,H,W,C]: the model's outputs where it ends in softmax, else their
// softmax. [N,classes]
func (k *Classifier) Probabilities(ctx context.Context, images []byte) ([]float64, error) {
	size := k.asm.set.Height * k.asm.set.Width * k.asm.set.Channels
	if err := k.checkImages(); err != nil {
		return nil, err
	}
	out, err := k.Outputs(ctx, data.Split{N: len(images) / size, Images: images})
	if err != nil {
		return nil, err
	}
	layers := k.asm.cfg.Model.Layers
	softmax := layers[len(layers)-1].Kind == "softmax"
	r := make([]float64, len(out))
	for at := 0; at < len(out); at += k.width {
		row := out[at : at+k.width]
		total := logSumExp(row)
		for j, v := range row {
			if softmax {
				r[at+j] = float64(v)
			} else {
				r[at+j] = math.Exp(float64(v) - total)
			}
		}
	}
	return r, nil
}
