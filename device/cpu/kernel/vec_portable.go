package kernel

import (
	"math"

	"halfstep/half"
)

// codec reads and writes one element type. Its methods are the readable twins of the assembly and the portable level.
type codec[T Elem] struct {
	get func(T) float32
	put func(float32) T
}

var (
	float32Codec  = codec[float32]{identity, identity}
	float16Codec  = codec[uint16]{half.FromFloat16, half.ToFloat16}
	bfloat16Codec = codec[uint16]{half.FromBFloat16, half.ToBFloat16}
)

func identity(x float32) float32 { return x }

func (c codec[T]) ops() Ops[T] {
	return Ops[T]{
		ToFloat32: c.toFloat32, FromFloat32: c.fromFloat32,
		ReLU: c.relu, ReLUGrad: c.reluGrad, Add: c.add, Scale: c.scale, AddScaled: c.addScaled,
		ApplyMask: c.applyMask, Normalize: c.normalize, SumColumns: c.sumColumns, GradStats: c.gradStats,
	}
}

func (c codec[T]) toFloat32(dst []float32, src []T) {
	src = src[:len(dst)]
	for i, x := range src {
		dst[i] = c.get(x)
	}
}

func (c codec[T]) fromFloat32(dst []T, src []float32) {
	src = src[:len(dst)]
	for i, x := range src {
		dst[i] = c.put(x)
	}
}

func (c codec[T]) relu(y, x []T) {
	x = x[:len(y)]
	for i, b := range x {
		if c.get(b) < 0 {
			b = 0
		}
		y[i] = b
	}
}

func (c codec[T]) reluGrad(dx, y, dy []T) {
	y, dy = y[:len(dx)], dy[:len(dx)]
	for i := range dx {
		if c.get(y[i]) > 0 {
			dx[i] = dy[i]
		} else {
			dx[i] = 0
		}
	}
}

func (c codec[T]) add(y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	for i := range y {
		y[i] = c.put(c.get(a[i]) + c.get(b[i]))
	}
}

func (c codec[T]) scale(y, x []T, s float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] = c.put(c.get(x[i]) * s)
	}
}

func (c codec[T]) addScaled(acc []float32, x []T, s float32) {
	x = x[:len(acc)]
	for i := range acc {
		acc[i] += float32(c.get(x[i]) * s)
	}
}

func (c codec[T]) applyMask(y, x []T, mask []uint8, s float32) {
	x, mask = x[:len(y)], mask[:len(y)]
	for i := range y {
		if mask[i] != 0 {
			y[i] = c.put(c.get(x[i]) * s)
		} else {
			y[i] = 0
		}
	}
}

func (c codec[T]) normalize(y []T, b []uint8, mean, std float32) {
	b = b[:len(y)]
	for i, v := range b {
		y[i] = c.put((float32(v)/255 - mean) / std)
	}
}

func (c codec[T]) sumColumns(sum []float32, x []T) {
	for len(sum) > 0 && len(x) >= len(sum) {
		for j := range sum {
			sum[j] += c.get(x[j])
		}
		x = x[len(sum):]
	}
}

func (c codec[T]) gradStats(x []T, inv float32, squares *float64, bad *int32) {
	for _, b := range x {
		f := c.get(b)
		if math.Float32bits(f)&0x7f800000 == 0x7f800000 {
			*bad = 1
		}
		u := float64(float32(f * inv))
		*squares += float64(u * u)
	}
}
