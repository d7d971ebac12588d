package kernel

import (
	"math"
	"testing"

	"halfstep/model/op/ref"
	"halfstep/philox"
	"halfstep/program"
)

// benchElems is about one image of the reference network's first layer: its arrays fit in the second-level cache.
const benchElems = 26 * 26 * 32

func BenchmarkVec(b *testing.B) {
	for _, l := range Levels() {
		v := NewVec(l)
		b.Run(l.String(), func(b *testing.B) {
			b.Run("float32", func(b *testing.B) { benchOps(b, &v.Float32) })
			b.Run("float16", func(b *testing.B) { benchOps(b, &v.Float16) })
			b.Run("bfloat16", func(b *testing.B) { benchOps(b, &v.BFloat16) })
			b.Run("dropout mask", func(b *testing.B) {
				mask, d := make([]uint8, benchElems), NewDropoutStream(1, philox.Dropout, 0.25)
				perElement(b, func() { v.DropoutMask(mask, d, 1, 2) })
			})
			benchActivations(b, v)
			benchRows(b, v)
			benchOptimizers(b, v)
		})
	}
}

// perElement reports elements a second.
func perElement(b *testing.B, f func()) {
	for b.Loop() {
		f()
	}
	b.ReportMetric(benchElems*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gelem/s")
}

func benchOps[T Elem](b *testing.B, o *Ops[T]) {
	x, y, z := make([]T, benchElems), make([]T, benchElems), make([]T, benchElems)
	f, bytes := make([]float32, benchElems), make([]uint8, benchElems)
	for i := range f {
		f[i] = float32(math.Sin(float64(i)))
		bytes[i] = uint8(i & 1)
	}
	o.FromFloat32(x, f)
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"to float32", func() { o.ToFloat32(f, x) }},
		{"from float32", func() { o.FromFloat32(x, f) }},
		{"relu", func() { o.ReLU(y, x) }},
		{"relu grad", func() { o.ReLUGrad(z, y, x) }},
		{"add", func() { o.Add(z, y, x) }},
		{"apply mask", func() { o.ApplyMask(y, x, bytes, 2) }},
		{"sum columns", func() { o.SumColumns(f[:32], x) }},
		{"grad stats", func() {
			var squares float64
			var bad int32
			o.GradStats(x, 1, &squares, &bad)
		}},
	} {
		b.Run(c.name, func(b *testing.B) { perElement(b, c.f) })
	}
}

func benchOptimizers(b *testing.B, v *Vec) {
	for name, op := range testOptimizers {
		o, err := v.NewOptimizer(op)
		if err != nil {
			b.Fatal(err)
		}
		block := Block{Param: make([]float32, benchElems), GradScale: 1}
		for i := range block.State {
			block.State[i] = make([]float32, benchElems)
		}
		block.Grad = Array{DType: program.BFloat16, Half: make([]uint16, benchElems)}
		block.Half = Array{DType: program.BFloat16, Half: make([]uint16, benchElems)}
		b.Run(name, func(b *testing.B) { perElement(b, func() { o.Step(&block, program.StepScalars{LR: 0.1, T: 2}) }) })
	}
}

func benchActivations(b *testing.B, v *Vec) {
	x, y := make([]float32, benchElems), make([]float32, benchElems)
	for i := range x {
		x[i] = float32(4 * math.Sin(float64(i)))
	}
	for _, kind := range []ref.Activation{ref.Sigmoid, ref.Tanh, ref.GELU, ref.GELUTanh} {
		b.Run(kind.String(), func(b *testing.B) { perElement(b, func() { v.Activate(kind, y, x) }) })
		b.Run(kind.String()+" grad", func(b *testing.B) { perElement(b, func() { v.ActivateGrad(kind, y, x, x) }) })
	}
}

// benchRows is batch norm and pooling of 26x26 pixels of 32 channels.
func benchRows(b *testing.B, v *Vec) {
	const size, C = 26, 32
	x, y, z, c := make([]float32, benchElems), make([]float32, benchElems), make([]float32, benchElems), make([]float32, C)
	sums, idx, p := make([]float64, C), make([]uint8, benchElems/4), ref.Pool{Size: 2, Stride: 2}
	for _, k := range []struct {
		name string
		f    func()
	}{
		{"column sums", func() { v.ColumnSums(sums, x) }},
		{"column squares", func() { v.ColumnSquares(sums, x, sums) }},
		{"column products", func() { v.ColumnProducts(sums, x, y, c) }},
		{"batch norm", func() { v.BatchNorm(z, x, c, c, c, c) }},
		{"batch norm grad", func() { v.BatchNormGradX(z, x, y, c, c, c, c) }},
		{"max pool", func() { v.MaxPool2D(p, y[:len(y)/4], idx, x, size, size, C) }},
		{"max pool grad", func() { v.MaxPool2DGrad(p, z, idx, y[:len(y)/4], size, size, C) }},
	} {
		b.Run(k.name, func(b *testing.B) { perElement(b, k.f) })
	}
}
