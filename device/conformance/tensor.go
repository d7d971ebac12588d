package conformance

import (
	"math"
	"math/rand/v2"
	"slices"

	"halfstep/device"
	"halfstep/half"
	"halfstep/program"
)

// tensor is an operand on the host. Its elements are float64 numbers that its dtype represents exactly.
type tensor struct {
	dtype program.DType
	shape []int
	v     []float64
}

func newTensor(d program.DType, shape ...int) *tensor {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return &tensor{dtype: d, shape: shape, v: make([]float64, n)}
}

// tensorOf holds the given elements, rounded to the dtype.
func tensorOf(d program.DType, v []float64, shape ...int) *tensor {
	t := newTensor(d, shape...)
	for i := range t.v {
		t.v[i] = round(d, v[i])
	}
	return t
}

// scalar is a float32 scalar.
func scalar(v float32) *tensor { return tensorOf(program.Float32, []float64{float64(v)}) }

// ints is a vector of int32.
func ints(v ...int32) *tensor {
	t := newTensor(program.Int32, len(v))
	for i, x := range v {
		t.v[i] = float64(x)
	}
	return t
}

// floats is a vector of float32.
func floats(v ...float32) *tensor {
	t := newTensor(program.Float32, len(v))
	for i, x := range v {
		t.v[i] = float64(x)
	}
	return t
}

// fill sets every element, rounded to the dtype.
func (t *tensor) fill(f func() float64) *tensor {
	for i := range t.v {
		t.v[i] = round(t.dtype, f())
	}
	return t
}

// put overwrites elements spread over the tensor, the first and the last among them.
func (t *tensor) put(r *rand.Rand, values ...float64) *tensor {
	for k, v := range values {
		i := r.IntN(len(t.v))
		switch k {
		case 0:
			i = len(t.v) - 1
		case 1:
			i = 0
		}
		t.v[i] = round(t.dtype, v)
	}
	return t
}

// float32s are the elements as float32.
func (t *tensor) float32s() []float32 {
	r := make([]float32, len(t.v))
	for i, v := range t.v {
		r[i] = float32(v)
	}
	return r
}

func (t *tensor) int32s() []int32 {
	r := make([]int32, len(t.v))
	for i, v := range t.v {
		r[i] = int32(v)
	}
	return r
}

func (t *tensor) uint8s() []uint8 {
	r := make([]uint8, len(t.v))
	for i, v := range t.v {
		r[i] = uint8(v)
	}
	return r
}

func fromFloat32s(v []float32) []float64 {
	r := make([]float64, len(v))
	for i, x := range v {
		r[i] = float64(x)
	}
	return r
}

func fromBytes(v []uint8) []float64 {
	r := make([]float64, len(v))
	for i, x := range v {
		r[i] = float64(x)
	}
	return r
}

func fromInts(v []int32) []float64 {
	r := make([]float64, len(v))
	for i, x := range v {
		r[i] = float64(x)
	}
	return r
}

// bytes is the tensor as it lies in a device's memory.
func (t *tensor) bytes() []byte {
	switch t.dtype {
	case program.Float16, program.BFloat16:
		h := make([]uint16, len(t.v))
		for i, v := range t.v {
			h[i] = toHalf(t.dtype, float32(v))
		}
		return device.Bytes(h)
	case program.Float64:
		return device.Bytes(slices.Clone(t.v))
	case program.Int32:
		return device.Bytes(t.int32s())
	case program.Uint8:
		return t.uint8s()
	}
	return device.Bytes(t.float32s())
}

// decode is the inverse of tensor.bytes. b need not be aligned.
func decode(d program.DType, b []byte) []float64 {
	aligned := device.Bytes(make([]float64, (len(b)+7)/8))[:len(b)]
	copy(aligned, b)
	switch d {
	case program.Float16, program.BFloat16:
		h := device.View[uint16](aligned)
		r := make([]float64, len(h))
		for i, x := range h {
			r[i] = float64(fromHalf(d, x))
		}
		return r
	case program.Float64:
		return device.View[float64](aligned)
	case program.Int32:
		return fromInts(device.View[int32](aligned))
	case program.Uint8:
		return fromBytes(aligned)
	}
	return fromFloat32s(device.View[float32](aligned))
}

func toHalf(d program.DType, f float32) uint16 {
	if d == program.Float16 {
		return half.ToFloat16(f)
	}
	return half.ToBFloat16(f)
}

func fromHalf(d program.DType, h uint16) float32 {
	if d == program.Float16 {
		return half.FromFloat16(h)
	}
	return half.FromBFloat16(h)
}

// round rounds to a dtype by way of float32, as a kernel does that computes in float32.
func round(d program.DType, v float64) float64 {
	switch d {
	case program.Float32:
		return float64(float32(v))
	case program.Float16, program.BFloat16:
		return float64(fromHalf(d, toHalf(d, float32(v))))
	}
	return v
}

// rounded rounds all elements.
func rounded(d program.DType, v []float64) []float64 {
	r := make([]float64, len(v))
	for i, x := range v {
		r[i] = round(d, x)
	}
	return r
}

// magnitude is |v| for each element.
func magnitude(v []float64) []float64 {
	r := make([]float64, len(v))
	for i, x := range v {
		r[i] = math.Abs(x)
	}
	return r
}
