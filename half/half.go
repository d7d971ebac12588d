// Package half converts between float32 and the two 16-bit floating-point formats, which are kept as their bits: float16
// is IEEE 754 binary16 (1 sign, 5 exponent, 10 fraction bits), bfloat16 is the upper half of a float32 (1, 8, 7).
//
// Narrowing rounds to nearest, ties to even, with subnormals; what is too large becomes an infinity. Every float16 and
// bfloat16 is exact as a float32. A NaN stays a NaN and comes out quiet with its sign and the upper bits of its payload, as
// the x86 instructions VCVTPS2PH, VCVTPH2PS (F16C) and VCVTNEPS2BF16 (AVX512_BF16) have it. The functions here are the
// portable twins of the kernels built on these. One of the three differs: VCVTNEPS2BF16 takes subnormal float32 numbers
// as zeros.
package half

import "math"

// Fields of a float32 and of a float16.
const (
	sign32, inf32, quiet32 = 0x80000000, 0x7f800000, 0x00400000
	inf16, quiet16         = 0x7c00, 0x0200
	quietBF                = 0x0040
)

const (
	// overflow16 is 65520, halfway from the largest float16 (65504) to what would follow it: this and above round to infinity.
	overflow16 = 0x477ff000
	// normal16 is 2⁻¹⁴, the smallest normal float16.
	normal16 = 0x38800000
	// rebias16 is the difference of the two exponent biases, 127-15, in place.
	rebias16 = 112 << 23
)

// ToFloat16 rounds f to a float16.
func ToFloat16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	switch b &^= sign32; {
	case b > inf32:
		return sign | inf16 | quiet16 | uint16(b>>13&0x3ff)
	case b >= overflow16:
		return sign | inf16
	case b >= normal16:
		// 13 bits are dropped. Adding just under half of the last kept bit's worth, and that bit itself for ties, carries
		// into fraction and exponent exactly where the number rounds up.
		b -= rebias16
		return sign | uint16((b+0xfff+b>>13&1)>>13)
	}
	// Subnormal float16s are multiples of 2⁻²⁴, as are the float32s from 0.5 to 1: the addition rounds.
	return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
}

// FromFloat16 is the float32 equal to the float16 h.
func FromFloat16(h uint16) float32 {
	sign, b := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case b > inf16:
		return math.Float32frombits(sign | inf32 | quiet32 | b&0x3ff<<13)
	case b == inf16:
		return math.Float32frombits(sign | inf32)
	case b >= 0x0400:
		return math.Float32frombits(sign | (b<<13 + rebias16))
	}
	return math.Float32frombits(sign | math.Float32bits(float32(b)*0x1p-24))
}

// ToBFloat16 rounds f to a bfloat16.
func ToBFloat16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&^sign32 > inf32 {
		return uint16(b>>16) | quietBF
	}
	// As in ToFloat16, with 16 bits dropped; the carry out of the largest finite number is infinity.
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// FromBFloat16 is the float32 equal to the bfloat16 h.
func FromBFloat16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// EncodeFloat16 rounds each element of src to a float16. dst must be at least as long as src.
func EncodeFloat16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, f := range src {
		dst[i] = ToFloat16(f)
	}
}

// DecodeFloat16 widens each float16 of src. dst must be at least as long as src.
func DecodeFloat16(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = FromFloat16(h)
	}
}

// EncodeBFloat16 rounds each element of src to a bfloat16. dst must be at least as long as src.
func EncodeBFloat16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, f := range src {
		dst[i] = ToBFloat16(f)
	}
}

// DecodeBFloat16 widens each bfloat16 of src. dst must be at least as long as src.
func DecodeBFloat16(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = FromBFloat16(h)
	}
}
