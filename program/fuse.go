package program

import (
	"slices"

	"halfstep/model/op/ref"
)

// Fuse merges the instructions that the device runs as one. The unfused program is the definition of what the fused one
// computes; the device conformance suite compares them.
func (p *Program) Fuse(rules []Rule) {
	f := &fuser{p: p, has: map[Rule]bool{}}
	for _, r := range rules {
		f.has[r] = true
	}
	for n := len(p.Instrs) - 1; n >= 0; n-- { // from the last layer back, as the backward pass runs
		i := p.Instrs[n]
		switch op := i.Op.(type) {
		case Conv2D:
			f.conv(i, op)
		case Linear:
			f.linear(i, op)
		}
	}
	p.Instrs = slices.DeleteFunc(p.Instrs, func(i *Instr) bool { return f.dead[i] })
	p.Prune()
}

type fuser struct {
	p    *Program
	has  map[Rule]bool
	dead map[*Instr]bool
}

func (f *fuser) kill(is ...*Instr) {
	if f.dead == nil {
		f.dead = map[*Instr]bool{}
	}
	for _, i := range is {
		if i != nil {
			f.dead[i] = true
		}
	}
}

// users lists the live instructions that read v, looking through no alias.
func (f *fuser) users(v *Value) []*Instr {
	var r []*Instr
	for _, i := range f.p.Instrs {
		if !f.dead[i] && (slices.Contains(i.In, v) || slices.Contains(i.InOut, v)) {
			r = append(r, i)
		}
	}
	return r
}

func (f *fuser) producer(v *Value) *Instr {
	for _, i := range f.p.Instrs {
		if !f.dead[i] && slices.Contains(i.Out, v) {
			return i
		}
	}
	return nil
}

// onlyUsers reports whether exactly the given instructions (nil ones aside) read v.
func (f *fuser) onlyUsers(v *Value, want ...*Instr) bool {
	want = slices.DeleteFunc(want, func(i *Instr) bool { return i == nil })
	got := f.users(v)
	if len(got) != len(want) {
		return false
	}
	for _, i := range got {
		if !slices.Contains(want, i) {
			return false
		}
	}
	return true
}

// convChain is a convolution with its neighbours, forward and backward; what is absent is nil.
type convChain struct {
	conv, relu, pool    *Instr
	gradW, gradX, gradB *Instr
	reluGrad, poolGrad  *Instr
	dz                  *Value // gradient at the convolution's own output
}

func (f *fuser) conv(i *Instr, op Conv2D) {
	c := f.convForward(i)
	f.convBackwardChain(c, op)
	training := c.gradW != nil
	if c.pool != nil && (!f.has[FuseConvReLUPool] || c.relu != nil && !f.has[FuseConvReLU]) {
		c.pool, c.poolGrad = nil, nil
	}
	if training && f.has[FuseConvBackward] {
		f.mergeConvBackward(c, op)
	} else if training {
		c.pool = nil // the pool's backward needs the unpooled output
	}
	f.mergeConvForward(c, op)
}

// convForward finds the ReLU and the max pool that follow.
func (f *fuser) convForward(i *Instr) *convChain {
	c := &convChain{conv: i}
	y := i.Out[0]
	if u := f.users(y); len(u) == 1 {
		if a, ok := u[0].Op.(Activation); ok && a.Kind == ref.ReLU {
			c.relu = u[0]
			y = c.relu.Out[0]
		}
	}
	for _, u := range f.users(y) {
		if _, ok := u.Op.(MaxPool2D); ok {
			c.pool = u
		}
	}
	return c
}

// convBackwardChain fills in the backward half, and drops the pool from the chain where its gradient cannot be merged.
func (f *fuser) convBackwardChain(c *convChain, op Conv2D) {
	for _, u := range f.users(c.conv.In[0]) {
		if g, ok := u.Op.(Conv2DGradW); ok && g.Conv == op.Conv && u.Layer == c.conv.Layer {
			c.gradW = u
		}
	}
	if c.gradW == nil { // evaluation: the pool may be fused when it alone reads y
		if c.pool != nil && !f.onlyUsers(c.pool.In[0], c.pool) {
			c.pool = nil
		}
		return
	}
	c.dz = c.gradW.In[1]
	for _, u := range f.users(c.dz) {
		if u.Layer != c.conv.Layer {
			continue
		}
		switch u.Op.(type) {
		case Conv2DGradX:
			c.gradX = u
		case BiasGrad:
			c.gradB = u
		}
	}
	if !f.onlyUsers(c.dz, c.gradW, c.gradX, c.gradB) {
		c.pool = nil
		return
	}
	d := c.dz
	if g := f.producer(d); c.relu != nil && g != nil {
		if a, ok := g.Op.(ActivationGrad); ok && a.Kind == ref.ReLU && g.In[0] == c.relu.Out[0] {
			c.reluGrad = g
			d = g.In[1]
		}
	}
	if g := f.producer(d); c.pool != nil && g != nil {
		if _, ok := g.Op.(MaxPool2DGrad); ok && len(c.pool.Out) == 2 && g.In[0] == c.pool.Out[1] &&
			(d == c.dz || f.onlyUsers(d, c.reluGrad)) {
			c.poolGrad = g
		}
	}
	if c.poolGrad == nil || !f.onlyUsers(c.pool.In[0], c.pool, c.reluGrad) || (c.relu != nil) != (c.reluGrad != nil) {
		c.pool, c.poolGrad = nil, nil
	}
}

func (f *fuser) mergeConvBackward(c *convChain, op Conv2D) {
	b := Conv2DBackward{Conv: op.Conv}
	in := []*Value{c.gradW.In[0], c.conv.In[1], c.dz}
	switch {
	case c.pool != nil:
		b.Pool, b.ReLU = c.pool.Op.(MaxPool2D).Pool, c.relu != nil
		in[2] = c.poolGrad.In[1]
		in = append(in, c.pool.Out[1])
		f.kill(c.poolGrad, c.reluGrad)
	case c.reluGrad != nil && f.onlyUsers(c.dz, c.gradW, c.gradX, c.gradB):
		b.ReLU = true
		in[2] = c.reluGrad.In[1]
		in = append(in, c.relu.Out[0])
		f.kill(c.reluGrad)
	}
	out := []*Value{c.gradW.Out[0]}
	last := c.gradW
	if c.gradB != nil {
		b.Bias = true
		out = append(out, c.gradB.Out[0])
		last = f.later(last, c.gradB)
	}
	if c.gradX != nil {
		b.NeedX = true
		dx := c.gradX.Out[0]
		last = f.later(last, c.gradX)
		if m := f.reluMask(dx, c.conv.In[0]); m != nil {
			b.MaskX = true
			dx = m.Out[0]
			f.kill(m)
			last = f.later(last, m)
		}
		out = append(out, dx)
	}
	f.kill(c.gradW, c.gradX, c.gradB)
	f.place(f.earliestUse(out, last), &Instr{Op: b, In: in, Out: out, Phase: Backward, Layer: c.conv.Layer})
}

// reluMask finds the gradient of the ReLU whose output is x, when it alone reads dx.
func (f *fuser) reluMask(dx, x *Value) *Instr {
	u := f.users(dx)
	if len(u) != 1 {
		return nil
	}
	if a, ok := u[0].Op.(ActivationGrad); ok && a.Kind == ref.ReLU && u[0].In[0] == x && u[0].In[1] == dx {
		return u[0]
	}
	return nil
}

// later is the one of two instructions that comes later.
func (f *fuser) later(a, b *Instr) *Instr {
	if slices.Index(f.p.Instrs, a) < slices.Index(f.p.Instrs, b) {
		return b
	}
	return a
}

// earliestUse is the first instruction that reads one of the values: the merged instruction must come before it and
// after all that it reads, which the position of the chain's last member satisfies unless a result was read earlier.
func (f *fuser) earliestUse(out []*Value, last *Instr) *Instr {
	at := slices.Index(f.p.Instrs, last)
	for _, v := range out {
		for _, u := range f.users(v) {
			if n := slices.Index(f.p.Instrs, u); n < at && !f.dead[u] {
				at = n
			}
		}
	}
	return f.p.Instrs[at]
}

// place inserts an instruction before another.
func (f *fuser) place(before, i *Instr) {
	f.p.Instrs = slices.Insert(f.p.Instrs, slices.Index(f.p.Instrs, before), i)
}

func (f *fuser) mergeConvForward(c *convChain, op Conv2D) {
	if c.relu != nil && !f.has[FuseConvReLU] {
		return
	}
	if c.relu != nil {
		op.ReLU = true
		c.conv.Out = []*Value{c.relu.Out[0]}
		f.kill(c.relu)
	}
	if c.pool != nil {
		op.Pool = c.pool.Op.(MaxPool2D).Pool
		c.conv.Out = c.pool.Out
		if len(c.conv.Out) == 1 { // evaluation: the fused kernel writes an argmax that nobody reads
			v := c.pool.Out[0]
			c.conv.Out = append(c.conv.Out, f.p.NewValue(c.conv.Layer+"/argmax", RoleActivation, Uint8, v.Shape...))
		}
		f.kill(c.pool)
	}
	c.conv.Op = op
}

func (f *fuser) linear(i *Instr, op Linear) {
	if f.has[FuseLinearReLU] {
		if u := f.users(i.Out[0]); len(u) == 1 {
			if a, ok := u[0].Op.(Activation); ok && a.Kind == ref.ReLU {
				op.ReLU = true
				i.Op, i.Out = op, []*Value{u[0].Out[0]}
				f.kill(u[0])
			}
		}
	}
	if f.has[FuseLinearGrads] {
		f.linearGrads(i)
	}
}

func (f *fuser) linearGrads(l *Instr) {
	var gradW *Instr
	for _, u := range f.users(l.In[0]) {
		if _, ok := u.Op.(LinearGradW); ok && u.Layer == l.Layer {
			gradW = u
		}
	}
	if gradW != nil {
		for _, u := range f.users(gradW.In[1]) {
			if _, ok := u.Op.(BiasGrad); ok && u.Layer == l.Layer {
				gradW.Op, gradW.Out = LinearGradW{Bias: true}, append(gradW.Out, u.Out[0])
				f.kill(u)
			}
		}
	}
	for _, u := range f.users(l.In[1]) {
		if _, ok := u.Op.(LinearGradX); !ok || u.Layer != l.Layer {
			continue
		}
		if m := f.reluMask(u.Out[0], l.In[0]); m != nil {
			u.Op, u.In, u.Out = LinearGradX{MaskX: true}, append(u.In, l.In[0]), []*Value{m.Out[0]}
			f.kill(m)
		}
	}
}
