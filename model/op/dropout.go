package op

import (
	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/model/op/ref"
)

// DropoutMask is 1 for the elements that dropout keeps, else 0: inputs x [B,...] (only its shape counts), counters Int32
// [NumCounters]; output Uint8 of x's shape. It depends on Seed, Number and the counters alone (ref.DropoutMask).
type DropoutMask struct {
	Leaf
	Rate   float32
	Number int // of the dropout layer in the model, from 0
	Seed   uint64
	Dims   int
}

func (DropoutMask) Arity() int { return 2 }

func (o DropoutMask) Type() hm.Type {
	return signature(tensorOf(o.Dims, float), tensorOf(1, tensor.Int32), tensorOf(o.Dims, tensor.Uint8))
}

func (o DropoutMask) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, o.Dims, 1).want(1, NumCounters).out(first)
}

func (o DropoutMask) Do(in ...G.Value) (G.Value, error) {
	out, err := outShape(o, in)
	if err != nil {
		return nil, err
	}
	counters := data[int32](in[1])
	mask := make([]uint8, out.TotalSize())
	epoch, position := uint32(counters[CounterEpoch]), uint32(counters[CounterPosition])
	ref.DropoutMask(mask, o.Rate, o.Seed, o.Number, epoch, position, len(mask)/out[0], 0, out[0])
	return bytes(out, mask), nil
}

// ApplyMask is y = x/(1-Rate) where the mask is 1, else 0: inputs x, mask Uint8; output of x's shape. It is its own
// gradient.
type ApplyMask struct {
	Base
	Rate float32
	Dims int
}

func (ApplyMask) Arity() int { return 2 }

func (o ApplyMask) Type() hm.Type {
	return signature(tensorOf(o.Dims, float), tensorOf(o.Dims, tensor.Uint8), tensorOf(o.Dims, float))
}

func (o ApplyMask) InferShape(d ...G.DimSizer) (tensor.Shape, error) {
	return inputs(o, d, o.Dims, o.Dims).same(0, 1).out(first)
}

func (o ApplyMask) Do(in ...G.Value) (G.Value, error) {
	return do(o, in, applyMask[float32], applyMask[float64])
}

func applyMask[E ref.Float](o ApplyMask, c *call[E]) error {
	ref.ApplyMask(c.y, c.data(0), data[uint8](c.in[1]), o.Rate)
	return nil
}

func (ApplyMask) DiffWRT(int) []bool { return []bool{true, false} }

func (o ApplyMask) SymDiff(in G.Nodes, y, dy *G.Node) (G.Nodes, error) {
	var g gradients
	g.add(o, dy, in[1])
	g.none()
	return g.result()
}
