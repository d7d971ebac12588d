package program

import (
	"fmt"
	"slices"
)

// checker collects the first fault of an instruction's operands.
type checker struct {
	op             string
	in, out, inout []*Value
	err            error
}

func check(op Op, in, out, inout []*Value) *checker {
	return &checker{op: op.Name(), in: in, out: out, inout: inout}
}

func (c *checker) failf(format string, a ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %s", c.op, fmt.Sprintf(format, a...))
	}
}

// count wants the number of inputs, outputs and in-out operands; a pair of numbers is a closed range.
func (c *checker) count(in, out, inout [2]int) *checker {
	for _, k := range []struct {
		what string
		n    int
		want [2]int
	}{{"inputs", len(c.in), in}, {"outputs", len(c.out), out}, {"in-out operands", len(c.inout), inout}} {
		if k.n < k.want[0] || k.n > k.want[1] {
			c.failf("%d %s, want %d to %d", k.n, k.what, k.want[0], k.want[1])
		}
	}
	return c
}

func n(v int) [2]int { return [2]int{v, v} }

// shape wants v to have exactly this shape.
func (c *checker) shape(v *Value, want ...int) *checker {
	if c.err == nil && !slices.Equal(v.Shape, want) {
		c.failf("%s has shape %v, want %v", v.Name, v.Shape, want)
	}
	return c
}

// rank wants v to have so many dimensions.
func (c *checker) rank(v *Value, want int) *checker {
	if c.err == nil && len(v.Shape) != want {
		c.failf("%s has shape %v, want %d dimensions", v.Name, v.Shape, want)
	}
	return c
}

// dtype wants v to have one of the types.
func (c *checker) dtype(v *Value, want ...DType) *checker {
	if c.err == nil && !slices.Contains(want, v.DType) {
		c.failf("%s is %s, want %v", v.Name, v.DType, want)
	}
	return c
}

// float wants v to be float32 or a half type.
func (c *checker) float(vs ...*Value) *checker {
	for _, v := range vs {
		c.dtype(v, Float32, Float16, BFloat16)
	}
	return c
}

// same wants all values to have the first one's dtype.
func (c *checker) same(vs ...*Value) *checker {
	for _, v := range vs[1:] {
		c.dtype(v, vs[0].DType)
	}
	return c
}

func (c *checker) ok() bool { return c.err == nil }

// lastDim is the size of the last dimension; 0 of a scalar.
func lastDim(v *Value) int {
	if len(v.Shape) == 0 {
		return 0
	}
	return v.Shape[len(v.Shape)-1]
}
