//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"math/rand/v2"
	"testing"

	"halfstep/device"
	"halfstep/half"
	"halfstep/program"
)

// TestMatMul multiplies batches of small whole numbers, whose products and sums are exact in every dtype.
func TestMatMul(t *testing.T) {
	d := open(t, "reverse", Options{})
	r := rand.New(rand.NewPCG(3, 4))
	for _, dtype := range []program.DType{program.Float64, program.Float32, program.Float16, program.BFloat16} {
		for _, s := range []device.MatMulShape{{Batch: 1, M: 1, N: 1, K: 1}, {Batch: 3, M: 17, N: 33, K: 20}, {Batch: 2, M: 70, N: 72, K: 304}} {
			s.DType = dtype
			a, b, want := make([]float64, s.Batch*s.M*s.K), make([]float64, s.Batch*s.K*s.N), make([]float64, s.Batch*s.M*s.N)
			for _, x := range [][]float64{a, b} {
				for i := range x {
					if r.IntN(8) == 0 { // sums stay below 256, which bfloat16 has exactly
						x[i] = float64(r.IntN(5) - 2)
					}
				}
			}
			for i := range want {
				n, row, col := i/(s.M*s.N), i/s.N%s.M, i%s.N
				for k := range s.K {
					want[i] += a[(n*s.M+row)*s.K+k] * b[(n*s.K+k)*s.N+col]
				}
			}
			m, err := d.NewMatMul(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Upload(encode(dtype, a), encode(dtype, b)); err != nil {
				t.Fatal(err)
			}
			if err := m.Run(2); err != nil {
				t.Fatal(err)
			}
			c := encode(dtype, make([]float64, len(want)))
			if err := m.Download(c); err != nil {
				t.Fatal(err)
			}
			if string(c) != string(encode(dtype, want)) {
				t.Errorf("%+v: wrong", s)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if m := d.Memory(); m.Allocated != 0 {
		t.Errorf("%d bytes are left", m.Allocated)
	}
	wide := device.MatMulShape{Batch: 1, M: 1 << 20, N: 1 << 20, K: 1 << 20, DType: program.Float32}
	_, err := d.NewMatMul(wide)
	wantError(t, err, "matmul", "bytes of device memory")
}

// encode gives the bytes of numbers in a dtype; 0 is 0 whatever its sign.
func encode(d program.DType, x []float64) []byte {
	f := make([]float32, len(x))
	for i, v := range x {
		x[i] = v + 0 // no -0
		f[i] = float32(x[i])
	}
	h := make([]uint16, len(x))
	switch d {
	case program.Float64:
		return device.Bytes(x)
	case program.Float16:
		half.EncodeFloat16(h, f)
	case program.BFloat16:
		half.EncodeBFloat16(h, f)
	default:
		return device.Bytes(f)
	}
	return device.Bytes(h)
}

// TestPeakFLOPS: every dtype of the GPU has a rate. What the simulator measures is its own, and means nothing.
func TestPeakFLOPS(t *testing.T) {
	d := open(t, "", Options{})
	for dtype, want := range map[program.DType]bool{
		program.Float64: true, program.Float32: true, program.Float16: true, program.BFloat16: true, program.Int32: false,
	} {
		flops, ok := d.PeakFLOPS(dtype)
		if ok != want || ok && !(flops > 0) {
			t.Errorf("%s: %g, %t", dtype, flops, ok)
		}
		t.Logf("simulated: %s %.3g FLOP/s", dtype, flops)
	}
	if flops, ok := open(t, "", Options{TF32: true}).PeakFLOPS(program.Float32); !ok || !(flops > 0) {
		t.Errorf("tf32: %g, %t", flops, ok)
	}
	old := open(t, "capability=75", Options{})
	if _, ok := old.PeakFLOPS(program.BFloat16); ok {
		t.Error("a GPU without bfloat16 tells its rate")
	}
}
