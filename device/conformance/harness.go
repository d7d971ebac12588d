package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"halfstep/device"
	"halfstep/program"
)

// gap is the number of bytes between operands in the arena, at least; operands start at multiples of align, as Plan has it.
const (
	align = 64
	gap   = 64
)

// guarded runs the instruction in an arena that is filled with a pattern of NaNs around the operands and in the results and
// the workspace: reads of what is not there show as NaN, writes beyond a result as a changed pattern. It gives the outputs,
// then the in-out operands.
func guarded(dev device.Device, c testCase) ([][]float64, error) {
	p := &program.Program{Name: "guarded"}
	i := &program.Instr{Op: c.op}
	l := &layout{p: p}
	for k, t := range c.in {
		i.In = append(i.In, l.place(fmt.Sprintf("in%d", k), program.RoleActivation, t))
	}
	for k, e := range c.out {
		v := l.place(fmt.Sprintf("out%d", k), program.RoleMetric, e.like)
		if _, ok := c.op.(program.Reshape); ok { // its result lies where the operand does
			v.Alias, v.Offset = i.In[0], i.In[0].Offset
		}
		i.Out = append(i.Out, v)
	}
	for k, e := range c.inout {
		i.InOut = append(i.InOut, l.place(fmt.Sprintf("inout%d", k), program.RoleMetric, e.before))
	}
	if err := i.Op.Check(i.In, i.Out, i.InOut); err != nil {
		return nil, fmt.Errorf("the case is wrong: %w", err)
	}
	if size := dev.Workspace(i); size > 0 {
		i.Work = l.place("work", program.RoleWorkspace, newTensor(program.Uint8, int(size)))
	}
	image := l.pattern()
	for k, v := range i.In {
		copy(image[v.Offset:], c.in[k].bytes())
	}
	for k, v := range i.InOut {
		copy(image[v.Offset:], c.inout[k].before.bytes())
	}
	dump, err := l.run(dev, i, image)
	if err != nil {
		return nil, err
	}
	var got [][]float64
	for _, v := range append(append([]*program.Value(nil), i.Out...), i.InOut...) {
		got = append(got, decode(v.DType, dump[v.Offset:v.Offset+v.Bytes]))
	}
	return got, l.untouched(i, image, dump)
}

// layout places operands in the arena by hand.
type layout struct {
	p   *program.Program
	end int64
}

func (l *layout) place(name string, role program.Role, t *tensor) *program.Value {
	v := l.p.NewValue(name, role, t.dtype, t.shape...)
	v.Offset = (l.end + gap + align - 1) &^ (align - 1)
	l.end = v.Offset + v.Bytes
	return v
}

// pattern fills the arena: every word is a NaN as float32, as float64 and as either half of a pair of half numbers, and differs
// from its neighbours.
func (l *layout) pattern() []byte {
	words := make([]uint32, (l.end+2*gap)/4)
	for i := range words {
		k := uint32(i) & 0x3f
		words[i] = (0xffc0|k)<<16 | 0xffc0 | k
	}
	b := make([]byte, 0, 4*len(words))
	for _, w := range words {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return b
}

// run writes the image into the arena, runs the instruction and reads the arena back. GatherRows of int32 is what copies
// between the store and the arena without changing a bit.
func (l *layout) run(dev device.Device, i *program.Instr, image []byte) ([]byte, error) {
	p, words := l.p, len(image)/4
	src := p.NewPersistent("image", program.RoleData, program.Int32, 1, words)
	dst := p.NewPersistent("dump", program.RoleData, program.Int32, 1, words)
	order := p.NewPersistent("order", program.RoleData, program.Int32, 1)
	counters := p.NewPersistent(program.CountersName, program.RoleState, program.Int32, program.NumCounters)
	whole := p.NewValue("arena", program.RoleActivation, program.Int32, 1, words)
	gather := func(from, to *program.Value) *program.Instr {
		return &program.Instr{Op: program.GatherRows{}, In: []*program.Value{from, order, counters}, Out: []*program.Value{to}}
	}
	p.Instrs = []*program.Instr{gather(src, whole), i, gather(whole, dst)}
	p.Peak = int64(len(image))
	dump := make([]byte, len(image))
	err := execute(dev, p, func(s device.Store) error { return s.Write("image", image) },
		func(s device.Store) error { return s.Read("dump", dump) })
	return dump, err
}

// untouched compares the arena with its image everywhere but in the results and the workspace.
func (l *layout) untouched(i *program.Instr, image, dump []byte) error {
	mine := make([]bool, len(image))
	results := append(append([]*program.Value(nil), i.Out...), i.InOut...)
	if i.Work != nil {
		results = append(results, i.Work)
	}
	for _, v := range results {
		if v.Alias != nil {
			continue // it must leave its operand as it is
		}
		for k := range v.Bytes {
			mine[v.Offset+k] = true
		}
	}
	for k := range image {
		if !mine[k] && image[k] != dump[k] {
			return fmt.Errorf("wrote outside its results: byte %d of the arena, %s", k, l.near(int64(k)))
		}
	}
	return nil
}

// near tells where an offset lies.
func (l *layout) near(at int64) string {
	best := "before all operands"
	for _, v := range l.p.Values {
		if v.Persistent || v.Name == "arena" || v.Alias != nil || v.Offset > at {
			continue
		}
		if at < v.Offset+v.Bytes {
			return fmt.Sprintf("byte %d of operand %s", at-v.Offset, v.Name)
		}
		best = fmt.Sprintf("%d bytes past %s", at-v.Offset-v.Bytes, v.Name)
	}
	return best
}

// planned runs the instruction as a program's step would: float operands in scratch memory laid out by Plan, so that a
// result takes an operand's place where Plan allows it; integers and in-out operands in the store.
func planned(dev device.Device, c testCase) ([][]float64, error) {
	p := &program.Program{Name: "planned"}
	i := &program.Instr{Op: c.op}
	held := map[string]*tensor{} // contents of the store
	copyOf := func(from, to *program.Value) {
		p.Emit(program.Forward, "", program.Cast{}, []*program.Value{from}, []*program.Value{to}, nil)
	}
	for k, t := range c.in {
		name := fmt.Sprintf("in%d", k)
		v := p.NewPersistent(name, program.RoleData, t.dtype, t.shape...)
		held[name] = t
		if t.dtype.Float() {
			scratch := p.NewValue(name+"/scratch", program.RoleActivation, t.dtype, t.shape...)
			copyOf(v, scratch)
			v = scratch
		}
		i.In = append(i.In, v)
	}
	for k, e := range c.inout {
		name := fmt.Sprintf("inout%d", k)
		i.InOut = append(i.InOut, p.NewPersistent(name, program.RoleState, e.before.dtype, e.before.shape...))
		held[name] = e.before
	}
	p.Instrs = append(p.Instrs, i)
	results := make([]*program.Value, 0, len(c.out)+len(c.inout))
	for k, e := range c.out {
		name := fmt.Sprintf("out%d", k)
		v := p.NewPersistent(name, program.RoleState, e.like.dtype, e.like.shape...)
		results = append(results, v)
		if e.like.dtype.Float() {
			scratch := p.NewValue(name+"/scratch", program.RoleActivation, e.like.dtype, e.like.shape...)
			if _, ok := c.op.(program.Reshape); ok {
				scratch.Alias = i.In[0]
			}
			copyOf(scratch, v)
			v = scratch
		}
		i.Out = append(i.Out, v)
	}
	results = append(results, i.InOut...)
	if err := p.Verify(); err != nil {
		return nil, fmt.Errorf("the case is wrong: %w", err)
	}
	if err := p.Plan(dev.Workspace); err != nil {
		return nil, err
	}
	var got [][]float64
	err := execute(dev, p, func(s device.Store) error {
		for name, t := range held {
			if err := s.Write(name, t.bytes()); err != nil {
				return err
			}
		}
		return nil
	}, func(s device.Store) error {
		for _, v := range results {
			b := make([]byte, v.Bytes)
			if err := s.Read(v.Name, b); err != nil {
				return err
			}
			got = append(got, decode(v.DType, b))
		}
		return nil
	})
	return got, err
}

// execute makes store and arena, runs the program once and closes them.
func execute(dev device.Device, p *program.Program, before, after func(device.Store) error) (err error) {
	s, err := dev.NewStore(p.Persistent())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	a, err := dev.NewArena(p.Peak)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	e, err := dev.Compile(p, s, a)
	if err != nil {
		return err
	}
	if err := before(s); err != nil {
		return err
	}
	if err := e.Run(context.Background(), 1); err != nil {
		return err
	}
	return after(s)
}

// judge runs a case both ways and compares with the definition.
func judge(dev device.Device, c testCase) (w worst, err error) {
	for _, way := range []struct {
		name string
		run  func(device.Device, testCase) ([][]float64, error)
	}{{"guarded", guarded}, {"planned", planned}} {
		got, err := way.run(dev, c)
		if err == nil {
			var e worst
			e, err = c.compare(got)
			w.merge(e)
		}
		if err != nil {
			return w, fmt.Errorf("%s %+v, %s: %w", reflect.TypeOf(c.op).Name(), c.op, way.name, err)
		}
	}
	return w, nil
}

// compare checks the outputs, then the in-out operands.
func (c testCase) compare(got [][]float64) (w worst, err error) {
	for k, g := range got {
		var e worst
		if n := k - len(c.out); n >= 0 {
			e, err = compare(fmt.Sprintf("in-out operand %d", n), g, c.inout[n].want, c.inout[n].tol)
		} else if c.out[k].want != nil {
			e, err = compare(fmt.Sprintf("output %d", k), g, c.out[k].want, c.out[k].tol)
		}
		if err != nil {
			return w, err
		}
		w.merge(e)
	}
	if c.judge != nil {
		return w, c.judge(got)
	}
	return w, nil
}
