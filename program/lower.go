package program

import (
	"fmt"
	"reflect"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/model"
	"halfstep/model/op"
)

// Lowered names the values of a model's instructions that the rest of the step connects to.
type Lowered struct {
	Logits, Loss *Value
	// Grads has the gradient of every trainable parameter, in the order the backward pass makes them.
	Grads []ParamGrad
	// Stats has the batch statistics and the running statistics of every batch norm; training only.
	Stats []NormStats
}

// ParamGrad is a trainable parameter with its gradient.
type ParamGrad struct {
	Param, Grad *Value
	HalfCopy    *Value // set by autocast; nil when the parameter has none
	Layer       string
}

// NormStats are the statistics of one batch norm.
type NormStats struct {
	Layer                     string
	Mean, Variance            *Value
	RunningMean, RunningVar   string
	Momentum                  float32
	Count                     int
	runningMeanV, runningVarV *Value
}

// Inputs are the values that the input phase has written before the model's instructions.
type Inputs struct {
	X, Target *Value
	Counters  *Value
	Seed      *Value // the gradient's seed, Float32 scalar: the loss scale; nil is the constant 1
}

// Lower appends the instructions of a model: everything that its loss and gradients need, by depth-first search, in
// float32. Operations that come in pairs over the same operands (a max pool and its argmax, mean and variance, a mask
// and its application) become one instruction. A node whose operation is not ours, apart from the two that Gorgonia's
// differentiation inserts, is an error that names it.
func Lower(p *Program, m *model.Model, in Inputs) (*Lowered, error) {
	l := &lowering{p: p, m: m, in: in, of: map[*G.Node]*Value{}, builtin: probeBuiltins()}
	for n, v := range map[*G.Node]*Value{m.Input: in.X, m.Target: in.Target, m.Counters: in.Counters} {
		if n != nil {
			l.of[n] = v
		}
	}
	for i := range m.Params {
		mp := &m.Params[i]
		l.of[mp.Node] = p.NewPersistent(mp.Name, RoleParam, Float32, mp.Shape...)
	}
	if m.Grads == nil {
		for _, b := range m.BatchNorms {
			l.of[b.Mean] = p.NewPersistent(b.RunningMean, RoleState, Float32, b.Mean.Shape()...)
			l.of[b.Var] = p.NewPersistent(b.RunningVar, RoleState, Float32, b.Var.Shape()...)
		}
	}
	loss, err := l.visit(m.Loss)
	if err != nil {
		return nil, fmt.Errorf("lower: %w", err)
	}
	loss.Role = RoleMetric
	r := &Lowered{Loss: loss, Logits: l.of[m.Logits]}
	if err := l.gradients(r); err != nil {
		return nil, fmt.Errorf("lower: %w", err)
	}
	return r, nil
}

type lowering struct {
	p       *Program
	m       *model.Model
	in      Inputs
	of      map[*G.Node]*Value
	builtin builtins
}

// gradients visits the gradients from the last parameter to the first, which is the order a backward pass makes them in.
func (l *lowering) gradients(r *Lowered) error {
	var trainable []*model.Param
	for i := range l.m.Params {
		if l.m.Params[i].Trainable {
			trainable = append(trainable, &l.m.Params[i])
		}
	}
	if l.m.Grads == nil {
		return nil
	}
	for i := len(trainable) - 1; i >= 0; i-- {
		mp := trainable[i]
		node := l.m.Grads[i]
		g, err := l.visit(node)
		if err != nil {
			return fmt.Errorf("gradient of %s: %w", mp.Name, err)
		}
		g.Name, g.Role = mp.Name+"/grad", RoleGrad
		r.Grads = append(r.Grads, ParamGrad{Param: l.of[mp.Node], Grad: g, Layer: mp.Layer})
	}
	for _, b := range l.m.BatchNorms {
		s := NormStats{Layer: b.Layer, Mean: l.of[b.Mean], Variance: l.of[b.Var], RunningMean: b.RunningMean, RunningVar: b.RunningVar, Momentum: b.Momentum, Count: b.Count}
		s.runningMeanV = l.p.NewPersistent(b.RunningMean, RoleState, Float32, s.Mean.Shape...)
		s.runningVarV = l.p.NewPersistent(b.RunningVar, RoleState, Float32, s.Mean.Shape...)
		r.Stats = append(r.Stats, s)
	}
	return nil
}

// Running gives the persistent running statistics.
func (s NormStats) Running() (mean, variance *Value) { return s.runningMeanV, s.runningVarV }

// visit lowers a node after its operands, once.
func (l *lowering) visit(n *G.Node) (*Value, error) {
	if v := l.of[n]; v != nil {
		return v, nil
	}
	if n.Op() == nil && !l.builtin.isConstant(n) {
		return nil, fmt.Errorf("node %d (%s) is an input that nobody gives a value", n.ID(), n.Name())
	}
	kids := op.Inputs(n)
	if m, ok := n.Op().(op.ApplyMask); ok {
		if mask, ok := kids[1].Op().(op.DropoutMask); ok && l.of[kids[1]] == nil {
			return l.dropout(n, kids, m, mask)
		}
	}
	in := make([]*Value, len(kids))
	for i, c := range kids {
		v, err := l.visit(c)
		if err != nil {
			return nil, err
		}
		in[i] = v
	}
	return l.emit(n, kids, in)
}

// dropout draws the mask and applies it in one instruction.
func (l *lowering) dropout(n *G.Node, kids []*G.Node, apply op.ApplyMask, mask op.DropoutMask) (*Value, error) {
	x, err := l.visit(kids[0])
	if err != nil {
		return nil, err
	}
	layer := l.layerOf(n)
	y := l.value(n, layer+"/y", Float32)
	b := l.value(kids[1], layer+"/mask", Uint8)
	l.p.Emit(Forward, layer, Dropout{Rate: mask.Rate, Layer: mask.Number, Seed: mask.Seed}, []*Value{x, l.in.Counters}, []*Value{y, b}, nil)
	if apply.Rate != mask.Rate {
		return nil, fmt.Errorf("node %d: %v applied at another rate than drawn %v", n.ID(), apply, mask)
	}
	return y, nil
}

// value makes the program's value for a node's result, with a name of its own.
func (l *lowering) value(n *G.Node, name string, d DType) *Value {
	unique := name
	for k := 2; l.p.Lookup(unique) != nil; k++ {
		unique = fmt.Sprintf("%s%d", name, k)
	}
	v := l.p.NewValue(unique, RoleActivation, d, n.Shape()...)
	l.of[n] = v
	return v
}

// companion finds the other node over the same operand that one instruction computes along with n.
func (l *lowering) companion(x *G.Node, want func(G.Op) bool) *G.Node {
	to := x.Graph().To(x.ID())
	for to.Next() {
		n := to.Node().(*G.Node)
		if n.Op() != nil && want(n.Op()) && op.Inputs(n)[0] == x {
			return n
		}
	}
	return nil
}

// builtins are the types of the two operations that Gorgonia's differentiation inserts; they are not exported, so they
// are learned from nodes made on the spot.
type builtins struct{ add, constant reflect.Type }

func probeBuiltins() builtins {
	g := G.NewGraph()
	a := G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("a"))
	b := G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("b"))
	return builtins{reflect.TypeOf(G.Must(G.Add(a, b)).Op()), reflect.TypeOf(G.NewConstant(float32(1)).Op())}
}

func (b builtins) isConstant(n *G.Node) bool { return reflect.TypeOf(n.Op()) == b.constant }

func (b builtins) isAdd(n *G.Node) bool {
	return reflect.TypeOf(n.Op()) == b.add && n.Op().String() == "+ false"
}
