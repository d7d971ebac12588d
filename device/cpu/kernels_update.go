package cpu

import (
	"halfstep/device"
	"halfstep/device/cpu/kernel"
	"halfstep/program"
)

// statGrain is the number of chunks in one task of GradStats: looking at them costs less than a task's hand-over up to there.
const statGrain = 16

// buildGradStats cuts every gradient in chunks and looks at all chunks of all gradients in one parallel loop.
func buildGradStats(b *builder, i *program.Instr, _ program.GradStats) (func(), error) {
	scale, flags, squares := b.f32(i.In[0]), b.i32(i.Out[0]), device.View[float64](b.bytes(i.Out[1]))
	work := b.work(i.Work)
	chunks := 0
	for _, g := range i.In[1:] {
		chunks += (g.Elems() + chunk - 1) / chunk
	}
	sums, bad := device.View[float64](work)[:chunks], device.View[int32](work[chunks*8:])[:chunks]
	var tasks []func(inv float32)
	first := make([]int, 0, len(i.In)) // of each gradient's chunks
	for _, g := range i.In[1:] {
		first = append(first, len(tasks))
		tasks = append(tasks, b.statTasks(g, sums[len(tasks):], bad[len(tasks):])...)
	}
	first = append(first, len(tasks))
	var inv float32
	body := func(_, t int) {
		for k := t * statGrain; k < min((t+1)*statGrain, len(tasks)); k++ {
			tasks[k](inv)
		}
	}
	return func() {
		inv = program.InverseScale(scale[0])
		b.pool.For((len(tasks)+statGrain-1)/statGrain, body)
		for n := range flags {
			flags[n], squares[n] = 0, 0
			for k := first[n]; k < first[n+1]; k++ {
				flags[n] |= bad[k]
				squares[n] += sums[k]
			}
		}
	}, nil
}

// statTasks are the chunks of one gradient.
func (b *builder) statTasks(g *program.Value, sums []float64, bad []int32) []func(inv float32) {
	switch g.DType {
	case program.Float16:
		return statTasksOf(typed[uint16](b, g), b.vec.Float16.GradStats, sums, bad)
	case program.BFloat16:
		return statTasksOf(typed[uint16](b, g), b.vec.BFloat16.GradStats, sums, bad)
	}
	return statTasksOf(typed[float32](b, g), b.vec.Float32.GradStats, sums, bad)
}

func statTasksOf[T kernel.Elem](g []T, stats func([]T, float32, *float64, *int32), sums []float64, bad []int32) []func(inv float32) {
	var r []func(inv float32)
	for from := 0; from < len(g); from += chunk {
		part, k := g[from:min(from+chunk, len(g))], from/chunk
		r = append(r, func(inv float32) {
			sums[k], bad[k] = 0, 0
			stats(part, inv, &sums[k], &bad[k])
		})
	}
	return r
}

func buildStepControl(b *builder, i *program.Instr, o program.StepControl) (func(), error) {
	flags, squares, rates := b.i32(i.In[0]), device.View[float64](b.bytes(i.In[1])), b.f32(i.In[2])
	scale, counters, control := b.f32(i.InOut[0]), b.i32(i.InOut[1]), b.f32(i.Out[0])
	return func() { o.Decide(control, flags, squares, rates, scale, counters) }, nil
}

func buildAccumulate(b *builder, i *program.Instr, _ program.Accumulate) (func(), error) {
	return b.byType(i.In[0], accumulateOf[float32](b, i), accumulateOf[uint16](b, i)), nil
}

func accumulateOf[T kernel.Elem](b *builder, i *program.Instr) func(*kernel.Ops[T]) func() {
	return func(ops *kernel.Ops[T]) func() {
		g, scale, acc := typed[T](b, i.In[0]), b.f32(i.In[1]), b.f32(i.InOut[0])
		return b.each(len(g), func(_, from, to int) {
			ops.AddScaled(acc[from:to], g[from:to], program.InverseScale(scale[0]))
		})
	}
}

func buildScale(b *builder, i *program.Instr, _ program.Scale) (func(), error) {
	x, y, out := b.f32(i.In[0]), b.f32(i.In[1]), b.f32(i.Out[0])
	return func() { out[0] = x[0] * y[0] }, nil
}

func buildZero(b *builder, i *program.Instr, _ program.Zero) (func(), error) {
	x := b.bytes(i.InOut[0])
	return func() { clear(x) }, nil
}

func buildAdvance(b *builder, i *program.Instr, o program.Advance) (func(), error) {
	counters := b.i32(i.InOut[0])
	return func() {
		counters[program.CounterPosition] += int32(o.Samples)
		if o.Attempt {
			counters[program.CounterAttempts]++
		}
	}, nil
}

func buildAddScalar(b *builder, i *program.Instr, o program.AddScalar) (func(), error) {
	if i.In[0].DType == program.Int32 {
		x, sum := b.i32(i.In[0]), b.i32(i.InOut[0])
		return func() { sum[0] += x[0] }, nil
	}
	x, sum := b.f32(i.In[0]), b.f32(i.InOut[0])
	if !o.Weighted {
		return func() { sum[0] += x[0] }, nil
	}
	weight := b.f32(i.In[1])
	return func() { sum[0] += float32(x[0] * weight[0]) }, nil
}

func buildRingRow(b *builder, i *program.Instr, o program.RingRow) (func(), error) {
	counters, loss, ring := b.i32(i.In[0]), b.f32(i.In[1]), b.f32(i.InOut[0])
	var correct, flags []int32
	var control []float32
	next := 2
	if o.HasCorrect {
		correct = b.i32(i.In[next])
		next++
	}
	if o.HasControl {
		control, flags = b.f32(i.In[next]), b.i32(i.In[next+1])
	}
	return func() { o.Fill(ring, counters, loss[0], correct, control, flags) }, nil
}

// buildOptimizer makes the kernel of any OptimizerStep: one pass over the parameter, its states and its half copy.
func buildOptimizer[O program.OptimizerStep](b *builder, i *program.Instr, o O) (func(), error) {
	step, err := b.vec.NewOptimizer(o)
	if err != nil {
		return nil, err
	}
	control, counters := b.f32(i.In[1]), b.i32(i.In[2])
	whole := kernel.Block{Param: b.f32(i.InOut[0]), Grad: b.array(i.In[0])}
	states := len(o.States())
	for k := range states {
		whole.State[k] = b.f32(i.InOut[1+k])
	}
	if len(i.InOut) > 1+states {
		whole.Half = b.array(i.InOut[1+states])
	}
	run := b.each(len(whole.Param), func(_, from, to int) {
		part := whole.Slice(from, to)
		part.GradScale = control[program.ControlGradScale]
		step.Step(&part, program.StepScalars{
			LR: control[program.ControlLR], Momentum: control[program.ControlMomentum], T: counters[program.CounterUpdates],
		})
	})
	return func() {
		if control[program.ControlApply] != 0 {
			run()
		}
	}, nil
}

// array views a value as the optimizer kernels take it.
func (b *builder) array(v *program.Value) kernel.Array {
	a := kernel.Array{DType: v.DType}
	if v.DType.Half() {
		a.Half = typed[uint16](b, v)
	} else {
		a.Float32 = b.f32(v)
	}
	return a
}
