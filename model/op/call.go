package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/model/op/ref"
)

// call is one evaluation of an op: its inputs and the output to fill.
type call[E ref.Float] struct {
	in  []G.Value
	out tensor.Shape
	y   []E
}

// data is input i as a slice.
func (c *call[E]) data(i int) []E { return data[E](c.in[i]) }

// dim is dimension d of input i.
func (c *call[E]) dim(i, d int) int { return c.in[i].Shape()[d] }

// size is the number of elements of input i.
func (c *call[E]) size(i int) int { return c.in[i].Shape().TotalSize() }

// data is a value's elements; a scalar's is a slice of one. It is nil when the elements are of another type.
func data[T any](v G.Value) []T {
	switch d := v.Data().(type) {
	case []T:
		return d
	case T:
		return []T{d}
	}
	return nil
}

// do evaluates o in the float dtype of its inputs.
func do[O G.Op](o O, in []G.Value, f32 func(O, *call[float32]) error, f64 func(O, *call[float64]) error) (G.Value, error) {
	out, err := outShape(o, in)
	if err != nil {
		return nil, err
	}
	for _, v := range in {
		switch v.Dtype() {
		case tensor.Float32:
			return evaluate(o, in, out, f32)
		case tensor.Float64:
			return evaluate(o, in, out, f64)
		}
	}
	return nil, fmt.Errorf("%v: no input is float32 or float64", o)
}

func evaluate[O G.Op, E ref.Float](o O, in []G.Value, out tensor.Shape, f func(O, *call[E]) error) (G.Value, error) {
	c := &call[E]{in: in, out: out, y: make([]E, out.TotalSize())}
	if err := f(o, c); err != nil {
		return nil, fmt.Errorf("%v: %w", o, err)
	}
	if !out.IsScalar() {
		return tensor.New(tensor.WithShape(out...), tensor.WithBacking(c.y)), nil
	}
	switch y := any(c.y[0]).(type) {
	case float32:
		return G.NewF32(y), nil
	default:
		return G.NewF64(float64(c.y[0])), nil
	}
}

// bytes makes a uint8 result.
func bytes(shape tensor.Shape, y []uint8) G.Value {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(y))
}

// outShape is the shape of the result on these inputs.
func outShape(o G.Op, in []G.Value) (tensor.Shape, error) {
	d := make([]G.DimSizer, len(in))
	for i, v := range in {
		d[i] = v.Shape()
	}
	return o.InferShape(d...)
}
