//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"halfstep/model/op/ref"
	"halfstep/philox"
	"halfstep/program"
)

func cast(b *builder, i *program.Instr, _ program.Cast) {
	x, y := i.In[0], i.Out[0]
	elementwise(b, "cast", x.Elems(), castArgs{y: b.ptr(y), x: b.ptr(x), n: int32(x.Elems()), to: int32(y.DType), from: int32(x.DType)})
}

func zero(b *builder, i *program.Instr, _ program.Zero) {
	n := i.InOut[0].Bytes
	if n > maxElems {
		b.failf("%s has %d bytes, at most %d: %w", i.InOut[0].Name, n, maxElems, errNoKernel)
		return
	}
	vectors := ceilDiv(int(n), 16)
	elementwise(b, "zero", vectors, zeroArgs{x: b.ptr(i.InOut[0]), n: int32(n), vectors: int32(vectors)})
}

func activation(b *builder, i *program.Instr, o program.Activation) {
	x := i.In[0]
	elementwise(b, "activation"+suffix(x.DType), x.Elems(),
		activationArgs{y: b.ptr(i.Out[0]), x: b.ptr(x), n: int32(x.Elems()), kind: int32(o.Kind)})
}

func activationGrad(b *builder, i *program.Instr, o program.ActivationGrad) {
	b.activationGrad(b.ptr(i.Out[0]), i.In[0], b.ptr(i.In[1]), o.Kind)
}

// activationGrad computes dx from the saved operand and dy.
func (b *builder) activationGrad(dx ptr, saved *program.Value, dy ptr, kind ref.Activation) {
	elementwise(b, "activation_grad"+suffix(saved.DType), saved.Elems(),
		activationArgs{y: dx, x: b.ptr(saved), dy: dy, n: int32(saved.Elems()), kind: int32(kind)})
}

func addTensors(b *builder, i *program.Instr, _ program.Add) {
	x := i.In[0]
	elementwise(b, "add"+suffix(x.DType), x.Elems(),
		addArgs{y: b.ptr(i.Out[0]), a: b.ptr(x), b: b.ptr(i.In[1]), n: int32(x.Elems())})
}

// reshape does nothing: the result is the operand's memory.
func reshape(*builder, *program.Instr, program.Reshape) {}

func dropout(b *builder, i *program.Instr, o program.Dropout) {
	x := i.In[0]
	samples := x.Shape[0]
	elems := x.Elems() / samples
	key := philox.Key(o.Seed)
	blocks := ceilDiv(elems, 64) * 16 // Philox blocks of one sample, a thread each
	add(b, "dropout"+suffix(x.DType), [3]int{ceilDiv(samples*blocks, threads), 1, 1}, threads, dropoutArgs{
		y: b.ptr(i.Out[0]), mask: b.ptr(i.Out[1]), x: b.ptr(x), counters: b.ptr(i.In[1]), samples: int32(samples), elems: int32(elems),
		key0: key[0], key1: key[1], purpose: philox.Dropout + uint32(o.Layer),
		threshold: ref.DropoutThreshold(o.Rate), scale: ref.DropoutScale(o.Rate),
	})
}

func applyMask(b *builder, i *program.Instr, o program.ApplyMask) {
	dy := i.In[0]
	elementwise(b, "apply_mask"+suffix(dy.DType), dy.Elems(), applyMaskArgs{
		dx: b.ptr(i.Out[0]), dy: b.ptr(dy), mask: b.ptr(i.In[1]), n: int32(dy.Elems()), scale: ref.DropoutScale(o.Rate),
	})
}

func gatherImages(b *builder, i *program.Instr, o program.GatherImages) { b.gatherImages(i, o, nil) }

// gatherImages appends the batch's images, and with an instruction for them its labels.
func (b *builder) gatherImages(i *program.Instr, o program.GatherImages, labels *program.Instr) {
	s, x := i.In[0].Shape, i.Out[0]
	key := philox.Key(o.Seed)
	a := gatherImagesArgs{
		x: b.ptr(x), images: b.ptr(i.In[0]), order: b.ptr(i.In[1]), counters: b.ptr(i.In[2]), batch: int32(x.Shape[0]),
		h: int32(s[1]), w: int32(s[2]), c: int32(s[3]), shift: int32(o.Shift), key0: key[0], key1: key[1], mean: o.Mean, std: o.Std,
	}
	if labels != nil {
		a.labels, a.allLabels = b.ptr(labels.Out[0]), b.ptr(labels.In[0])
	}
	elementwise(b, "gather_images"+suffix(x.DType), x.Elems(), a)
}

func gatherRows(b *builder, i *program.Instr, _ program.GatherRows) {
	y := i.Out[0]
	name := "gather_rows"
	if y.DType == program.Int32 {
		name = "gather_labels"
	}
	elementwise(b, name, y.Elems(), gatherRowsArgs{
		dst: b.ptr(y), src: b.ptr(i.In[0]), order: b.ptr(i.In[1]), counters: b.ptr(i.In[2]),
		rows: int32(y.Shape[0]), elems: int32(y.Elems() / y.Shape[0]), dtype: int32(y.DType),
	})
}

func oneHot(b *builder, i *program.Instr, _ program.OneHot) {
	y := i.Out[0]
	elementwise(b, "one_hot", y.Elems(), oneHotArgs{
		y: b.ptr(y), labels: b.ptr(i.In[0]), n: int32(y.Elems()), classes: int32(y.Shape[1]), dtype: int32(y.DType),
	})
}

func constant(b *builder, i *program.Instr, o program.Constant) {
	scalar(b, "constant", scalarArgs{out: b.ptr(i.Out[0]), value: o.Value})
}
