package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/device"
	"halfstep/device/devices"
	"halfstep/model"
	"halfstep/program"
)

// onGorgonia reports whether forward and backward run on Gorgonia's TapeMachine.
func (a *assembler) onGorgonia() bool { return a.dev.Properties().Kind == devices.Gorgonia }

// checkGorgonia refuses what the TapeMachine cannot do.
func (a *assembler) checkGorgonia() error {
	if a.onGorgonia() && a.dtype != program.Float32 {
		return &ConfigError{Key: "device", Message: "gorgonia computes in float32 only; set amp.enabled: false"}
	}
	return nil
}

// lower appends the model's instructions and remembers which they are.
func (a *assembler) lower(p *program.Program, m *model.Model, in program.Inputs) (*parts, error) {
	t := &parts{program: p, model: m, inputs: in, from: len(p.Instrs)}
	var err error
	t.lowered, err = program.Lower(p, m, in)
	t.to = len(p.Instrs)
	return t, err
}

// takeOut cuts a program into what comes before the model's instructions and what comes after. What crosses a cut becomes
// persistent, since the TapeMachine reads and writes it there. The whole program keeps its listing; it is not compiled.
func (a *assembler) takeOut(t *parts) error {
	p := t.program
	segments := [][]*program.Instr{p.Instrs[:t.from], p.Instrs[t.from:t.to], p.Instrs[t.to:]}
	writer := map[*program.Value]int{}
	for k, s := range segments {
		for _, i := range s {
			for _, v := range i.Out {
				writer[v] = k
			}
		}
	}
	for k, s := range segments {
		for _, i := range s {
			for _, v := range slices.Concat(i.In, i.InOut) {
				if w, ok := writer[v]; ok && w != k && !v.Persistent {
					v.Persistent, v.Alias, v.Name = true, nil, "tape/"+p.Name+"/"+v.Name
				}
			}
		}
	}
	t.before, t.after = section(p.Name+"/input", segments[0]), section(p.Name+"/update", segments[2])
	for _, part := range []*program.Program{t.before, t.after} {
		if err := part.Verify(); err != nil {
			return fmt.Errorf("without the model: %w", err)
		}
		if err := part.Plan(a.dev.Workspace); err != nil {
			return err
		}
		if part.Peak >= p.Peak {
			p.Peak, p.PeakByRole = part.Peak, part.PeakByRole
		}
	}
	return nil
}

// section is a program of some of another's instructions.
func section(name string, instrs []*program.Instr) *program.Program {
	p := &program.Program{Name: name, Instrs: instrs}
	have := map[*program.Value]bool{}
	for _, i := range instrs {
		for _, v := range slices.Concat(i.In, i.InOut, i.Out) {
			if !have[v] {
				have[v] = true
				p.Values = append(p.Values, v)
			}
		}
	}
	return p
}

// tape is the executable of a program whose model runs on the TapeMachine.
type tape struct {
	parts         *parts
	store         device.Store
	before, after device.Executable
	oracle        *model.Oracle[float32]
	floats        map[*G.Node]operand[float32]
	ints          map[*G.Node]operand[int32]
}

// operand is a value of the store and the memory that the machine reads it from.
type operand[E float32 | int32] struct {
	name   string
	values []E
}

func (t *Trainer) compileTape(u *unit) (_ device.Executable, err error) {
	x := &tape{parts: u.parts, store: t.store, floats: map[*G.Node]operand[float32]{}, ints: map[*G.Node]operand[int32]{}}
	if x.before, err = t.dev.Compile(u.before, t.store, t.arena); err != nil {
		return nil, err
	}
	if x.after, err = t.dev.Compile(u.after, t.store, t.arena); err != nil {
		return nil, err
	}
	if x.oracle, err = model.NewOracle[float32](u.model); err != nil {
		return nil, err
	}
	return x, x.bind()
}

// bind gives every input of the graph its memory.
func (x *tape) bind() error {
	m, in := x.parts.model, x.parts.inputs
	names := map[*G.Node]string{m.Input: in.X.Name, m.Target: in.Target.Name}
	if m.Counters != nil {
		names[m.Counters] = in.Counters.Name
	}
	for _, p := range m.Params {
		names[p.Node] = p.Name
	}
	if !m.Train {
		for _, n := range m.BatchNorms {
			names[n.Mean], names[n.Var] = n.RunningMean, n.RunningVar
		}
	}
	for n, name := range names {
		size := n.Shape().TotalSize()
		var err error
		if n.Dtype() == tensor.Int32 {
			o := operand[int32]{name, make([]int32, size)}
			x.ints[n] = o
			err = x.oracle.BindInts(n, o.values)
		} else {
			o := operand[float32]{name, make([]float32, size)}
			x.floats[n] = o
			err = x.oracle.Bind(n, o.values)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Run implements device.Executable.
func (x *tape) Run(ctx context.Context, steps int) error {
	for range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		whole := context.WithoutCancel(ctx) // a step is not left half done
		if err := errors.Join(x.before.Run(whole, 1)); err != nil {
			return err
		}
		if err := x.model(); err != nil {
			return err
		}
		if err := x.after.Run(whole, 1); err != nil {
			return err
		}
	}
	return nil
}

// model runs the graph on what is in the store and writes there what the rest of the step reads.
func (x *tape) model() error {
	for _, o := range x.floats {
		if err := x.store.Read(o.name, device.Bytes(o.values)); err != nil {
			return err
		}
	}
	for _, o := range x.ints {
		if err := x.store.Read(o.name, device.Bytes(o.values)); err != nil {
			return err
		}
	}
	r, err := x.oracle.Run()
	if err != nil {
		return err
	}
	w := &writer{store: x.store}
	l := x.parts.lowered
	result := func(v *program.Value, values []float32) {
		if v.Persistent { // else nothing after the model reads it
			put(w, v.Name, values)
		}
	}
	result(l.Loss, []float32{r.Loss})
	result(l.Logits, r.Logits)
	if err := x.gradients(w, r); err != nil {
		return err
	}
	for k, s := range l.Stats {
		n := x.parts.model.BatchNorms[k]
		result(s.Mean, x.oracle.Value(n.Mean))
		result(s.Variance, x.oracle.Value(n.Var))
	}
	return w.err
}

// gradients writes the gradients, times the seed: the graph's own is 1. They are in backward order in the program and in the
// parameters' order in the graph.
func (x *tape) gradients(w *writer, r *model.Result[float32]) error {
	if len(r.Grads) == 0 {
		return nil
	}
	seed, err := device.Read[float32](x.store, x.parts.inputs.Seed.Name, 1)
	if err != nil {
		return err
	}
	for k, g := range x.parts.lowered.Grads {
		values := r.Grads[len(r.Grads)-1-k]
		for i := range values {
			values[i] *= seed[0]
		}
		put(w, g.Grad.Name, values)
	}
	return nil
}

// Profile implements device.Executable. The model counts for the first of its instructions.
func (x *tape) Profile(ctx context.Context) ([]int64, error) {
	before, err := x.before.Profile(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := x.model(); err != nil {
		return nil, err
	}
	between := make([]int64, x.parts.to-x.parts.from)
	between[0] = time.Since(start).Nanoseconds()
	after, err := x.after.Profile(ctx)
	return slices.Concat(before, between, after), err
}

// Trace implements device.Executable: the machine's values are not those of the program.
func (x *tape) Trace(context.Context, func(*program.Instr, func(*program.Value) []float32) bool) error {
	return errors.ErrUnsupported
}
