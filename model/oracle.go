package model

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/model/op/ref"
)

// Oracle runs a Model on Gorgonia's TapeMachine through the ops' reference loops: what every compiled program is compared
// with. E must be the model's dtype.
type Oracle[E ref.Float] struct {
	m  *Model
	vm G.VM
}

// Result is one evaluation. Its slices are copies.
type Result[E ref.Float] struct {
	Loss   E
	Logits []E
	Grads  [][]E // of Model.Grads
}

// NewOracle compiles the graph. The caller closes the Oracle.
func NewOracle[E ref.Float](m *Model) (*Oracle[E], error) {
	want := tensor.Float32
	if _, ok := any(E(0)).(float64); ok {
		want = tensor.Float64
	}
	if got := m.Input.Dtype(); got != want {
		return nil, fmt.Errorf("model: oracle: graph is %v, want %v", got, want)
	}
	return &Oracle[E]{m: m, vm: G.NewTapeMachine(m.Graph)}, nil
}

// Bind makes v the value of a float input (Input, Target, a Param's Node, running statistics). The Oracle keeps the slice and
// sees later changes.
func (o *Oracle[E]) Bind(n *G.Node, v []E) error { return bind(n, v) }

// BindInts makes v the value of an Int32 input: labels or counters.
func (o *Oracle[E]) BindInts(n *G.Node, v []int32) error { return bind(n, v) }

// bind checks the length, which Gorgonia does not.
func bind[T any](n *G.Node, v []T) error {
	if n.Shape().TotalSize() != len(v) {
		return fmt.Errorf("model: oracle: %s has shape %v, got %d elements", n.Name(), n.Shape(), len(v))
	}
	if err := G.Let(n, tensor.New(tensor.WithShape(n.Shape()...), tensor.WithBacking(v))); err != nil {
		return fmt.Errorf("model: oracle: %w", err)
	}
	return nil
}

// Run evaluates loss, logits and gradients. All inputs must be bound.
func (o *Oracle[E]) Run() (*Result[E], error) {
	defer o.vm.Reset()
	if err := o.vm.RunAll(); err != nil {
		return nil, fmt.Errorf("model: oracle: %w", err)
	}
	r := &Result[E]{Loss: o.Value(o.m.Loss)[0], Logits: o.Value(o.m.Logits)}
	for _, g := range o.m.Grads {
		r.Grads = append(r.Grads, o.Value(g))
	}
	return r, nil
}

// Value is a copy of a float node's elements after the last Run: batch statistics, a layer's output. The machine may have
// reused the memory of values in the middle of a sum of gradients.
func (o *Oracle[E]) Value(n *G.Node) []E {
	switch d := n.Value().Data().(type) {
	case []E:
		return slices.Clone(d)
	case E:
		return []E{d}
	}
	return nil
}

// Close frees the machine.
func (o *Oracle[E]) Close() error { return o.vm.Close() }
