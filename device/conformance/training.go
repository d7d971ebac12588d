package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"halfstep/amp"
	"halfstep/device"
	"halfstep/model"
	"halfstep/optim"
	"halfstep/program"
)

// Names of a training's persistent values.
const (
	ringName   = "train/ring"
	ringLength = 8
	gradPrefix = "result/grad/" // every gradient of the last step, in float32 and without the loss scale's inverse
)

// training is a whole training step of a network as a program: input, forward, backward, update, metrics.
type training struct {
	n  network
	d  program.DType
	p  *program.Program
	m  *model.Model
	in *program.Lowered
}

// newTraining lowers, casts, appends the update and fuses.
func newTraining(n network, d program.DType, fusions []program.Rule) (*training, error) {
	m, err := model.Build(n.spec)
	if err != nil {
		return nil, err
	}
	t := &training{n: n, d: d, m: m, p: &program.Program{Name: "train"}}
	in := t.input()
	if t.in, err = program.Lower(t.p, m, in); err != nil {
		return nil, err
	}
	p := t.p
	correct := p.NewValue("correct", program.RoleMetric, program.Int32)
	p.Emit(program.Forward, "loss", program.CountCorrect{}, []*program.Value{t.in.Logits, p.Lookup("labels")}, []*program.Value{correct}, nil)
	if d.Half() {
		if err := amp.Autocast(p, d); err != nil {
			return nil, err
		}
	}
	if err := t.update(in, correct); err != nil {
		return nil, err
	}
	p.Fuse(fusions)
	return t, p.Verify()
}

// input gathers the batch.
func (t *training) input() program.Inputs {
	p, s := t.p, t.n.spec
	order := p.NewPersistent("order", program.RoleData, program.Int32, samples)
	counters := p.NewPersistent(program.CountersName, program.RoleState, program.Int32, program.NumCounters)
	images := p.NewPersistent("images", program.RoleData, program.Uint8, append([]int{samples}, s.Input...)...)
	known := p.NewPersistent("classes", program.RoleData, program.Int32, samples)
	emit := func(o program.Op, out *program.Value, in ...*program.Value) *program.Value {
		p.Emit(program.Input, "", o, in, []*program.Value{out}, nil)
		return out
	}
	in := program.Inputs{Counters: counters, Seed: p.NewPersistent(optim.ScaleName, program.RoleState, program.Float32)}
	in.X = emit(program.GatherImages{Mean: 0.5, Std: 0.25, Shift: t.n.shift, Seed: s.Seed},
		p.NewValue("x", program.RoleActivation, program.Float32, append([]int{s.Batch}, s.Input...)...), images, order, counters)
	in.Target = emit(program.GatherRows{}, p.NewValue("labels", program.RoleActivation, program.Int32, s.Batch), known, order, counters)
	if t.m.OneHot {
		in.Target = emit(program.OneHot{}, p.NewValue("target", program.RoleActivation, program.Float32, s.Batch, classes), in.Target)
	}
	return in
}

// update appends SGD with momentum, the running statistics, and what the test reads.
func (t *training) update(in program.Inputs, correct *program.Value) error {
	p := t.p
	for k := range t.in.Grads {
		t.in.Grads[k].HalfCopy = p.Lookup(amp.HalfCopyName(t.in.Grads[k].Param.Name))
	}
	scaler := program.GradScaler{Enabled: t.d == program.Float16, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 2, MinScale: 1}
	control, flags, err := optim.Append(p, program.SGDStep{Momentum: 0.9}, optim.Update{
		Grads: t.in.Grads, Scaler: scaler, ClipNorm: 5, RatesLen: 2, LossScale: in.Seed, Counters: in.Counters,
	})
	if err != nil {
		return err
	}
	for _, s := range t.in.Stats {
		mean, variance := s.Running()
		p.Emit(program.Update, s.Layer, program.UpdateRunning{Momentum: s.Momentum, Count: s.Count},
			[]*program.Value{s.Mean, s.Variance, control}, nil, []*program.Value{mean, variance})
	}
	for _, g := range t.in.Grads {
		r := p.NewPersistent(gradPrefix+g.Param.Name, program.RoleMetric, program.Float32, g.Param.Shape...)
		p.Emit(program.Metrics, g.Layer, program.Cast{}, []*program.Value{g.Grad}, []*program.Value{r}, nil)
	}
	ring := p.NewPersistent(ringName, program.RoleMetric, program.Float32, ringLength, program.NumRing)
	p.Emit(program.Metrics, "", program.RingRow{Samples: t.n.spec.Batch, HasCorrect: true, HasControl: true},
		[]*program.Value{in.Counters, t.in.Loss, correct, control, flags}, nil, []*program.Value{ring})
	p.Emit(program.Metrics, "", program.Advance{Samples: t.n.spec.Batch}, nil, nil, []*program.Value{in.Counters})
	return nil
}

// outcome is what the store holds after some steps, by name.
type outcome map[string][]byte

// run trains from the initial state for so many steps.
func (t *training) run(dev device.Device, steps int) (r outcome, err error) {
	if err := t.p.Plan(dev.Workspace); err != nil {
		return nil, err
	}
	s, err := dev.NewStore(t.p.Persistent())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	a, err := dev.NewArena(t.p.Peak)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	e, err := dev.Compile(t.p, s, a)
	if err != nil {
		return nil, err
	}
	if err := t.initialise(s); err != nil {
		return nil, err
	}
	if err := e.Run(context.Background(), steps); err != nil {
		return nil, err
	}
	r = outcome{}
	for _, v := range t.p.Persistent() {
		r[v.Name] = make([]byte, v.Bytes)
		if err := s.Read(v.Name, r[v.Name]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// initialise writes data, parameters and state; the same for every device and dtype.
func (t *training) initialise(s device.Store) error {
	r := rand.New(rand.NewPCG(t.n.spec.Seed, 11))
	lossScale := float32(1)
	if t.d == program.Float16 {
		lossScale = 256
	}
	held := map[string]*tensor{
		"images":        newTensor(program.Uint8, samples*product(t.n.spec.Input)).fill(func() float64 { return float64(r.IntN(256)) }),
		"classes":       newTensor(program.Int32, samples).fill(func() float64 { return float64(r.IntN(classes)) }),
		"order":         newTensor(program.Int32, samples).fill(func() float64 { return float64(r.IntN(samples)) }),
		optim.ScaleName: scalar(lossScale),
		optim.RatesName: floats(0.05, float32(math.NaN()), 0.02, 0.8),
	}
	for _, p := range t.m.Params {
		v := fromFloat32s(model.Init(p, t.n.spec.Seed))
		held[p.Name] = tensorOf(program.Float32, v, p.Shape...)
		if t.p.Lookup(amp.HalfCopyName(p.Name)) != nil {
			held[amp.HalfCopyName(p.Name)] = tensorOf(t.d, v, p.Shape...)
		}
	}
	for name, x := range held {
		if err := s.Write(name, x.bytes()); err != nil {
			return err
		}
	}
	return nil
}

// losses are those of the first steps.
func (o outcome) losses(steps int) []float64 {
	ring := decode(program.Float32, o[ringName])
	var r []float64
	for k := range steps {
		r = append(r, ring[k*program.NumRing+program.RingLoss])
	}
	return r
}

// gradients are those of the last step, by the parameter's name.
func (o outcome) gradients() map[string][]float64 {
	r := map[string][]float64{}
	for name, b := range o {
		if p, ok := strings.CutPrefix(name, gradPrefix); ok {
			r[p] = decode(program.Float32, b)
		}
	}
	return r
}

// norm2 is the 2-norm.
func norm2(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// differ compares losses and gradients of one step; the limit is relative: for a loss to its size, for a gradient to its norm,
// but not to less than a twentieth of the norm of all gradients together. It gives the largest share of the limit.
func differ(a, b outcome, limit float64) (share float64, err error) {
	la, lb := a.losses(1)[0], b.losses(1)[0]
	share = math.Abs(la-lb) / (limit * math.Abs(lb))
	if !(share <= 1) {
		return share, fmt.Errorf("loss %v, want %v ± %.2g", la, lb, limit*math.Abs(lb))
	}
	ga, gb := a.gradients(), b.gradients()
	all := 0.0
	for _, g := range gb {
		all = math.Hypot(all, norm2(g))
	}
	for name, g := range gb {
		size := max(norm2(g), all/20)
		d := norm2(plus(ga[name], scaled(-1, g)))
		if !(d <= limit*size) {
			return share, fmt.Errorf("gradient of %s is off by %.3g, norm %.3g, limit %.3g", name, d, norm2(g), limit*size)
		}
		share = max(share, d/(limit*size))
	}
	return share, nil
}
