//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"halfstep/model/op/ref"
	"halfstep/program"
)

// rowwise appends a launch with one warp for each row.
func rowwise[A any](b *builder, name string, rows int, args A) {
	add(b, name, [3]int{ceilDiv(rows, threads/32), 1, 1}, threads, args)
}

func softmax(b *builder, i *program.Instr, _ program.Softmax) {
	x := i.In[0]
	rowwise(b, "softmax"+suffix(x.DType), x.Shape[0],
		softmaxArgs{y: b.ptr(i.Out[0]), x: b.ptr(x), rows: int32(x.Shape[0]), c: int32(x.Shape[1])})
}

func softmaxGrad(b *builder, i *program.Instr, _ program.SoftmaxGrad) {
	y := i.In[0]
	rowwise(b, "softmax_grad"+suffix(y.DType), y.Shape[0],
		softmaxArgs{y: b.ptr(i.Out[0]), x: b.ptr(y), dy: b.ptr(i.In[1]), rows: int32(y.Shape[0]), c: int32(y.Shape[1])})
}

// sumTerms appends the sum of n float64 terms, divided, as a float32 scalar.
func (b *builder) sumTerms(out *program.Value, terms ptr, n int, divisor float64) {
	add(b, "sum_terms", [3]int{1, 1, 1}, threads, sumArgs{out: b.ptr(out), terms: terms, n: int32(n), divisor: divisor})
}

func crossEntropy(b *builder, i *program.Instr, o program.CrossEntropy) {
	x := i.In[0]
	rows := x.Shape[0]
	losses := b.take(8 * int64(rows))
	rowwise(b, "cross_entropy"+suffix(x.DType), rows, crossEntropyArgs{
		rowLoss: losses, x: b.ptr(x), labels: b.ptr(i.In[1]), rows: int32(rows), c: int32(x.Shape[1]), smoothing: o.Smoothing,
	})
	b.sumTerms(i.Out[0], losses, rows, float64(rows))
}

func crossEntropyGrad(b *builder, i *program.Instr, o program.CrossEntropyGrad) {
	x := i.In[0]
	rows := x.Shape[0]
	rowwise(b, "cross_entropy_grad"+suffix(x.DType), rows, crossEntropyArgs{
		dx: b.ptr(i.Out[0]), x: b.ptr(x), labels: b.ptr(i.In[1]), dloss: b.ptr(i.In[2]),
		rows: int32(rows), c: int32(x.Shape[1]), smoothing: o.Smoothing,
	})
}

func (b *builder) pointwise(i *program.Instr, l ref.PointLoss, r ref.Reduction) pointwiseArgs {
	y, t := i.In[0], i.In[1]
	return pointwiseArgs{
		y: b.ptr(y), t: b.ptr(t), n: int32(y.Elems()), loss: int32(l), dtype: int32(y.DType), tDType: int32(t.DType),
		divisor: float64(r.Divisor(y.Elems(), y.Shape[0])),
	}
}

func pointwiseLoss(b *builder, i *program.Instr, o program.PointwiseLoss) {
	a := b.pointwise(i, o.Loss, o.Reduction)
	chunks := ceilDiv(int(a.n), ref.SumChunk)
	a.partials = b.take(8 * int64(chunks))
	add(b, "pointwise_loss", [3]int{chunks, 1, 1}, threads, a)
	b.sumTerms(i.Out[0], a.partials, chunks, a.divisor)
}

func pointwiseLossGrad(b *builder, i *program.Instr, o program.PointwiseLossGrad) {
	a := b.pointwise(i, o.Loss, o.Reduction)
	a.dy, a.dloss = b.ptr(i.Out[0]), b.ptr(i.In[2])
	elementwise(b, "pointwise_loss_grad", int(a.n), a)
}

func countCorrect(b *builder, i *program.Instr, _ program.CountCorrect) {
	x := i.In[0]
	add(b, "count_correct", [3]int{1, 1, 1}, threads, countCorrectArgs{
		out: b.ptr(i.Out[0]), x: b.ptr(x), labels: b.ptr(i.In[1]), rows: int32(x.Shape[0]), c: int32(x.Shape[1]), dtype: int32(x.DType),
	})
}
