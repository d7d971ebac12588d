package kernel

import "unsafe"

// Elem is how an element lies in memory: a float32, or the bits of a float16 or bfloat16. Arithmetic is in float32; a
// result is rounded once, to nearest even, when it is stored.
type Elem interface{ float32 | uint16 }

// Vec is the set of vector kernels of one level.
//
// Slices may start at any address and have any length. The length of the first argument counts; a shorter one among the
// others is a panic, nothing beyond it is touched. A result may overwrite an input of the same type in place; other
// overlaps are not allowed. Nothing is allocated.
type Vec struct {
	Level    Level
	Float32  Ops[float32]
	Float16  Ops[uint16]
	BFloat16 Ops[uint16]

	dropoutMask func(mask []uint8, d *DropoutStream, first int, epoch, position uint32)
	norm        *normRoutines // nil: the twins
	pool        *poolRoutines
}

// Ops are the kernels of one element type. Each agrees bit for bit at all levels, except where it says otherwise.
type Ops[T Elem] struct {
	// ToFloat32 and FromFloat32 convert; between float32 and float32 they copy.
	ToFloat32   func(dst []float32, src []T)
	FromFloat32 func(dst []T, src []float32)

	// ReLU is y = 0 where x < 0, else x: NaN and -0 stay.
	ReLU func(y, x []T)
	// ReLUGrad is dx = dy where y > 0, else 0.
	ReLUGrad func(dx, y, dy []T)
	// Add is y = a + b.
	Add func(y, a, b []T)
	// Scale is y = x·s.
	Scale func(y, x []T, s float32)
	// AddScaled is acc += float32(x)·s.
	AddScaled func(acc []float32, x []T, s float32)
	// ApplyMask is y = x·s where the mask is not 0, else 0: dropout and its gradient.
	ApplyMask func(y, x []T, mask []uint8, s float32) // Normalize is y = (float32(b)/255 - mean) / std, each operation rounded: pixels.
	Normalize func(y []T, b []uint8, mean, std float32)

	// SumColumns adds the rows of x [R,C] to sum [C], in order, in float32.
	SumColumns func(sum []float32, x []T)
	// GradStats adds (float32(x)·inv)² of each element to squares, in float64, and sets bad to 1 when an x is not finite.
	// The order of the sum, and with it the last bits, differ from level to level.
	GradStats func(x []T, inv float32, squares *float64, bad *int32)
}

// NewVec gives the kernels of a level, which this machine must have.
func NewVec(l Level) *Vec {
	v := &Vec{
		Level:       l,
		Float32:     float32Codec.ops(),
		Float16:     float16Codec.ops(),
		BFloat16:    bfloat16Codec.ops(),
		dropoutMask: dropoutMaskGo,
	}
	v.accelerate()
	return v
}

func pointer[E any](s []E) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }
