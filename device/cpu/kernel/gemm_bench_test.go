package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"halfstep/device/cpu/pool"
	"halfstep/program"
)

// BenchmarkGEMM reports the rate of the best run beside the mean time: other processes only make a run slower.
//
//	go test ./device/cpu/kernel -run '^$' -bench GEMM/workers=2
func BenchmarkGEMM(b *testing.B) {
	f, h, bf, d := program.Float32, program.Float16, program.BFloat16, program.Float64
	for workers := 1; workers <= 2; workers++ {
		for _, n := range []struct {
			name  string
			types []program.DType
			shape GEMMShape
		}{
			{"square", []program.DType{f, h, bf, d}, GEMMShape{M: 1024, N: 1024, K: 1024}},
			{"cnn_y", []program.DType{f, h, bf}, GEMMShape{M: 512, N: 128, K: 9216, Bias: true, ReLU: true}},
			{"cnn_dx", []program.DType{f, h, bf}, GEMMShape{M: 512, N: 9216, K: 128, TransB: true, MaskReLU: true}},
			{"cnn_dw", []program.DType{f, h, bf}, GEMMShape{M: 9216, N: 128, K: 512, TransA: true, ColSum: true}},
			{"wide_y", []program.DType{f, h, bf}, GEMMShape{M: 512, N: 4096, K: 4096, Bias: true, ReLU: true}},
			{"wide_dx", []program.DType{f, h, bf}, GEMMShape{M: 512, N: 4096, K: 4096, TransB: true, MaskReLU: true}},
			{"wide_dw", []program.DType{f, h, bf}, GEMMShape{M: 4096, N: 4096, K: 512, TransA: true, ColSum: true}},
			{"mlp1_y", []program.DType{f, bf}, GEMMShape{M: 512, N: 512, K: 784, Bias: true, ReLU: true}},
			{"mlp1_dw", []program.DType{f, bf}, GEMMShape{M: 784, N: 512, K: 512, TransA: true, ColSum: true}},
			{"mlp2_y", []program.DType{f, bf}, GEMMShape{M: 512, N: 512, K: 512, Bias: true, ReLU: true}},
			{"mlp2_dx", []program.DType{f, bf}, GEMMShape{M: 512, N: 512, K: 512, TransB: true, MaskReLU: true}},
			{"mlp2_dw", []program.DType{f, bf}, GEMMShape{M: 512, N: 512, K: 512, TransA: true, ColSum: true}},
			{"mlp3_y", []program.DType{f, bf}, GEMMShape{M: 512, N: 10, K: 512, Bias: true}},
			{"mlp3_dx", []program.DType{f, bf}, GEMMShape{M: 512, N: 512, K: 10, TransB: true, MaskReLU: true}},
			{"mlp3_dw", []program.DType{f, bf}, GEMMShape{M: 512, N: 10, K: 512, TransA: true, ColSum: true}},
			{"tiny1_y", []program.DType{f, h, bf}, GEMMShape{M: 1, N: 16, K: 784, Bias: true}},
			{"tiny1_dw", []program.DType{f, h, bf}, GEMMShape{M: 784, N: 16, K: 1, TransA: true, ColSum: true}},
			{"tiny1_dx", []program.DType{f, h, bf}, GEMMShape{M: 1, N: 784, K: 16, TransB: true, MaskReLU: true}},
			{"tiny8_y", []program.DType{f, h, bf}, GEMMShape{M: 8, N: 16, K: 784, Bias: true}},
			{"tiny8_dw", []program.DType{f, h, bf}, GEMMShape{M: 784, N: 16, K: 8, TransA: true, ColSum: true}},
			{"tiny8_dx", []program.DType{f, h, bf}, GEMMShape{M: 8, N: 784, K: 16, TransB: true, MaskReLU: true}},
			{"tiny16", []program.DType{f, h, bf}, GEMMShape{M: 16, N: 16, K: 16}},
			{"cnn1_y", []program.DType{f, h, bf}, GEMMShape{M: 1, N: 128, K: 9216, Bias: true}},
			{"cnn1_dw", []program.DType{f, h, bf}, GEMMShape{M: 9216, N: 128, K: 1, TransA: true, ColSum: true}},
			{"cnn1_dx", []program.DType{f, h, bf}, GEMMShape{M: 1, N: 9216, K: 128, TransB: true, MaskReLU: true}},
		} {
			for _, t := range n.types {
				n.shape.A, n.shape.B, n.shape.C = t, t, t
				b.Run(fmt.Sprintf("workers=%d/%s/%v", workers, n.name, t), func(b *testing.B) { benchmarkGEMM(b, n.shape, workers) })
			}
		}
	}
}

func benchmarkGEMM(b *testing.B, s GEMMShape, workers int) {
	l, err := Best()
	if err != nil {
		b.Fatal(err)
	}
	p := pool.New(workers)
	defer p.Close()
	c := newGEMMCase(b, s, rand.New(rand.NewPCG(1, 2)), 0, false)
	g, err := NewGEMM(l, s, p)
	if err != nil {
		b.Fatal(err)
	}
	work := newGuarded[byte](g.WorkBytes(), 0)
	e := Epilogue{Bias: address(c.bias), Mask: address(c.mask), ColSum: address(c.colSum)}
	best := time.Duration(1 << 62)
	for b.Loop() {
		start := time.Now()
		g.Run(address(c.a), address(c.b), address(c.c), e, address(work.data))
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best.Nanoseconds())/1e3, "best-µs")
	b.ReportMetric(2*float64(s.M)*float64(s.N)*float64(s.K)/float64(best.Nanoseconds()), "best-GF/s")
	b.ReportMetric(0, "ns/op")
}
