package program

// GradStats looks at every raw gradient once: whether each is finite (a flag of 1 says it is not), and the sum of its
// squares after unscaling by 1/scale. The unscaled element is float32(g)·float32(1/scale); squares are summed in float64 in
// chunks of ref.SumChunk elements, the chunk sums in order.
//
// In: loss scale Float32 scalar, then the gradients in backward order. Out: flags Int32 [n], squares Float64 [n].
type GradStats struct{}

// Name implements Op.
func (GradStats) Name() string { return "grad_stats" }

// Check implements Op.
func (o GradStats) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count([2]int{2, 1 << 16}, n(2), n(0))
	if c.ok() {
		c.shape(in[0]).dtype(in[0], Float32).float(in[1:]...).
			shape(out[0], len(in)-1).dtype(out[0], Int32).shape(out[1], len(in)-1).dtype(out[1], Float64)
	}
	return c.err
}

// StepControl decides what the update does: whether it is applied, by which factor gradients are multiplied (unscaling
// and clipping by norm in one), the learning rate from the epoch's table; then it moves the GradScaler and the counters.
//
// In: flags, squares (of GradStats), rates Float32 [M,2] (learning rate and momentum of each update of the epoch; a
// momentum of NaN keeps the optimizer's own). InOut: loss scale Float32 scalar, counters. Out: control.
type StepControl struct {
	Scaler   GradScaler
	ClipNorm float32 // 0: no clipping
	Unscaled bool    // the gradients carry no loss scale: sums of micro-batches
}

// Name implements Op.
func (StepControl) Name() string { return "step_control" }

// Check implements Op.
func (o StepControl) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(3), n(1), n(2))
	if c.ok() {
		c.rank(in[0], 1).dtype(in[0], Int32).dtype(in[1], Float64).shape(in[1], in[0].Shape...).rank(in[2], 2).dtype(in[2], Float32).
			shape(inout[0]).dtype(inout[0], Float32).counters(inout[1]).control(out[0])
	}
	return c.err
}

// Accumulate adds an unscaled gradient to a float32 sum: acc += float32(g)·float32(1/scale).
//
// In: g, loss scale Float32 scalar. InOut: acc Float32 of g's shape.
type Accumulate struct{}

// Name implements Op.
func (Accumulate) Name() string { return "accumulate" }

// Check implements Op.
func (o Accumulate) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(2), n(0), n(1))
	if c.ok() {
		c.float(in[0]).shape(in[1]).dtype(in[1], Float32).shape(inout[0], in[0].Shape...).dtype(inout[0], Float32)
	}
	return c.err
}

// Scale multiplies two float32 scalars: the gradient's seed when micro-batches are accumulated.
//
// In: a, b Float32 scalars. Out: a·b.
type Scale struct{}

// Name implements Op.
func (Scale) Name() string { return "scale" }

// Check implements Op.
func (o Scale) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(2), n(1), n(0))
	for _, v := range [][]*Value{in, out} {
		for _, v := range v {
			c.shape(v).dtype(v, Float32)
		}
	}
	return c.err
}

// Zero clears a value.
//
// InOut: x.
type Zero struct{}

// Name implements Op.
func (Zero) Name() string { return "zero" }

// Check implements Op.
func (o Zero) Check(in, out, inout []*Value) error {
	return check(o, in, out, inout).count(n(0), n(0), n(1)).err
}

// Advance moves the counters past a batch.
//
// InOut: counters.
type Advance struct {
	Samples int
	Attempt bool // count an attempt too: evaluation, which has no StepControl
}

// Name implements Op.
func (Advance) Name() string { return "advance" }

// Check implements Op.
func (o Advance) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(0), n(0), n(1))
	if c.ok() {
		c.counters(inout[0])
	}
	return c.err
}

// CountCorrect counts the rows whose first maximum is at the label. A row with a NaN counts as wrong.
//
// In: logits [B,C], labels Int32 [B]. Out: Int32 scalar.
type CountCorrect struct{}

// Name implements Op.
func (CountCorrect) Name() string { return "count_correct" }

// Check implements Op.
func (o CountCorrect) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(2), n(1), n(0))
	if c.ok() {
		c.logits(in[0], in[1]).shape(out[0]).dtype(out[0], Int32)
	}
	return c.err
}

// RingRow writes one row of metrics at row (attempts-1) mod rows of the ring.
//
// In: counters, loss Float32 scalar, then in order as the fields say: correct Int32 scalar, control and flags. InOut: ring
// Float32 [R,NumRing].
type RingRow struct {
	Samples    int
	HasCorrect bool
	HasControl bool
}

// Name implements Op.
func (RingRow) Name() string { return "ring_row" }

// Check implements Op.
func (o RingRow) Check(in, out, inout []*Value) error {
	ins := 2
	if o.HasCorrect {
		ins++
	}
	if o.HasControl {
		ins += 2
	}
	c := check(o, in, out, inout).count(n(ins), n(0), n(1))
	if c.ok() {
		c.counters(in[0]).shape(in[1]).dtype(in[1], Float32).rank(inout[0], 2).dtype(inout[0], Float32)
	}
	if c.ok() {
		c.shape(inout[0], inout[0].Shape[0], NumRing)
	}
	if c.ok() && o.HasCorrect {
		c.shape(in[2]).dtype(in[2], Int32)
	}
	if c.ok() && o.HasControl {
		c.control(in[ins-2]).rank(in[ins-1], 1).dtype(in[ins-1], Int32)
	}
	return c.err
}

// AddScalar adds one scalar to another: the loss (Float32) or count (Int32) of a micro-batch to its group's. With
// Weighted the term is multiplied by the third operand first.
//
// In: x scalar, weight Float32 scalar when Weighted. InOut: sum scalar of x's dtype.
type AddScalar struct{ Weighted bool }

// Name implements Op.
func (AddScalar) Name() string { return "add_scalar" }

// Check implements Op.
func (o AddScalar) Check(in, out, inout []*Value) error {
	ins := 1
	if o.Weighted {
		ins = 2
	}
	c := check(o, in, out, inout).count(n(ins), n(0), n(1))
	if c.ok() {
		c.shape(in[0]).shape(inout[0]).dtype(in[0], Float32, Int32).same(in[0], inout[0])
	}
	if c.ok() && o.Weighted {
		c.dtype(in[0], Float32).shape(in[1]).dtype(in[1], Float32)
	}
	return c.err
}
