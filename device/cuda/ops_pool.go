//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"halfstep/model/op/ref"
	"halfstep/program"
)

// pool appends a pooling kernel: y is written, x read; the image has shape s and the pooled one is ph by pw.
func (b *builder) pool(name string, p ref.Pool, y, idx, x ptr, n int, d program.DType, s []int, mark bool) {
	ph, pw := p.Out(s[1], s[2])
	a := poolArgs{
		y: y, idx: idx, x: x, n: int32(n), h: int32(s[1]), w: int32(s[2]), c: int32(s[3]), ph: int32(ph), pw: int32(pw),
		size: int32(p.Size), stride: int32(p.Stride), mark: int32of(mark),
	}
	elementwise(b, name+suffix(d), n, a)
}

func int32of(v bool) int32 {
	if v {
		return 1
	}
	return 0
}

func maxPool2D(b *builder, i *program.Instr, o program.MaxPool2D) {
	x, y := i.In[0], i.Out[0]
	var idx ptr
	if len(i.Out) == 2 {
		idx = b.ptr(i.Out[1])
	}
	b.pool("max_pool2d", o.Pool, b.ptr(y), idx, b.ptr(x), y.Elems(), x.DType, x.Shape, false)
}

func maxPool2DGrad(b *builder, i *program.Instr, o program.MaxPool2DGrad) {
	dx := i.Out[0]
	b.pool("max_pool2d_grad", o.Pool, b.ptr(dx), b.ptr(i.In[0]), b.ptr(i.In[1]), dx.Elems(), dx.DType, dx.Shape, false)
}

func avgPool2D(b *builder, i *program.Instr, o program.AvgPool2D) {
	x, y := i.In[0], i.Out[0]
	b.pool("avg_pool2d", o.Pool, b.ptr(y), 0, b.ptr(x), y.Elems(), x.DType, x.Shape, false)
}

func avgPool2DGrad(b *builder, i *program.Instr, o program.AvgPool2DGrad) {
	dx := i.Out[0]
	b.pool("avg_pool2d_grad", o.Pool, b.ptr(dx), 0, b.ptr(i.In[0]), dx.Elems(), dx.DType, dx.Shape, false)
}
