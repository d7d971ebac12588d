// Package op holds the operations of the graph as Gorgonia ops: type, shape, symbolic derivative, and a Do that runs the
// loops of package ref. Operands are in the order of the instructions of the same name in package program.
//
// Every op has the methods of gorgonia.Op and gorgonia.SDOp: Arity, Type, InferShape, Do, DiffWRT and SymDiff stand beside
// its struct, String, WriteHash and Hashcode in hash.go.
package op

import (
	"fmt"
	"slices"

	"github.com/chewxy/hm"
	"gonum.org/v1/gonum/graph"
	G "gorgonia.org/gorgonia"
)

// The counters that masks depend on, as elements of an Int32 vector. They are those of package program, which imports
// this one; a test there compares them.
const (
	CounterEpoch    = 0
	CounterPosition = 1
	NumCounters     = 8
)

// Base is part of every op. Layer is the name of the layer that the op computes or differentiates; gradients inherit it.
type Base struct{ Layer string }

// LayerName is the name of the op's layer.
func (b Base) LayerName() string { return b.Layer }

// ReturnsPtr implements gorgonia.Op.
func (Base) ReturnsPtr() bool { return false }

// CallsExtern implements gorgonia.Op.
func (Base) CallsExtern() bool { return false }

// OverwritesInput implements gorgonia.Op: no op works in place.
func (Base) OverwritesInput() int { return -1 }

// Leaf is part of the ops that are not differentiated further: gradients, statistics, masks.
type Leaf struct{ Base }

// DiffWRT implements gorgonia.SDOp.
func (Leaf) DiffWRT(n int) []bool { return make([]bool, n) }

// SymDiff implements gorgonia.SDOp. Gorgonia never calls it where DiffWRT is false throughout.
func (Leaf) SymDiff(G.Nodes, *G.Node, *G.Node) (G.Nodes, error) {
	return nil, fmt.Errorf("op: gradients are not differentiated again")
}

// Apply is gorgonia.ApplyOp with two checks that it lacks. Gorgonia merges nodes whose 32-bit hashes are equal without
// comparing their inputs, so a collision would silently wire the wrong ones; and a merged node may have another shape.
func Apply(o G.Op, inputs ...*G.Node) (*G.Node, error) {
	n, err := G.ApplyOp(o, inputs...)
	if err != nil {
		return nil, fmt.Errorf("op: %w", err)
	}
	if got := Inputs(n); !slices.Equal(got, inputs) {
		return nil, fmt.Errorf("op: %v: hash collision in the graph: inputs %v, want %v", o, G.Nodes(got), G.Nodes(inputs))
	}
	shapes := make([]G.DimSizer, len(inputs))
	for i, in := range inputs {
		shapes[i] = in.Shape()
	}
	want, err := o.InferShape(shapes...)
	if err != nil {
		return nil, fmt.Errorf("op: %w", err)
	}
	if !slices.Equal(n.Shape(), want) {
		return nil, fmt.Errorf("op: %v: node has shape %v, want %v", o, n.Shape(), want)
	}
	return n, nil
}

// Inputs lists a node's inputs in order; an input used twice is there twice.
func Inputs(n *G.Node) []*G.Node {
	from := graph.NodesOf(n.Graph().From(n.ID()))
	in := make([]*G.Node, len(from))
	for i, c := range from {
		in[i] = c.(*G.Node)
	}
	return in
}

// gradients collects what SymDiff returns, one entry for each input, and the first error.
type gradients struct {
	nodes G.Nodes
	err   error
}

// apply makes a node that an entry needs.
func (g *gradients) apply(o G.Op, inputs ...*G.Node) *G.Node {
	if g.err != nil {
		return nil
	}
	var n *G.Node
	n, g.err = Apply(o, inputs...)
	return n
}

// add makes a node and appends it as the next entry.
func (g *gradients) add(o G.Op, inputs ...*G.Node) { g.nodes = append(g.nodes, g.apply(o, inputs...)) }

// none appends the entry of an input without gradient.
func (g *gradients) none() { g.nodes = append(g.nodes, nil) }

func (g *gradients) result() (G.Nodes, error) { return g.nodes, g.err }

// float is the type variable that float32 and float64 graphs bind.
var float = hm.TypeVariable('a')

// tensorOf is the type of a tensor with so many dimensions; 0 is a scalar.
func tensorOf(dims int, of hm.Type) hm.Type {
	if dims == 0 {
		return of
	}
	return G.TensorType{Dims: dims, Of: of}
}

// signature is the type of a function: inputs, then the output. It is made anew each time because Gorgonia recycles it.
func signature(ts ...hm.Type) hm.Type { return hm.NewFnType(ts...) }

// floats is the signature of a function of float tensors by dimensions: of the inputs, then of the output.
func floats(dims ...int) hm.Type {
	ts := make([]hm.Type, len(dims))
	for i, d := range dims {
		ts[i] = tensorOf(d, float)
	}
	return signature(ts...)
}
