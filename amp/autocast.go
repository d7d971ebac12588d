// Package amp is automatic mixed precision: the autocast pass over a lowered program, dynamic loss scaling, and the
// memory report. Terms and behaviour are PyTorch's; docs/NUMERICS.md lists every difference.
package amp

import (
	"fmt"
	"slices"

	"halfstep/program"
)

// Class is what autocast does with an operation.
type Class uint8

// The three lists. Half operations take half operands, accumulate in float32 and give half results. Float32 operations
// compute in float32; those that read and write half values without a cast of the whole tensor convert inside. Follow
// operations compute in the widest type of their operands.
const (
	Follow Class = iota
	Half
	Float32
	Internal // float32 inside, whatever the operands' type: losses and statistics
)

// ClassOf tells to which list an operation belongs.
func ClassOf(op program.Op) Class {
	switch op.(type) {
	case program.Conv2D, program.Conv2DGradX, program.Conv2DGradW, program.Linear, program.LinearGradX, program.LinearGradW:
		return Half
	case program.Softmax, program.SoftmaxGrad:
		return Float32
	case program.CrossEntropy, program.CrossEntropyGrad, program.PointwiseLoss, program.PointwiseLossGrad,
		program.BiasGrad, program.BatchStats, program.BatchNormGradGamma, program.CountCorrect, program.GatherRows,
		program.GatherImages, program.OneHot, program.Constant, program.Scale:
		return Internal
	}
	return Follow
}

// HalfCopyName is the store's name of a parameter's half copy.
func HalfCopyName(param string) string { return param + ".half" }

// Autocast retypes a freshly lowered float32 program to compute in dtype. A cast of a value is made once and shared; a
// parameter is not cast but has a persistent half copy, which the optimizer writes beside the float32 master; a batch
// that only half operations read is gathered in half at once.
func Autocast(p *program.Program, dtype program.DType) error {
	if !dtype.Half() {
		return fmt.Errorf("amp: autocast to %s: want float16 or bfloat16", dtype)
	}
	a := &autocast{p: p, dtype: dtype, casts: map[*program.Value]*program.Value{}, widened: map[*program.Value]*program.Value{}}
	instrs := p.Instrs
	p.Instrs = nil
	for _, i := range instrs {
		a.instr(i)
		p.Instrs = append(p.Instrs, i)
	}
	a.gatherInHalf()
	if err := p.Verify(); err != nil {
		return fmt.Errorf("amp: autocast: %w", err)
	}
	return nil
}

type autocast struct {
	p       *program.Program
	dtype   program.DType
	casts   map[*program.Value]*program.Value // float32 value -> its half version
	widened map[*program.Value]*program.Value // half value -> its float32 version
}

func (a *autocast) instr(i *program.Instr) {
	switch ClassOf(i.Op) {
	case Half:
		for k := range min(2, len(i.In)) { // a third operand is the bias, which stays float32
			i.In[k] = a.toHalf(i.In[k], i)
		}
		a.retype(i.Out[:1], a.dtype)
	case Float32:
		for k := range i.In {
			i.In[k] = a.toFloat32(i.In[k], i)
		}
	case Follow:
		a.follow(i)
	case Internal:
		a.internal(i)
	}
}

// retype sets the type of results that were lowered as float32.
func (a *autocast) retype(vs []*program.Value, d program.DType) {
	for _, v := range vs {
		if v.DType.Float() {
			v.SetDType(d)
		}
	}
}

// operands lists the positions of the operands whose types must agree: the first, and further full-size ones. Vectors
// per channel (gamma, beta, statistics, sums) stay float32.
func operands(op program.Op) []int {
	switch op.(type) {
	case program.ActivationGrad, program.Add:
		return []int{0, 1}
	case program.MaxPool2DGrad:
		return []int{1}
	case program.BatchNormGradX:
		return []int{0, 4}
	}
	return []int{0}
}

func (a *autocast) follow(i *program.Instr) {
	if len(i.In) == 0 {
		return
	}
	d := a.dtype
	for _, k := range operands(i.Op) {
		if i.In[k].DType == program.Float32 {
			d = program.Float32
		}
	}
	for _, k := range operands(i.Op) {
		if d == program.Float32 {
			i.In[k] = a.toFloat32(i.In[k], i)
		}
	}
	a.retype(i.Out, d)
	if _, ok := i.Op.(program.Reshape); ok {
		i.Out[0].Alias = i.In[0]
	}
}

// internal leaves operands as they are; a gradient takes the type of what it is the gradient of.
func (a *autocast) internal(i *program.Instr) {
	switch i.Op.(type) {
	case program.CrossEntropyGrad, program.PointwiseLossGrad:
		i.Out[0].SetDType(i.In[0].DType)
	case program.BatchNormGradGamma:
		if i.In[0].DType != i.In[3].DType {
			i.In[0], i.In[3] = a.toFloat32(i.In[0], i), a.toFloat32(i.In[3], i)
		}
	}
}

func (a *autocast) toHalf(v *program.Value, i *program.Instr) *program.Value {
	if v.DType != program.Float32 {
		return v
	}
	if h := a.casts[v]; h != nil {
		return h
	}
	var h *program.Value
	switch {
	case v.Role == program.RoleParam:
		h = a.p.NewPersistent(HalfCopyName(v.Name), program.RoleHalfCopy, a.dtype, v.Shape...)
	case v.Alias != nil: // a view: cast what it is a view of, which others may share
		h = a.p.NewValue(v.Name+"."+a.dtype.String(), v.Role, a.dtype, v.Shape...)
		h.Alias = a.toHalf(v.Alias, i)
		a.p.Emit(i.Phase, i.Layer, program.Reshape{}, []*program.Value{h.Alias}, []*program.Value{h}, nil)
	default:
		h = a.cast(v, a.dtype, i)
	}
	a.casts[v] = h
	return h
}

func (a *autocast) toFloat32(v *program.Value, i *program.Instr) *program.Value {
	if v.DType == program.Float32 {
		return v
	}
	if w := a.widened[v]; w != nil {
		return w
	}
	w := a.cast(v, program.Float32, i)
	a.widened[v] = w
	return w
}

func (a *autocast) cast(v *program.Value, d program.DType, i *program.Instr) *program.Value {
	c := a.p.NewValue(v.Name+"."+d.String(), v.Role, d, v.Shape...)
	a.p.Emit(i.Phase, i.Layer, program.Cast{}, []*program.Value{v}, []*program.Value{c}, nil)
	return c
}

// gatherInHalf removes the cast of a batch that is read in half only: the gather rounds to half itself.
func (a *autocast) gatherInHalf() {
	for _, i := range slices.Clone(a.p.Instrs) {
		switch i.Op.(type) {
		case program.GatherImages, program.GatherRows:
		default:
			continue
		}
		x := i.Out[0]
		h := a.casts[x]
		if h == nil {
			continue
		}
		a.p.Prune() // views of x that only their casts read are gone now
		if a.otherReaders(x, h) {
			continue
		}
		i.Out[0] = h
		h.Name, x.Name = x.Name, x.Name+".unused"
		a.dropCast(x)
	}
	a.p.Prune()
}

// otherReaders reports whether an instruction other than the cast to h reads x, directly or through a view.
func (a *autocast) otherReaders(x, h *program.Value) bool {
	for _, i := range a.p.Instrs {
		for _, v := range i.In {
			if v.Root() == x && (len(i.Out) != 1 || i.Out[0] != h) {
				return true
			}
		}
	}
	return false
}

func (a *autocast) dropCast(x *program.Value) {
	for n, i := range a.p.Instrs {
		if _, ok := i.Op.(program.Cast); ok && i.In[0] == x {
			a.p.Instrs = append(a.p.Instrs[:n], a.p.Instrs[n+1:]...)
			return
		}
	}
}
