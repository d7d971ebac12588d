package op

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// shapes are the input shapes of one InferShape, and the first fault found in them.
type shapes struct {
	op  G.Op
	in  []tensor.Shape
	err error
}

// inputs takes the shapes of an op's inputs and wants as many as its arity with the dimensions given.
func inputs(o G.Op, d []G.DimSizer, dims ...int) *shapes {
	s := &shapes{op: o}
	if s.in, s.err = G.DimSizersToShapes(d); s.err != nil {
		return s
	}
	if len(s.in) != len(dims) {
		s.failf("%d inputs, want %d", len(s.in), len(dims))
		return s
	}
	for i, n := range dims {
		if len(s.in[i]) != n {
			s.failf("input %d has shape %v, want %d dimensions", i, s.in[i], n)
		}
	}
	return s
}

func (s *shapes) ok() bool { return s.err == nil }

func (s *shapes) failf(format string, a ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%v: %s", s.op, fmt.Sprintf(format, a...))
	}
}

// want checks input i against a shape.
func (s *shapes) want(i int, dims ...int) *shapes {
	if s.ok() && !slices.Equal(s.in[i], dims) {
		s.failf("input %d has shape %v, want %v", i, s.in[i], dims)
	}
	return s
}

// same checks that these inputs have the shape of the first of them.
func (s *shapes) same(first int, others ...int) *shapes {
	for _, i := range others {
		if s.ok() {
			s.want(i, s.in[first]...)
		}
	}
	return s
}

// channels checks that these inputs are vectors of x's last dimension.
func (s *shapes) channels(x int, vectors ...int) *shapes {
	for _, i := range vectors {
		if s.ok() {
			s.want(i, s.last(x))
		}
	}
	return s
}

// last is the last dimension of input i.
func (s *shapes) last(i int) int { return s.in[i][len(s.in[i])-1] }

// out is the result of InferShape. f runs only when no fault was found.
func (s *shapes) out(f func(in []tensor.Shape) tensor.Shape) (tensor.Shape, error) {
	if !s.ok() {
		return nil, s.err
	}
	out := f(s.in).Clone()
	for _, d := range out {
		if d < 1 {
			return nil, fmt.Errorf("%v: inputs %v leave no output", s.op, s.in)
		}
	}
	return out, nil
}

// first is the usual output shape: that of input 0.
func first(in []tensor.Shape) tensor.Shape { return in[0] }
