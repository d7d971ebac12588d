//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"unsafe"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// statChunks is the number of partial sums of a GradStats.
func statChunks(i *program.Instr) int {
	n := 0
	for _, g := range i.In[1:] {
		n += ceilDiv(g.Elems(), ref.SumChunk)
	}
	return n
}

func gradStats(b *builder, i *program.Instr, _ program.GradStats) {
	var rows []statTensor
	chunks := 0
	for _, g := range i.In[1:] {
		rows = append(rows, statTensor{g: b.ptr(g), n: int32(g.Elems()), dtype: int32(g.DType), first: int32(chunks)})
		chunks += ceilDiv(g.Elems(), ref.SumChunk)
	}
	a := gradStatsArgs{
		tensors: upload(b, rows, 0), scale: b.ptr(i.In[0]), sums: b.take(8 * int64(chunks)), bad: b.take(4 * int64(chunks)),
		flags: b.ptr(i.Out[0]), squares: b.ptr(i.Out[1]), count: int32(len(rows)), chunks: int32(chunks),
	}
	add(b, "grad_stats", [3]int{chunks, 1, 1}, threads, a)
	add(b, "grad_stats_finish", [3]int{len(rows), 1, 1}, threads, a)
}

func stepControl(b *builder, i *program.Instr, o program.StepControl) {
	s := o.Scaler
	scalar(b, "step_control", stepControlArgs{
		control: b.ptr(i.Out[0]), scale: b.ptr(i.InOut[0]), counters: b.ptr(i.InOut[1]),
		flags: b.ptr(i.In[0]), squares: b.ptr(i.In[1]), rates: b.ptr(i.In[2]),
		count: int32(i.In[0].Elems()), rows: int32(i.In[2].Shape[0]), clipNorm: o.ClipNorm, unscaled: int32of(o.Unscaled),
		scalerEnabled: int32of(s.Enabled), growthInterval: s.GrowthInterval, growthFactor: s.GrowthFactor,
		backoffFactor: s.BackoffFactor, minScale: s.MinScale, maxScale: s.MaxScale,
	})
}

func accumulate(b *builder, i *program.Instr, _ program.Accumulate) {
	g := i.In[0]
	elementwise(b, "accumulate", g.Elems(), accumulateArgs{
		acc: b.ptr(i.InOut[0]), g: b.ptr(g), scale: b.ptr(i.In[1]), n: int32(g.Elems()), dtype: int32(g.DType),
	})
}

func scale(b *builder, i *program.Instr, _ program.Scale) {
	scalar(b, "scale", scalarArgs{out: b.ptr(i.Out[0]), a: b.ptr(i.In[0]), b: b.ptr(i.In[1])})
}

func advance(b *builder, i *program.Instr, o program.Advance) {
	scalar(b, "advance", b.advanceArgs(i, o))
}

func (b *builder) advanceArgs(i *program.Instr, o program.Advance) advanceArgs {
	return advanceArgs{counters: b.ptr(i.InOut[0]), samples: int32(o.Samples), attempt: int32of(o.Attempt)}
}

func addScalar(b *builder, i *program.Instr, o program.AddScalar) {
	a := scalarArgs{out: b.ptr(i.InOut[0]), a: b.ptr(i.In[0]), isInt: int32of(i.In[0].DType == program.Int32)}
	if o.Weighted {
		a.b = b.ptr(i.In[1])
	}
	scalar(b, "add_scalar", a)
}

func ringRow(b *builder, i *program.Instr, o program.RingRow) { b.ringRow(i, o, advanceArgs{}) }

// ringRow appends the row and what follows it.
func (b *builder) ringRow(i *program.Instr, o program.RingRow, then advanceArgs) {
	a := ringRowArgs{
		ring: b.ptr(i.InOut[0]), counters: b.ptr(i.In[0]), loss: b.ptr(i.In[1]),
		rows: int32(i.InOut[0].Shape[0]), samples: int32(o.Samples), advance: then,
	}
	next := 2
	if o.HasCorrect {
		a.correct = b.ptr(i.In[next])
		next++
	}
	if o.HasControl {
		a.control, a.flags, a.count = b.ptr(i.In[next]), b.ptr(i.In[next+1]), int32(i.In[next+1].Elems())
	}
	scalar(b, "ring_row", a)
}

// optimizer builds one optimizer step; merge.go has those that follow each other.
func optimizer[O program.OptimizerStep](b *builder, i *program.Instr, _ O) {
	b.optimizers([]*program.Instr{i})
}

// coefficientBytes is room for the coefficients of any optimizer.
const coefficientBytes = 64

// optimizers builds the update of a group.
func (b *builder) optimizers(group []*program.Instr) {
	op := group[0].Op.(program.OptimizerStep)
	var rows []optimizerTensor
	blocks := 0
	for _, i := range group {
		t := optimizerTensor{
			p: b.ptr(i.InOut[0]), g: b.ptr(i.In[0]), n: int32(i.InOut[0].Elems()), gDType: int32(i.In[0].DType), first: int32(blocks),
		}
		states := len(op.States())
		for k := range states {
			t.state[k] = b.ptr(i.InOut[1+k])
		}
		if len(i.InOut) > 1+states {
			h := i.InOut[1+states]
			t.half, t.halfDType = b.ptr(h), int32(h.DType)
		}
		rows = append(rows, t)
		blocks += ceilDiv(int(t.n), blockElems)
	}
	a := optimizerArgs{
		tensors: upload(b, rows, coefficientBytes), control: b.ptr(group[0].In[1]), counters: b.ptr(group[0].In[2]), count: int32(len(rows)),
	}
	a.coefficients = a.tensors + ptr(alignUp(int64(len(rows))*optimizerTensorBytes))
	name := a.attributes(op)
	scalar(b, name+"_coefficients", a)
	add(b, name, [3]int{blocks, 1, 1}, threads, a)
}

// optimizerTensorBytes is the size of a row of the table.
const optimizerTensorBytes = int64(unsafe.Sizeof(optimizerTensor{}))

// attributes fills in an optimizer's numbers and gives its kernel's name.
func (a *optimizerArgs) attributes(op program.OptimizerStep) string {
	switch o := op.(type) {
	case program.SGDStep:
		a.momentum, a.nesterov = int32of(o.Momentum != 0), int32of(o.Nesterov)
		a.hyper = [4]float64{o.Momentum, o.Dampening, o.WeightDecay}
		return "sgd"
	case program.AdamStep:
		a.decoupled, a.amsgrad = int32of(o.Decoupled), int32of(o.AMSGrad)
		a.hyper = [4]float64{o.Beta1, o.Beta2, o.Eps, o.WeightDecay}
		return "adam"
	case program.AdadeltaStep:
		a.hyper = [4]float64{o.Rho, o.Eps, o.WeightDecay}
		return "adadelta"
	case program.RMSPropStep:
		a.momentum, a.centered = int32of(o.Momentum != 0), int32of(o.Centered)
		a.hyper = [4]float64{o.Alpha, o.Eps, o.WeightDecay, o.Momentum}
		return "rmsprop"
	case program.AdagradStep:
		a.hyper = [4]float64{o.LRDecay, o.Eps, o.WeightDecay}
		return "adagrad"
	}
	return op.Name() // has no kernel; check says so
}
