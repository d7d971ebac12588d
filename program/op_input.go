package program

// GatherImages reads one batch from the resident bytes, in the epoch's order from counters[CounterPosition] on, and
// normalises it: x = (float32(byte)/255 - Mean) / Std, each operation rounded to float32, then rounded to x's dtype.
// With Shift > 0 each image is moved by up to Shift pixels in both directions (zero bytes come in), by the stream
// philox.Augment keyed by Seed, counted by epoch and position in the epoch.
//
// In: images Uint8 [N,H,W,C], order Int32 [M], counters. Out: x [B,H,W,C] or [B,H*W*C].
type GatherImages struct {
	Mean, Std float32
	Shift     int
	Seed      uint64
}

// Name implements Op.
func (GatherImages) Name() string { return "gather_images" }

// Check implements Op.
func (o GatherImages) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(3), n(1), n(0))
	if c.ok() {
		c.rank(in[0], 4).dtype(in[0], Uint8).rank(in[1], 1).dtype(in[1], Int32).counters(in[2]).float(out[0])
	}
	if c.ok() && out[0].Elems() != out[0].Shape[0]*in[0].Shape[1]*in[0].Shape[2]*in[0].Shape[3] {
		c.failf("%s has shape %v, want the batch and %v", out[0].Name, out[0].Shape, in[0].Shape[1:])
	}
	return c.err
}

// GatherRows reads one batch of rows in the epoch's order: float32 inputs or targets (rounded to the output's dtype), or
// Int32 labels.
//
// In: rows [N,D...], order Int32 [M], counters. Out: [B,D...].
type GatherRows struct{}

// Name implements Op.
func (GatherRows) Name() string { return "gather_rows" }

// Check implements Op.
func (o GatherRows) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(3), n(1), n(0))
	if c.ok() {
		c.rank(in[1], 1).dtype(in[1], Int32).counters(in[2]).dtype(in[0], Float32, Int32)
	}
	if c.ok() {
		c.shape(out[0], append([]int{out[0].Shape[0]}, in[0].Shape[1:]...)...)
		if in[0].DType == Int32 {
			c.dtype(out[0], Int32)
		} else {
			c.float(out[0])
		}
	}
	return c.err
}

// OneHot turns labels into rows of zeros with a one.
//
// In: labels Int32 [B]. Out: Float32 [B,classes].
type OneHot struct{}

// Name implements Op.
func (OneHot) Name() string { return "one_hot" }

// Check implements Op.
func (o OneHot) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(1), n(1), n(0))
	if c.ok() {
		c.rank(in[0], 1).dtype(in[0], Int32).rank(out[0], 2).dtype(out[0], Float32)
	}
	if c.ok() && out[0].Shape[0] != in[0].Shape[0] {
		c.failf("%s has shape %v, want batch %d", out[0].Name, out[0].Shape, in[0].Shape[0])
	}
	return c.err
}

// Constant writes one float32 scalar: the seed of the gradient where no loss scale takes its place.
//
// Out: Float32 scalar.
type Constant struct{ Value float32 }

// Name implements Op.
func (Constant) Name() string { return "constant" }

// Check implements Op.
func (o Constant) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(0), n(1), n(0))
	if c.ok() {
		c.shape(out[0]).dtype(out[0], Float32)
	}
	return c.err
}

// Cast converts between float32, float16 and bfloat16, rounding to nearest even.
//
// In: x. Out: the same shape.
type Cast struct{}

// Name implements Op.
func (Cast) Name() string { return "cast" }

// Check implements Op.
func (o Cast) Check(in, out, inout []*Value) error {
	c := check(o, in, out, inout).count(n(1), n(1), n(0))
	if c.ok() {
		c.float(in[0], out[0]).shape(out[0], in[0].Shape...)
	}
	return c.err
}

func (c *checker) counters(v *Value) *checker { return c.shape(v, NumCounters).dtype(v, Int32) }
func (c *checker) control(v *Value) *checker  { return c.shape(v, NumControls).dtype(v, Float32) }
