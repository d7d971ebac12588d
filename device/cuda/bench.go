//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"

	"halfstep/device"
	"halfstep/device/cuda/driver"
	"halfstep/program"
)

// peakChains are the independent multiply-adds of one round, as in kernels/peak.h.
const peakChains = 8

// PeakFLOPS implements device.Benchmarker: the best of several launches that fill the GPU, timed by events. Half types are
// those of the tensor cores, and float32 is with Options.TF32: there a warp multiplies fragments of 16x16x16, in tf32 of 16x16x8.
func (d *Device) PeakFLOPS(t program.DType) (float64, bool) {
	var perThread float64
	name := "peak_f64"
	if t != program.Float64 {
		name = "peak" + d.arithmetic(t)
	}
	switch {
	case !t.Float() && t != program.Float64:
		return 0, false
	case name == "peak_f32" || name == "peak_f64":
		perThread = 2
	case name == "peak_tf32":
		perThread = 2 * 16 * 16 * 8 / 32
	default:
		perThread = 2 * 16 * 16 * 16 / 32
	}
	var flops float64
	err := d.owner.do(func() (err error) {
		flops, err = d.peak(name, perThread*peakChains)
		return err
	})
	return flops, err == nil
}

// peak runs on the device's thread.
func (d *Device) peak(name string, flopsPerRound float64) (rate float64, err error) {
	const times, target = 10, 1e6 // launches, and nanoseconds of one
	out, err := driver.Alloc(4)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, driver.Free(out)) }()
	b := &builder{d: d}
	blocks := 8 * d.info.Multiprocessors
	best := 0.0
	rounds := 16
	for n := 0; n < times; {
		b.launches = nil
		add(b, name, [3]int{blocks, 1, 1}, threads, peakArgs{out: out, rounds: int32(rounds)})
		ls, err := b.ready()
		if err != nil {
			return 0, err
		}
		ns, err := d.timed(ls)
		if err != nil {
			return 0, err
		}
		if ns < target && rounds < 1<<20 {
			rounds *= 2
			continue
		}
		best = max(best, flopsPerRound*float64(rounds)*float64(blocks*threads)/float64(ns)*1e9)
		n++
	}
	return best, nil
}

// timed gives the time of launches in nanoseconds, at least 1.
func (d *Device) timed(ls []launch) (int64, error) {
	e := &executable{d: d, instrs: [][]launch{ls}}
	ns := make([]int64, 1)
	err := e.profile(ns)
	return max(1, ns[0]), err
}

// matMul is a batched product. Products follow each other and share the workspace.
type matMul struct {
	d             *Device
	shape         device.MatMulShape
	a, b, c, work driver.Ptr
	bytes         [4]int64 // of a, b, c and work
	launches      []launch
}

// NewMatMul implements device.Benchmarker.
func (d *Device) NewMatMul(s device.MatMulShape) (device.MatMul, error) {
	size := func(rows, cols int) int64 {
		return int64(s.Batch) * int64(rows) * int64(cols) * int64(s.DType.Size())
	}
	m := &matMul{d: d, shape: s}
	m.bytes = [4]int64{size(s.M, s.K), size(s.K, s.N), size(s.M, s.N), m.product().work()}
	if err := d.owner.do(m.start); err != nil {
		return nil, fmt.Errorf("cuda: matmul: %w", err)
	}
	return m, nil
}

func (m *matMul) product() product {
	s := m.shape
	return newProduct(s.M, s.N, s.K).enlarge(s.DType, vectors(s.K, s.DType)*vectors(s.N, s.DType) > 0)
}

// start allocates and builds the launches, on the device's thread.
func (m *matMul) start() error {
	if err := wantMemory(m.bytes[0] + m.bytes[1] + m.bytes[2] + m.bytes[3]); err != nil {
		return err
	}
	for k, p := range []*driver.Ptr{&m.a, &m.b, &m.c, &m.work} {
		var err error
		if *p, err = m.d.alloc(m.bytes[k]); err != nil {
			return err
		}
	}
	b := &builder{d: m.d}
	if s := m.shape; s.DType == program.Float64 {
		add(b, "matmul_f64", [3]int{ceilDiv(s.N, 16), ceilDiv(s.M, 16), s.Batch}, 256,
			matmul64Args{c: m.c, a: m.a, b: m.b, m: int32(s.M), n: int32(s.N), k: int32(s.K)})
	} else {
		m.products(b)
	}
	var err error
	m.launches, err = b.ready()
	return err
}

// products adds the launches of all products.
func (m *matMul) products(b *builder) {
	s, per := m.shape, func(k int) ptr { return ptr(m.bytes[k] / int64(m.shape.Batch)) }
	// The products of a batch start where the ones before end: vectors need whole ones there too.
	vecA, vecB := vectors(s.K, s.DType), vectors(s.N, s.DType)
	for i := range ptr(s.Batch) {
		b.work = m.work
		multiply(b, "linear", m.product(), s.DType, s.DType, epilogue{c: m.c + i*per(2)}, func(e epilogue) linearArgs {
			return linearArgs{out: e, a: m.a + i*per(0), b: m.b + i*per(1), vecA: vecA, vecB: vecB}
		})
	}
}

// Upload implements device.MatMul.
func (m *matMul) Upload(a, b []byte) error {
	if int64(len(a)) != m.bytes[0] || int64(len(b)) != m.bytes[1] {
		return fmt.Errorf("cuda: matmul: operands of %d and %d bytes, want %d and %d", len(a), len(b), m.bytes[0], m.bytes[1])
	}
	err := m.d.owner.do(func() error {
		if err := m.d.upload(m.a, a); err != nil {
			return err
		}
		return m.d.upload(m.b, b)
	})
	if err != nil {
		return fmt.Errorf("cuda: matmul: %w", err)
	}
	return nil
}

// Run implements device.MatMul.
func (m *matMul) Run(times int) error {
	err := m.d.owner.do(func() error {
		for range times {
			if err := m.d.launchAll(m.launches); err != nil {
				return err
			}
		}
		return m.d.stream.Synchronize()
	})
	if err != nil {
		return fmt.Errorf("cuda: matmul: %w", err)
	}
	return nil
}

// Download implements device.MatMul.
func (m *matMul) Download(c []byte) error {
	if int64(len(c)) != m.bytes[2] {
		return fmt.Errorf("cuda: matmul: result of %d bytes, want %d", len(c), m.bytes[2])
	}
	if err := m.d.owner.do(func() error { return m.d.download(m.c, c) }); err != nil {
		return fmt.Errorf("cuda: matmul: %w", err)
	}
	return nil
}

// Close implements device.MatMul.
func (m *matMul) Close() error {
	err := m.d.owner.do(func() error {
		for k, p := range []*driver.Ptr{&m.a, &m.b, &m.c, &m.work} {
			if err := m.d.free(*p, m.bytes[k]); err != nil {
				return err
			}
			*p = 0
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cuda: matmul: %w", err)
	}
	return nil
}

var _ device.Benchmarker = (*Device)(nil)
