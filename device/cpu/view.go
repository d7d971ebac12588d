package cpu

import (
	"halfstep/device"
	"halfstep/device/cpu/kernel"
	"halfstep/program"
)

// chunk is the number of elements that a kernel converts and computes at a time: the operands of one chunk stay in the
// first-level cache.
const chunk = 4096

// grain is the number of chunks in one task of an elementwise kernel. Fewer elements than that are not shared.
const grain = 8

// view reads and writes a tensor of any float type as float32.
type view struct {
	b     *builder
	dtype program.DType
	f32   []float32
	half  []uint16
}

func (b *builder) view(v *program.Value) view {
	w := view{b: b, dtype: v.DType}
	if v.DType == program.Float32 {
		w.f32 = b.f32(v)
	} else {
		w.half = device.View[uint16](b.bytes(v))
	}
	return w
}

func (b *builder) views(vs []*program.Value) []view {
	r := make([]view, len(vs))
	for i, v := range vs {
		r[i] = b.view(v)
	}
	return r
}

// load gives elements from to to-1 as float32: the tensor's own memory, or buf filled with converted values.
func (w view) load(from, to int, buf []float32) []float32 {
	switch w.dtype {
	case program.Float16:
		w.b.vec.Float16.ToFloat32(buf[:to-from], w.half[from:to])
	case program.BFloat16:
		w.b.vec.BFloat16.ToFloat32(buf[:to-from], w.half[from:to])
	default:
		return w.f32[from:to]
	}
	return buf[:to-from]
}

// target gives where to compute elements from to to-1: the tensor's own memory, or buf, which store then converts.
func (w view) target(from, to int, buf []float32) []float32 {
	if w.dtype == program.Float32 {
		return w.f32[from:to]
	}
	return buf[:to-from]
}

// store ends what target began.
func (w view) store(src []float32, from int) {
	switch w.dtype {
	case program.Float16:
		w.b.vec.Float16.FromFloat32(w.half[from:from+len(src)], src)
	case program.BFloat16:
		w.b.vec.BFloat16.FromFloat32(w.half[from:from+len(src)], src)
	}
}

// each runs f on the pool over all elements, in chunks whose borders do not depend on the number of workers.
func (b *builder) each(n int, f func(worker, from, to int)) func() {
	const task = chunk * grain
	body := func(worker, t int) {
		for from := t * task; from < min((t+1)*task, n); from += chunk {
			f(worker, from, min(from+chunk, n))
		}
	}
	return func() { b.pool.For((n+task-1)/task, body) }
}

// elementwise computes out from operands of the same number of elements, chunk by chunk.
func (b *builder) elementwise(out *program.Value, ins []*program.Value, f func(out []float32, in [][]float32)) func() {
	o, views := b.view(out), b.views(ins)
	return b.each(out.Elems(), func(worker, from, to int) {
		s := b.scratch[worker]
		for k, v := range views {
			s.in[k] = v.load(from, to, s.buf[k+1])
		}
		dst := o.target(from, to, s.buf[0])
		f(dst, s.in[:len(views)])
		o.store(dst, from)
	})
}

// rowwise is elementwise over rows of C elements, which a chunk never cuts.
func (b *builder) rowwise(rows, c int, f func(worker, from, to int)) func() {
	per := max(1, chunk*grain/c)
	body := func(worker, t int) { f(worker, t*per, min((t+1)*per, rows)) }
	return func() { b.pool.For((rows+per-1)/per, body) }
}

// workerScratch is what one worker converts into.
type workerScratch struct {
	buf [4][]float32 // chunk elements each
	in  [3][]float32
}

func newScratch(workers int) []*workerScratch {
	r := make([]*workerScratch, workers)
	for w := range r {
		r[w] = &workerScratch{}
		for k := range r[w].buf {
			r[w].buf[k] = device.View[float32](alignedBytes(chunk * 4))
		}
	}
	return r
}

// byType builds a kernel for the element type of v from one generic function.
func (b *builder) byType(v *program.Value, f32 func(*kernel.Ops[float32]) func(), half func(*kernel.Ops[uint16]) func()) func() {
	switch v.DType {
	case program.Float16:
		return half(&b.vec.Float16)
	case program.BFloat16:
		return half(&b.vec.BFloat16)
	}
	return f32(&b.vec.Float32)
}

// typed views a value as its elements.
func typed[T kernel.Elem](b *builder, v *program.Value) []T { return device.View[T](b.bytes(v)) }
