//go:build linux && gpu && (amd64 || arm64)

package cuda

import "halfstep/program"

// What column_sums adds up and how column_finish ends it, as in kernels/norm.h.
const (
	sumValues = iota
	sumSquares
	sumSlopes
)

const (
	finishPlain = iota
	finishMean
	finishInverseStd
)

const (
	sumRows     = 512 // rows of one partial sum
	sumChannels = 32  // channels of one block
)

// channels is the size of the last dimension.
func channels(v *program.Value) int { return v.Shape[len(v.Shape)-1] }

// columnWork is the workspace of columnSums over a tensor.
func columnWork(v *program.Value) int64 {
	c := channels(v)
	return alignUp(8 * int64(ceilDiv(v.Elems()/c, sumRows)) * int64(c))
}

// columnSums appends the launches of a sum over all but the last dimension of x, in float64: one for few rows, else one for partials
// and one for out. at is where x lies; sum and finish say what is summed and how it ends.
func (b *builder) columnSums(x *program.Value, at ptr, out ptr, sum columnSumArgs, finish columnFinishArgs) {
	c := channels(x)
	rows := x.Elems() / c
	blocks := ceilDiv(rows, sumRows)
	sum.x, sum.rows, sum.c = at, int32(rows), int32(c)
	finish.out, finish.partials, finish.blocks, finish.rows, finish.c = out, sum.partials, int32(blocks), int32(rows), int32(c)
	if blocks == 1 {
		add(b, "column_totals"+suffix(x.DType), [3]int{ceilDiv(c, sumChannels), 1, 1}, threads, columnTotalsArgs{sum, finish})
		return
	}
	add(b, "column_sums"+suffix(x.DType), [3]int{ceilDiv(c, sumChannels), blocks, 1}, threads, sum)
	add(b, "column_finish", [3]int{ceilDiv(c, sumElems), 1, 1}, threads, finish)
}

func biasGrad(b *builder, i *program.Instr, _ program.BiasGrad) {
	b.biasGrad(i.In[0], b.ptr(i.In[0]), b.ptr(i.Out[0]))
}

// biasGrad sums dy, which is shaped like a value and lies at an address.
func (b *builder) biasGrad(like *program.Value, dy, db ptr) {
	b.columnSums(like, dy, db, columnSumArgs{partials: b.take(columnWork(like)), kind: sumValues}, columnFinishArgs{kind: finishPlain})
}

func batchStats(b *builder, i *program.Instr, _ program.BatchStats) {
	x := i.In[0]
	partials := b.take(columnWork(x))
	mean64 := b.take(8 * int64(channels(x)))
	b.columnSums(x, b.ptr(x), b.ptr(i.Out[0]), columnSumArgs{partials: partials, kind: sumValues},
		columnFinishArgs{mean64: mean64, kind: finishMean})
	b.columnSums(x, b.ptr(x), b.ptr(i.Out[1]), columnSumArgs{partials: partials, mean64: mean64, kind: sumSquares},
		columnFinishArgs{kind: finishMean})
}

func batchNorm(b *builder, i *program.Instr, o program.BatchNorm) {
	x := i.In[0]
	elementwise(b, "batch_norm"+suffix(x.DType), x.Elems(), batchNormArgs{
		y: b.ptr(i.Out[0]), x: b.ptr(x), gamma: b.ptr(i.In[1]), beta: b.ptr(i.In[2]), mean: b.ptr(i.In[3]), variance: b.ptr(i.In[4]),
		n: int32(x.Elems()), c: int32(channels(x)), eps: o.Eps,
	})
}

func batchNormGradGamma(b *builder, i *program.Instr, o program.BatchNormGradGamma) {
	x := i.In[0]
	b.columnSums(x, b.ptr(x), b.ptr(i.Out[0]),
		columnSumArgs{partials: b.take(columnWork(x)), dy: b.ptr(i.In[3]), mean: b.ptr(i.In[1]), kind: sumSlopes},
		columnFinishArgs{variance: b.ptr(i.In[2]), eps: o.Eps, kind: finishInverseStd})
}

func batchNormGradX(b *builder, i *program.Instr, o program.BatchNormGradX) {
	x := i.In[0]
	elementwise(b, "batch_norm_grad_x"+suffix(x.DType), x.Elems(), batchNormArgs{
		y: b.ptr(i.Out[0]), x: b.ptr(x), gamma: b.ptr(i.In[1]), mean: b.ptr(i.In[2]), variance: b.ptr(i.In[3]), dy: b.ptr(i.In[4]),
		dgamma: b.ptr(i.In[5]), dbeta: b.ptr(i.In[6]), n: int32(x.Elems()), c: int32(channels(x)), eps: o.Eps,
	})
}

func updateRunning(b *builder, i *program.Instr, o program.UpdateRunning) {
	var control ptr
	if len(i.In) == 3 {
		control = b.ptr(i.In[2])
	}
	c := i.In[0].Elems()
	elementwise(b, "update_running", c, runningArgs{
		runningMean: b.ptr(i.InOut[0]), runningVar: b.ptr(i.InOut[1]), mean: b.ptr(i.In[0]), variance: b.ptr(i.In[1]), control: control,
		c: int32(c), momentum: o.Momentum, unbiased: float32(float64(o.Count) / float64(max(o.Count-1, 1))),
	})
}

func commitRunning(b *builder, i *program.Instr, _ program.CommitRunning) {
	c := i.InOut[0].Elems()
	elementwise(b, "commit_running", c,
		commitArgs{running: b.ptr(i.InOut[0]), shadow: b.ptr(i.InOut[1]), control: b.ptr(i.In[0]), c: int32(c)})
}
