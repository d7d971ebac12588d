package cpu

import (
	"fmt"
	"time"
	"unsafe"

	"halfstep/device"
	"halfstep/device/cpu/kernel"
	"halfstep/program"
)

// PeakFLOPS implements device.Benchmarker: the best of several rounds in which every worker runs the loop of
// multiply-adds of the device's level.
func (d *Device) PeakFLOPS(t program.DType) (float64, bool) {
	p, ok := kernel.NewPeak(d.level, t)
	if !ok {
		return 0, false
	}
	const rounds, target = 25, 4 * time.Millisecond
	workers := d.pool.Workers()
	n := 1000
	run := func() time.Duration {
		start := time.Now()
		d.pool.For(workers, func(int, int) { p.Run(n) })
		return time.Since(start)
	}
	for elapsed := run(); elapsed < target; elapsed = run() {
		n *= 2
	}
	best := run()
	for range rounds {
		best = min(best, run())
	}
	return float64(p.FLOPs(n)) * float64(workers) / best.Seconds(), true
}

// matMul is a batched product: the kernel of one product, over and over.
type matMul struct {
	m       *meter
	shape   device.MatMulShape
	gemm    *kernel.GEMM
	a, b, c []byte // of all products
	work    []byte
}

// NewMatMul implements device.Benchmarker.
func (d *Device) NewMatMul(s device.MatMulShape) (device.MatMul, error) {
	g, err := kernel.NewGEMM(d.level, kernel.GEMMShape{M: s.M, N: s.N, K: s.K, A: s.DType, B: s.DType, C: s.DType}, d.pool)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	size := func(rows, cols int) int64 {
		return int64(s.Batch) * int64(rows) * int64(cols) * int64(s.DType.Size())
	}
	m := &matMul{
		m: &d.meter, shape: s, gemm: g, a: alignedBytes(size(s.M, s.K)), b: alignedBytes(size(s.K, s.N)), c: alignedBytes(size(s.M, s.N)),
		work: alignedBytes(int64(g.WorkBytes())),
	}
	d.meter.add(m.bytes())
	return m, nil
}

func (m *matMul) bytes() int64 { return int64(len(m.a) + len(m.b) + len(m.c) + len(m.work)) }

// Upload implements device.MatMul.
func (m *matMul) Upload(a, b []byte) error {
	if len(a) != len(m.a) || len(b) != len(m.b) {
		return fmt.Errorf("cpu: matmul: operands of %d and %d bytes, want %d and %d", len(a), len(b), len(m.a), len(m.b))
	}
	copy(m.a, a)
	copy(m.b, b)
	return nil
}

// Run implements device.MatMul.
func (m *matMul) Run(times int) error {
	step := func(x []byte) int { return len(x) / m.shape.Batch }
	for range times {
		for i := range m.shape.Batch {
			m.gemm.Run(at(m.a, i*step(m.a)), at(m.b, i*step(m.b)), at(m.c, i*step(m.c)), kernel.Epilogue{}, at(m.work, 0))
		}
	}
	return nil
}

// at is the address of a byte of a buffer.
func at(b []byte, i int) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i) }

// Download implements device.MatMul.
func (m *matMul) Download(c []byte) error {
	if len(c) != len(m.c) {
		return fmt.Errorf("cpu: matmul: result of %d bytes, want %d", len(c), len(m.c))
	}
	copy(c, m.c)
	return nil
}

// Close implements device.MatMul.
func (m *matMul) Close() error {
	m.m.add(-m.bytes())
	m.a, m.b, m.c, m.work = nil, nil, nil, nil
	return nil
}

var _ device.Benchmarker = (*Device)(nil)
