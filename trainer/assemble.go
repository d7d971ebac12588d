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
)

// Names of persistent values that the host writes or reads.
const (
	trainOrder     = "train/order"
	trainRing      = "train/ring"
	evalCounters   = "eval/counters"
	evalRing       = "eval/ring"
	groupWeight    = "accumulate/weight"
	groupLoss      = "accumulate/loss"
	groupCorrect   = "accumulate/correct"
	shadowSuffix   = ".shadow"
	sumSuffix      = ".sum"
	evalBatchLimit = 1024
)

// split names one of the sets of samples that are evaluated: its data and its order, both resident.
type split struct {
	name   string // test | validation
	source string // whose images: "train" or "test"
	n      int
}

func (s split) order() string { return s.name + "/order" }

// assembler builds the programs of one configuration for one device.
type assembler struct {
	cfg    configs.Config
	set    *data.Set
	dev    device.Device
	dtype  program.DType // float32 without AMP
	step   program.OptimizerStep
	scaler program.GradScaler

	ringRows int
	rates    int // rows of the rates table
}

// parts are the halves of a training program that accumulation separates.
type parts struct {
	program *program.Program
	model   *model.Model
	lowered *program.Lowered
	grads   []string // names of the gradients' parameters, in the order of the flags
	casts   int
	fused   int // instructions that fusion removed

	inputs   program.Inputs
	from, to int // the instructions of the model, before fusion
	// before and after are the program without its model, which Gorgonia's TapeMachine runs; nil elsewhere.
	before, after *program.Program
}

// summedLoss reports whether the loss of a batch is the sum over its samples, not their mean.
func (a *assembler) summedLoss() bool {
	return a.cfg.Loss.Name != "cross_entropy" && a.cfg.Loss.Reduction == "sum"
}

func (a *assembler) spec(batch int, train bool) model.Spec {
	s := model.Spec{Layers: a.cfg.Model.Layers, Loss: a.cfg.Loss, Batch: batch, Train: train, Seed: a.cfg.Seed}
	if a.set.Features > 0 {
		s.Input, s.Targets = []int{a.set.Features}, a.set.Targets
	} else {
		s.Input, s.Classes = []int{a.set.Height, a.set.Width, a.set.Channels}, a.set.Classes
	}
	return s
}

// model builds the graph; layers that do not fit are the configuration's fault.
func (a *assembler) model(batch int, train bool) (*model.Model, error) {
	m, err := model.Build(a.spec(batch, train))
	if err != nil {
		return nil, &ConfigError{Key: "model.layers", Message: err.Error()}
	}
	return m, nil
}

// train builds the program of one whole step over batch samples: input, forward, backward, update, metrics.
func (a *assembler) train(name string, batch int) (*parts, error) {
	t, err := a.passes(name, batch)
	if err != nil {
		return nil, err
	}
	p := t.program
	control, flags, err := a.update(p, t.lowered.Grads)
	if err != nil {
		return nil, err
	}
	for _, s := range t.lowered.Stats {
		mean, variance := s.Running()
		p.Emit(program.Update, s.Layer, program.UpdateRunning{Momentum: s.Momentum, Count: s.Count},
			[]*program.Value{s.Mean, s.Variance, control}, nil, []*program.Value{mean, variance})
	}
	a.ringRow(p, t.lowered.Loss, a.correct(p), control, flags, batch)
	p.Emit(program.Metrics, "", program.Advance{Samples: batch}, nil, nil, []*program.Value{a.counters(p)})
	return t, a.finish(t)
}

// micro builds the program of one micro-batch, which adds its gradients to sums and leaves the update to another.
func (a *assembler) micro(name string, batch int) (*parts, error) {
	t, err := a.passes(name, batch)
	if err != nil {
		return nil, err
	}
	p := t.program
	scale := a.scale(p)
	for _, g := range t.lowered.Grads {
		sum := p.NewPersistent(g.Param.Name+sumSuffix, program.RoleGrad, program.Float32, g.Param.Shape...)
		p.Emit(program.Backward, g.Layer, program.Accumulate{}, []*program.Value{g.Grad, scale}, nil, []*program.Value{sum})
	}
	for _, s := range t.lowered.Stats {
		mean, variance := s.Running()
		p.Emit(program.Update, s.Layer, program.UpdateRunning{Momentum: s.Momentum, Count: s.Count},
			[]*program.Value{s.Mean, s.Variance}, nil, []*program.Value{shadow(p, mean), shadow(p, variance)})
	}
	p.Emit(program.Metrics, "", program.AddScalar{Weighted: true}, []*program.Value{t.lowered.Loss, a.weight(p)}, nil,
		[]*program.Value{p.NewPersistent(groupLoss, program.RoleMetric, program.Float32)})
	if c := a.correct(p); c != nil {
		p.Emit(program.Metrics, "", program.AddScalar{}, []*program.Value{c}, nil,
			[]*program.Value{p.NewPersistent(groupCorrect, program.RoleMetric, program.Int32)})
	}
	p.Emit(program.Metrics, "", program.Advance{Samples: batch}, nil, nil, []*program.Value{a.counters(p)})
	return t, a.finish(t)
}

func shadow(p *program.Program, v *program.Value) *program.Value {
	return p.NewPersistent(v.Name+shadowSuffix, program.RoleState, program.Float32, v.Shape...)
}

// updateOnly builds the program that ends a group of micro-batches of samples together. like is the micro-batch's program.
func (a *assembler) updateOnly(name string, samples int, like *parts) (*parts, error) {
	p := &program.Program{Name: name}
	var grads []program.ParamGrad
	for _, g := range like.lowered.Grads {
		n := program.ParamGrad{Layer: g.Layer}
		n.Param = p.NewPersistent(g.Param.Name, program.RoleParam, program.Float32, g.Param.Shape...)
		n.Grad = p.NewPersistent(g.Param.Name+sumSuffix, program.RoleGrad, program.Float32, g.Param.Shape...)
		if h := like.program.Lookup(amp.HalfCopyName(g.Param.Name)); h != nil {
			n.HalfCopy = p.NewPersistent(h.Name, h.Role, h.DType, h.Shape...)
		}
		grads = append(grads, n)
	}
	control, flags, err := a.update(p, grads)
	if err != nil {
		return nil, err
	}
	for _, s := range like.lowered.Stats {
		for _, v := range []string{s.RunningMean, s.RunningVar} {
			r := p.NewPersistent(v, program.RoleState, program.Float32, s.Mean.Shape...)
			p.Emit(program.Update, s.Layer, program.CommitRunning{}, []*program.Value{control}, nil, []*program.Value{r, shadow(p, r)})
		}
	}
	loss := p.NewPersistent(groupLoss, program.RoleMetric, program.Float32)
	var correct *program.Value
	if a.set.Classes > 0 {
		correct = p.NewPersistent(groupCorrect, program.RoleMetric, program.Int32)
	}
	a.ringRow(p, loss, correct, control, flags, samples)
	for _, v := range p.Persistent() {
		if v.Role == program.RoleGrad || v == loss || v == correct {
			p.Emit(program.Update, "", program.Zero{}, nil, nil, []*program.Value{v})
		}
	}
	t := &parts{program: p, model: like.model, lowered: like.lowered, grads: names(grads)}
	return t, a.finish(t)
}

// passes builds input, forward and backward, in the configured precision.
func (a *assembler) passes(name string, batch int) (*parts, error) {
	m, err := a.model(batch, true)
	if err != nil {
		return nil, err
	}
	p := &program.Program{Name: name}
	in := a.gather(p, m, batch, "train", trainOrder, a.counters(p), true)
	in.Seed = a.scale(p)
	if a.cfg.Optim.Accumulate > 1 {
		seed := p.NewValue("loss/seed", program.RoleActivation, program.Float32)
		p.Emit(program.Backward, "loss", program.Scale{}, []*program.Value{in.Seed, a.weight(p)}, []*program.Value{seed}, nil)
		in.Seed = seed
	}
	t, err := a.lower(p, m, in)
	if err != nil {
		return nil, err
	}
	a.countCorrect(p, t.lowered)
	return t, a.precision(t)
}

// evaluate builds the forward-only program over batch samples of a split.
func (a *assembler) evaluate(name string, batch int, s split) (*parts, error) {
	m, err := a.model(batch, false)
	if err != nil {
		return nil, err
	}
	p := &program.Program{Name: name}
	counters := p.NewPersistent(evalCounters, program.RoleState, program.Int32, program.NumCounters)
	in := a.gather(p, m, batch, s.source, s.order(), counters, false)
	t, err := a.lower(p, m, in)
	if err != nil {
		return nil, err
	}
	a.countCorrect(p, t.lowered)
	if err := a.precision(t); err != nil {
		return nil, err
	}
	p.Emit(program.Metrics, "", program.Advance{Samples: batch, Attempt: true}, nil, nil, []*program.Value{counters})
	row := program.RingRow{Samples: batch}
	rowIn := []*program.Value{counters, t.lowered.Loss}
	if c := a.correct(p); c != nil {
		row.HasCorrect = true
		rowIn = append(rowIn, c)
	}
	ring := p.NewPersistent(evalRing, program.RoleMetric, program.Float32, a.evalRows(), program.NumRing)
	p.Emit(program.Metrics, "", row, rowIn, nil, []*program.Value{ring})
	return t, a.finish(t)
}

// evalRows is one row for each batch of the largest split that may be evaluated.
func (a *assembler) evalRows() int {
	return max(a.set.Test.N, len(a.set.ValIndex))/evalBatch(a.cfg) + 2
}

// evalBatch is the batch size of evaluation: the training one, within bounds that keep its memory small and its kernels busy.
func evalBatch(c configs.Config) int { return max(64, min(c.Data.BatchSize, evalBatchLimit)) }

// gather emits the input phase: the batch's samples and targets by order and counters.
func (a *assembler) gather(p *program.Program, m *model.Model, batch int, source, order string, counters *program.Value, train bool) program.Inputs {
	in := program.Inputs{Counters: counters}
	if !a.cfg.Data.Resident {
		a.hostBatch(p, m, batch, &in)
		return in
	}
	n := a.set.Train.N
	if source == "test" {
		n = a.set.Test.N
	}
	orderLen := n
	switch order {
	case trainOrder:
		orderLen = len(a.set.TrainIndex)
	case "validation/order":
		orderLen = len(a.set.ValIndex)
	}
	ord := p.NewPersistent(order, program.RoleData, program.Int32, orderLen)
	emit := func(o program.Op, src *program.Value, out *program.Value) {
		p.Emit(program.Input, "", o, []*program.Value{src, ord, counters}, []*program.Value{out}, nil)
	}
	shape := append([]int{batch}, a.spec(batch, train).Input...)
	in.X = p.NewValue("x", program.RoleActivation, program.Float32, shape...)
	if a.set.Features > 0 {
		emit(program.GatherRows{}, p.NewPersistent(source+"/inputs", program.RoleData, program.Float32, n, a.set.Features), in.X)
		in.Target = p.NewValue("target", program.RoleActivation, program.Float32, batch, a.set.Targets)
		emit(program.GatherRows{}, p.NewPersistent(source+"/targets", program.RoleData, program.Float32, n, a.set.Targets), in.Target)
		return in
	}
	images := p.NewPersistent(source+"/images", program.RoleData, program.Uint8, n, a.set.Height, a.set.Width, a.set.Channels)
	g := program.GatherImages{Mean: a.cfg.Data.Normalize.Mean, Std: a.cfg.Data.Normalize.Std}
	if train {
		g.Shift, g.Seed = a.cfg.Data.Augment.Shift, a.cfg.Seed
	}
	emit(g, images, in.X)
	labels := p.NewValue("labels", program.RoleActivation, program.Int32, batch)
	emit(program.GatherRows{}, p.NewPersistent(source+"/labels", program.RoleData, program.Int32, n), labels)
	in.Target = a.classTarget(p, m, labels)
	return in
}

// classTarget is what the loss compares with: the labels, or their one-hot rows.
func (a *assembler) classTarget(p *program.Program, m *model.Model, labels *program.Value) *program.Value {
	if !m.OneHot {
		return labels
	}
	rows := p.NewValue("target", program.RoleActivation, program.Float32, labels.Shape[0], a.set.Classes)
	p.Emit(program.Input, "", program.OneHot{}, []*program.Value{labels}, []*program.Value{rows}, nil)
	return rows
}

// labels is the batch's labels; nil where there are no classes.
func (a *assembler) labels(p *program.Program) *program.Value {
	if a.cfg.Data.Resident {
		return p.Lookup("labels")
	}
	return p.Lookup(batchName(p.Name, "labels"))
}

// countCorrect emits the accuracy's count where there are classes.
func (a *assembler) countCorrect(p *program.Program, l *program.Lowered) {
	if labels := a.labels(p); labels != nil {
		c := p.NewValue("correct", program.RoleMetric, program.Int32)
		p.Emit(program.Forward, "loss", program.CountCorrect{}, []*program.Value{l.Logits, labels}, []*program.Value{c}, nil)
	}
}

func (a *assembler) correct(p *program.Program) *program.Value { return p.Lookup("correct") }

func (a *assembler) counters(p *program.Program) *program.Value {
	return p.NewPersistent(program.CountersName, program.RoleState, program.Int32, program.NumCounters)
}

func (a *assembler) scale(p *program.Program) *program.Value {
	return p.NewPersistent(optim.ScaleName, program.RoleState, program.Float32)
}

func (a *assembler) weight(p *program.Program) *program.Value {
	return p.NewPersistent(groupWeight, program.RoleData, program.Float32)
}

// precision runs autocast and notes the half copies.
func (a *assembler) precision(t *parts) error {
	if a.dtype.Half() {
		if err := amp.Autocast(t.program, a.dtype); err != nil {
			return err
		}
	}
	for k := range t.lowered.Grads {
		g := &t.lowered.Grads[k]
		g.HalfCopy = t.program.Lookup(amp.HalfCopyName(g.Param.Name))
	}
	t.grads = names(t.lowered.Grads)
	for _, i := range t.program.Instrs {
		if _, ok := i.Op.(program.Cast); ok {
			t.casts++
		}
	}
	return nil
}

func names(grads []program.ParamGrad) []string {
	r := make([]string, len(grads))
	for k, g := range grads {
		r[k] = g.Param.Name
	}
	return r
}

func (a *assembler) update(p *program.Program, grads []program.ParamGrad) (control, flags *program.Value, err error) {
	return optim.Append(p, a.step, optim.Update{
		Grads: grads, Scaler: a.scaler, ClipNorm: a.cfg.Optim.ClipGradNorm, RatesLen: a.rates,
		LossScale: a.scale(p), Counters: a.counters(p), Unscaled: a.cfg.Optim.Accumulate > 1,
	})
}

func (a *assembler) ringRow(p *program.Program, loss, correct, control, flags *program.Value, samples int) {
	row := program.RingRow{Samples: samples, HasControl: true, HasCorrect: correct != nil}
	in := []*program.Value{a.counters(p), loss}
	if correct != nil {
		in = append(in, correct)
	}
	in = append(in, control, flags)
	ring := p.NewPersistent(trainRing, program.RoleMetric, program.Float32, a.ringRows, program.NumRing)
	p.Emit(program.Metrics, "", row, in, nil, []*program.Value{ring})
}

// finish fuses, verifies and plans.
func (a *assembler) finish(t *parts) error {
	p := t.program
	if a.onGorgonia() && t.to > 0 {
		return a.takeOut(t)
	}
	before := len(p.Instrs)
	p.Fuse(a.dev.Fusions())
	t.fused = before - len(p.Instrs)
	if err := p.Verify(); err != nil {
		return fmt.Errorf("after fusion: %w", err)
	}
	return p.Plan(a.dev.Workspace)
}
