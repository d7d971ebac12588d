package device

import "halfstep/program"

// Benchmarker is a Device that can also measure itself, apart from any program: what `train bench` asks of a device.
type Benchmarker interface {
	Device
	// PeakFLOPS measures the highest rate of multiply-adds, two FLOPs each, on operands of a dtype that are in registers
	// already: no kernel can exceed it. It takes a fraction of a second. It is false where the device has no multiply-add of
	// its own for the dtype.
	PeakFLOPS(d program.DType) (float64, bool)
	// NewMatMul makes room on the device for a batched matrix product.
	NewMatMul(s MatMulShape) (MatMul, error)
}

// MatMulShape is a batched matrix product C[i] = A[i]·B[i] for i below Batch: A [Batch,M,K], B [Batch,K,N] and C
// [Batch,M,N], row-major, all of one dtype: float64, float32, float16 or bfloat16. Half types sum in float32.
type MatMulShape struct {
	Batch, M, N, K int
	DType          program.DType
}

// FLOPs is the number of floating-point operations, two per multiply-add.
func (s MatMulShape) FLOPs() int64 { return 2 * int64(s.Batch) * int64(s.M) * int64(s.N) * int64(s.K) }

// Bytes is the size of A, B and C together.
func (s MatMulShape) Bytes() int64 {
	return int64(s.Batch) * (int64(s.M)*int64(s.K) + int64(s.K)*int64(s.N) + int64(s.M)*int64(s.N)) * int64(s.DType.Size())
}

// MatMul is a batched matrix product whose operands lie on the device. Every method returns when the device is done.
type MatMul interface {
	Upload(a, b []byte) error
	Run(times int) error
	Download(c []byte) error
	Close() error
}
