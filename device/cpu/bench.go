package cpu

import (
	"fmt"
	"time"
	"unsafe"

	"halfstep/device"
	"halfstep/device/cpu/kernel"
	"halfstep/device/cpu/pool"
	"halfstep/program"
)

// PeakFLOPS implements device.Benchmarker: the best of many short rounds in which all workers run the loop of multiply-adds
// of the device's level at the same time. Short, so that some round has all cores to itself on a shared machine too.
func (d *Device) PeakFLOPS(t program.DType) (float64, bool) {
	p, ok := kernel.NewPeak(d.level, t)
	if !ok {
		return 0, false
	}
	const rounds, target = 400, 500 * time.Microsecond
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

// shareFLOPs is the size from which one product is worth sharing among the workers: about 100 µs of one core. Of smaller
// ones each worker takes whole products.
const shareFLOPs = 20e6

// matMul is a batched product.
type matMul struct {
	m       *meter
	shape   device.MatMulShape
	pool    *pool.Pool
	gemms   []*kernel.GEMM // one that all workers share, or one per worker
	a, b, c []byte         // of all products
	work    []byte         // of all gemms
	product func(worker, i int)
}

// NewMatMul implements device.Benchmarker.
func (d *Device) NewMatMul(s device.MatMulShape) (device.MatMul, error) {
	m := &matMul{m: &d.meter, shape: s, pool: d.pool}
	inner, gemms := pool.New(1), d.pool.Workers() // a pool of one has no goroutine to close
	if s.FLOPs() >= shareFLOPs*int64(s.Batch) {
		inner, gemms = d.pool, 1
	}
	for range gemms {
		g, err := kernel.NewGEMM(d.level, kernel.GEMMShape{M: s.M, N: s.N, K: s.K, A: s.DType, B: s.DType, C: s.DType}, inner)
		if err != nil {
			return nil, fmt.Errorf("cpu: matmul: %w", err)
		}
		m.gemms = append(m.gemms, g)
	}
	size := func(rows, cols int) int64 {
		return int64(s.Batch) * int64(rows) * int64(cols) * int64(s.DType.Size())
	}
	m.a, m.b, m.c = alignedBytes(size(s.M, s.K)), alignedBytes(size(s.K, s.N)), alignedBytes(size(s.M, s.N))
	m.work = alignedBytes(aligned(m.gemms[0].WorkBytes()) * int64(gemms))
	m.product = m.run
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
	for range times {
		if len(m.gemms) > 1 {
			m.pool.For(m.shape.Batch, m.product)
			continue
		}
		for i := range m.shape.Batch {
			m.run(0, i)
		}
	}
	return nil
}

// run computes one product.
func (m *matMul) run(worker, i int) {
	step := func(x []byte) int { return len(x) / m.shape.Batch * i }
	work := len(m.work) / len(m.gemms) * worker
	m.gemms[worker].Run(at(m.a, step(m.a)), at(m.b, step(m.b)), at(m.c, step(m.c)), kernel.Epilogue{}, at(m.work, work))
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
