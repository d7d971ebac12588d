// Package trainer fits and evaluates: it builds the step's programs for a device, keeps the data there, runs epochs, and
// turns what the device measured into events. It knows no assembly and no YAML.
package trainer

import (
	"fmt"

	"halfstep/amp"
	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/model"
	"halfstep/optim"
	"halfstep/program"
	"halfstep/runs"
)

// Options connect a Trainer to the outside. Nil functions do nothing.
type Options struct {
	Emit func(runs.Event)
	// Save stores a checkpoint of an epoch, from 1; best says that it has the best validation accuracy so far.
	Save func(epoch, step int, c *runs.Checkpoint, best bool) error
	// Progress is called after each burst of steps.
	Progress func(runs.Status)
}

// Trainer is one configuration on one device.
type Trainer struct {
	weights

	cfg      configs.Config
	set      *data.Set
	dev      device.Device
	opts     Options
	asm      *assembler
	schedule *optim.Schedule
	scaler   *amp.GradScaler

	train, tail    *unit // whole steps, or micro-batches when gradients are accumulated
	update         *unit // accumulation only: ends a full group
	tailUpdate     *unit // accumulation only: ends the last, smaller group of an epoch
	evals          map[string]*evaluator
	arena          device.Arena
	loader         *loader // nil: the data is resident
	memory         amp.Memory
	units          []*unit
	updatesAnEpoch int
	rates          [][2]float32 // learning rate and momentum of the epoch's updates

	state    state
	clock    func()      // brings state.Seconds up to date
	lastTest *Evaluation // of the parameters as they are; nil: not evaluated since the last step
}

// unit is a program with its compiled form.
type unit struct {
	*parts
	exec    device.Executable
	samples int // that one run of it consumes
}

// New builds, plans and compiles everything, and uploads data and initial parameters.
func New(cfg configs.Config, set *data.Set, dev device.Device, o Options) (*Trainer, error) {
	t := &Trainer{cfg: cfg, set: set, dev: dev, opts: o}
	if t.opts.Emit == nil {
		t.opts.Emit = func(runs.Event) {}
	}
	if t.opts.Progress == nil {
		t.opts.Progress = func(runs.Status) {}
	}
	if err := t.build(); err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	if err := t.allocate(); err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	if err := t.initialise(); err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	return t, nil
}

// Memory is the planned memory.
func (t *Trainer) Memory() amp.Memory { return t.memory }

// DType is the type that half operations compute in; float32 without AMP.
func (t *Trainer) DType() program.DType { return t.asm.dtype }

// Params lists the model's parameters.
func (t *Trainer) Params() []model.Param { return t.params }

// Model is the training graph at the full batch size.
func (t *Trainer) Model() *model.Model { return t.train.model }

// Program is the program of one full training step (or micro-batch).
func (t *Trainer) Program() *program.Program { return t.train.program }

// FLOPs is the number of floating-point operations of one full step: 2 per multiply-add of convolutions and linear layers,
// forward, by weight and by input, the last not for the first layer.
func (t *Trainer) FLOPs() int64 {
	var total int64
	first := true
	for _, l := range t.train.model.Layers {
		if l.FLOPs == 0 {
			continue
		}
		total += 3 * l.FLOPs
		if first {
			total -= l.FLOPs
			first = false
		}
	}
	return total
}

// DTypeOf is the type that a configuration computes in.
func DTypeOf(c configs.Config) (program.DType, error) {
	if !c.AMP.Enabled {
		return program.Float32, nil
	}
	return program.ParseDType(c.AMP.DType)
}

func (t *Trainer) build() error {
	dtype, err := DTypeOf(t.cfg)
	if err != nil {
		return err
	}
	step, err := optim.New(t.cfg.Optim)
	if err != nil {
		return err
	}
	t.scaler = amp.NewGradScaler(t.cfg.AMP.GradScaler, dtype)
	n, batch, every := len(t.set.TrainIndex), t.cfg.Data.BatchSize, max(1, t.cfg.Optim.Accumulate)
	tail := n % batch
	if t.cfg.Data.DropLast {
		tail = 0
	}
	if n < batch {
		return &ConfigError{Key: "data.batch_size", Message: fmt.Sprintf("%d, but there are only %d training samples", batch, n)}
	}
	micros := n / batch
	if tail > 0 {
		micros++
	}
	t.updatesAnEpoch = (micros + every - 1) / every
	if t.schedule, err = optim.NewSchedule(t.cfg.Optim, t.cfg.Epochs, t.updatesAnEpoch); err != nil {
		return err
	}
	t.asm = &assembler{
		cfg: t.cfg, set: t.set, dev: t.dev, dtype: dtype, step: step, scaler: t.scaler.Rule(),
		ringRows: max(1, t.cfg.Log.Every), rates: t.updatesAnEpoch,
	}
	if err := t.asm.checkGorgonia(); err != nil {
		return err
	}
	if every > 1 {
		err = t.buildAccumulation(batch, tail, micros, every)
	} else {
		err = t.buildSteps(batch, tail)
	}
	if err != nil {
		return err
	}
	t.describe(t.train.model, t.train.program)
	t.shadows = every > 1
	return t.buildEvaluators()
}

func (t *Trainer) add(p *parts, samples int) *unit {
	u := &unit{parts: p, samples: samples}
	t.units = append(t.units, u)
	return u
}

// checkTail refuses a last batch that batch norm could not take statistics of.
func (t *Trainer) checkTail(tail int) error {
	if tail != 1 || len(t.train.model.BatchNorms) == 0 {
		return nil
	}
	return &ConfigError{Key: "data.batch_size", Message: fmt.Sprintf(
		"%d: the last batch of %d training samples has one sample, of which batch norm cannot take statistics; set data.drop_last: true or another batch size",
		t.train.samples, len(t.set.TrainIndex))}
}

func (t *Trainer) buildSteps(batch, tail int) error {
	p, err := t.asm.train("train", batch)
	if err != nil {
		return err
	}
	t.train = t.add(p, batch)
	if err := t.checkTail(tail); err != nil {
		return err
	}
	if tail > 0 {
		if p, err = t.asm.train("train-tail", tail); err != nil {
			return err
		}
		t.tail = t.add(p, tail)
	}
	return nil
}

func (t *Trainer) buildAccumulation(batch, tail, micros, every int) error {
	p, err := t.asm.micro("micro", batch)
	if err != nil {
		return err
	}
	t.train = t.add(p, batch)
	if err := t.checkTail(tail); err != nil {
		return err
	}
	if tail > 0 {
		if p, err = t.asm.micro("micro-tail", tail); err != nil {
			return err
		}
		t.tail = t.add(p, tail)
	}
	if p, err = t.asm.updateOnly("update", batch*every, t.train.parts); err != nil {
		return err
	}
	t.update = t.add(p, 0)
	if last := t.lastGroup(batch, tail, micros, every); last != batch*every {
		if p, err = t.asm.updateOnly("update-tail", last, t.train.parts); err != nil {
			return err
		}
		t.tailUpdate = t.add(p, 0)
	}
	return nil
}

// lastGroup is the number of samples of an epoch's last group of micro-batches.
func (t *Trainer) lastGroup(batch, tail, micros, every int) int {
	in := (micros-1)%every + 1
	if tail > 0 {
		return (in-1)*batch + tail
	}
	return in * batch
}

// plan sums up the memory of all programs.
func (t *Trainer) plan() amp.Memory {
	var programs []*program.Program
	for _, u := range t.units {
		programs = append(programs, u.program)
	}
	return amp.Plan(programs...)
}

// allocate makes store and arena for all programs and compiles them.
func (t *Trainer) allocate() error {
	t.memory = t.plan()
	if err := Fits(t.memory, t.dev); err != nil {
		return err
	}
	var err error
	for _, u := range t.units {
		if t.store == nil {
			t.store, err = t.dev.NewStore(u.program.Persistent())
		} else {
			err = t.store.Add(u.program.Persistent())
		}
		if err != nil {
			return err
		}
	}
	if t.arena, err = t.dev.NewArena(t.memory.Arena); err != nil {
		return err
	}
	for _, u := range t.units {
		if u.exec, err = t.compile(u); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trainer) compile(u *unit) (device.Executable, error) {
	if u.before != nil {
		return t.compileTape(u)
	}
	return t.dev.Compile(u.program, t.store, t.arena)
}

// initialise uploads the data once and the initial state.
func (t *Trainer) initialise() error {
	w := &writer{store: t.store}
	if t.loader = newLoader(t.cfg, t.set, t.store); t.loader == nil {
		t.uploadData(w)
	}
	for _, p := range t.params {
		t.writeParam(w, p, model.Init(p, t.cfg.Seed))
	}
	for _, n := range t.norms {
		ones := make([]float32, n.Mean.Shape()[0])
		for k := range ones {
			ones[k] = 1
		}
		t.writeRunning(w, n.RunningVar, ones)
	}
	t.state.scale = t.scaler.GetScale()
	put(w, optim.ScaleName, []float32{t.state.scale})
	return w.err
}

// uploadData writes the samples that stay on the device.
func (t *Trainer) uploadData(w *writer) {
	w.samples("train", &t.set.Train)
	if _, ok := t.evals["test"]; ok {
		w.samples("test", &t.set.Test)
	}
	for _, e := range t.evals {
		put(w, e.split.order(), e.order)
	}
}

func (w *writer) samples(name string, s *data.Split) {
	if s.Inputs != nil {
		put(w, name+"/inputs", s.Inputs)
		put(w, name+"/targets", s.Targets)
		return
	}
	put(w, name+"/images", s.Images)
	put(w, name+"/labels", s.Labels)
}

// Close frees the device's memory.
func (t *Trainer) Close() error {
	if err := t.arena.Close(); err != nil {
		return err
	}
	return t.store.Close()
}

// ConfigError is a setting that does not fit the data or the device.
type ConfigError struct{ Key, Message string }

func (e *ConfigError) Error() string { return fmt.Sprintf("%s: %s", e.Key, e.Message) }
