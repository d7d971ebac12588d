package kernel

import (
	"syscall"
	"testing"
	"unsafe"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// pageEnd gives n elements whose end is the end of accessible memory: a read or write beyond it is a fault.
func pageEnd[E any](t *testing.T, n int) []E {
	t.Helper()
	page := syscall.Getpagesize()
	m, err := syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mprotect(m[page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(&m[page-n*int(unsafe.Sizeof(e))])), n)
}

// Guard bytes do not see reads beyond an array's end; the end of a page does. A failure here is a crash that names the kernel.
func TestNothingBeyondTheEndIsRead(t *testing.T) {
	forLevels(t, func(t *testing.T, v *Vec) {
		for _, n := range []int{1, 3, 7, 15, 31, 33, 63, 65, 100} {
			f, y, mask := pageEnd[float32](t, n), pageEnd[float32](t, n), pageEnd[uint8](t, n)
			touchAll(v, &v.Float32, y, f, f, y, mask)
			h, z := pageEnd[uint16](t, n), pageEnd[uint16](t, n)
			touchAll(v, &v.Float16, z, h, f, y, mask)
			touchAll(v, &v.BFloat16, z, h, f, y, mask)
			touchRows(t, v, n)
			for _, op := range testOptimizers {
				o, err := v.NewOptimizer(op)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range []program.DType{program.Float16, program.BFloat16} {
					a := Array{DType: d, Half: h}
					o.Step(&Block{Param: f, Grad: a, GradScale: 1, State: [3][]float32{y, y, y}, Half: a}, program.StepScalars{LR: 1, T: 1})
				}
			}
		}
	})
}

// touchRows runs the kernels of rows of C channels and the activations.
func touchRows(t *testing.T, v *Vec, C int) {
	f := func(n int) []float32 { return pageEnd[float32](t, n) }
	x, y, c, sums, means := f(3*C), f(3*C), f(C), pageEnd[float64](t, C), pageEnd[float64](t, C)
	v.ColumnSums(sums, x)
	v.ColumnSquares(sums, x, means)
	v.ColumnProducts(sums, x, y, c)
	v.BatchNorm(y, x, c, c, c, c)
	v.BatchNormGradX(y, x, x, c, c, c, c)
	p, pooled, idx := ref.Pool{Size: 2, Stride: 2}, f(2*C), pageEnd[uint8](t, 2*C)
	v.MaxPool2D(p, pooled, idx, f(8*C), 2, 4, C)
	v.MaxPool2DGrad(p, f(8*C), idx, pooled, 2, 4, C)
	for _, kind := range []ref.Activation{ref.Sigmoid, ref.Tanh, ref.GELU, ref.GELUTanh} {
		v.Activate(kind, y, x)
		v.ActivateGrad(kind, y, x, x)
	}
}

func touchAll[T Elem](v *Vec, o *Ops[T], y, x []T, f, g []float32, mask []uint8) {
	v.DropoutMask(mask, NewDropoutStream(1, 2, 0.5), 3, 4)
	o.FromFloat32(y, f)
	o.ToFloat32(g, x)
	o.ReLU(y, x)
	o.ReLUGrad(y, x, x)
	o.Add(y, x, x)
	o.Scale(y, x, 2)
	o.AddScaled(g, x, 2)
	o.ApplyMask(y, x, mask, 2)
	o.SumColumns(f, x)
	var squares float64
	var bad int32
	o.GradStats(x, 1, &squares, &bad)
}
