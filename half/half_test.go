package half

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"halfstep/golden"
)

// format is one of the two formats with its definition in float64.
type format struct {
	name     string
	fraction int // bits
	bias     int
	inf      uint16
	to       func(float32) uint16
	from     func(uint16) float32
	encode   func([]uint16, []float32)
	decode   func([]float32, []uint16)
}

var formats = []format{
	{"float16", 10, 15, 0x7c00, ToFloat16, FromFloat16, EncodeFloat16, DecodeFloat16},
	{"bfloat16", 7, 127, 0x7f80, ToBFloat16, FromBFloat16, EncodeBFloat16, DecodeBFloat16},
}

// value is the definition of the format for 0 <= h <= inf; at inf it is the power of two that would come next, which is
// where IEEE 754 rounds to infinity from.
func (f format) value(h uint16) float64 {
	exp, frac := int(h>>f.fraction), float64(h&(1<<f.fraction-1))
	if exp == 0 {
		return math.Ldexp(frac, 1-f.bias-f.fraction)
	}
	return math.Ldexp(frac+math.Ldexp(1, f.fraction), exp-f.bias-f.fraction)
}

// nearest is the definition of rounding to nearest even, by search.
func (f format) nearest(x float32) uint16 {
	var sign uint16
	if math.Signbit(float64(x)) {
		sign = 0x8000
	}
	a := math.Abs(float64(x))
	if a > f.value(f.inf) {
		return sign | f.inf
	}
	hi := uint16(sort.Search(int(f.inf), func(h int) bool { return f.value(uint16(h)) >= a }))
	if hi == 0 {
		return sign
	}
	up, down := f.value(hi)-a, a-f.value(hi-1)
	if up < down || (up == down && hi%2 == 0) {
		return sign | hi
	}
	return sign | (hi - 1)
}

// Every number of the format widens to its definition and comes back; every NaN stays a NaN and is quiet afterwards.
func TestAllPatterns(t *testing.T) {
	for _, f := range formats {
		for i := range 1 << 16 {
			h := uint16(i)
			got, a := f.from(h), h&0x7fff
			switch {
			case a > f.inf:
				quiet := h | 1<<(f.fraction-1)
				if !math.IsNaN(float64(got)) || f.to(got) != quiet {
					t.Fatalf("%s %#04x: %x, back %#04x, want a NaN and %#04x", f.name, h, math.Float32bits(got), f.to(got), quiet)
				}
				continue
			case a == f.inf:
				if !math.IsInf(float64(got), 1-2*int(h>>15)) {
					t.Fatalf("%s %#04x: %v, want an infinity", f.name, h, got)
				}
			case math.Abs(float64(got)) != f.value(a) || math.Signbit(float64(got)) != (h>>15 == 1):
				t.Fatalf("%s %#04x: %v, want magnitude %v", f.name, h, got, f.value(a))
			}
			if back := f.to(got); back != h {
				t.Fatalf("%s %#04x: comes back as %#04x", f.name, h, back)
			}
		}
	}
}

// Rounding is monotonic, so it is right everywhere if it is right at the midpoints between neighbours and one float32 to
// either side of them. All midpoints are float32 numbers.
func TestAllMidpoints(t *testing.T) {
	for _, f := range formats {
		for h := uint16(0); h < f.inf; h++ {
			mid := float32((f.value(h) + f.value(h+1)) / 2)
			even := h + h%2
			for _, s := range []struct {
				x    float32
				want uint16
			}{
				{mid, even},
				{math.Nextafter32(mid, 0), h},
				{math.Nextafter32(mid, math.MaxFloat32), h + 1},
			} {
				if math.IsInf(float64(s.x), 0) {
					continue
				}
				if got := f.to(s.x); got != s.want {
					t.Fatalf("%s of %v (%#08x): %#04x, want %#04x", f.name, s.x, math.Float32bits(s.x), got, s.want)
				}
				if got := f.to(-s.x); got != s.want|0x8000 {
					t.Fatalf("%s of %v: %#04x, want %#04x", f.name, -s.x, got, s.want|0x8000)
				}
			}
		}
	}
}

func TestRoundsToNearestEven(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name, rapid.MakeCheck(func(t *rapid.T) {
			x := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
			got := f.to(x)
			if math.IsNaN(float64(x)) {
				if got&0x7fff <= f.inf {
					t.Fatalf("NaN %#08x became %#04x", math.Float32bits(x), got)
				}
				return
			}
			if want := f.nearest(x); got != want {
				t.Fatalf("%v (%#08x): %#04x, want %#04x", x, math.Float32bits(x), got, want)
			}
		}))
	}
}

// hexBits reads a JSON string "0x7fc00000".
type hexBits uint32

func (b *hexBits) UnmarshalText(s []byte) error {
	v, err := strconv.ParseUint(string(s), 0, 32)
	*b = hexBits(v)
	return err
}

// PyTorch's conversions, bit for bit; for NaN only that it stays one, as sign and payload differ among machines.
func TestPyTorch(t *testing.T) {
	var file struct {
		IsNaN        []bool    `json:"input_is_nan"`
		Input        []hexBits `json:"float32_bits"`
		Float16      []hexBits `json:"float16_bits"`
		Float16Back  []hexBits `json:"float16_as_float32_bits"`
		BFloat16     []hexBits `json:"bfloat16_bits"`
		BFloat16Back []hexBits `json:"bfloat16_as_float32_bits"`
	}
	if err := golden.Load("testdata/fp16.json", &file); err != nil {
		t.Fatal(err)
	}
	wants := [][2][]hexBits{{file.Float16, file.Float16Back}, {file.BFloat16, file.BFloat16Back}}
	if len(file.Input) == 0 {
		t.Fatal("no entries")
	}
	for k, f := range formats {
		for i, in := range file.Input {
			x := math.Float32frombits(uint32(in))
			h := f.to(x)
			back := f.from(h)
			if file.IsNaN[i] {
				if h&0x7fff <= f.inf || !math.IsNaN(float64(back)) {
					t.Errorf("%s of NaN %#08x: %#04x, back %v", f.name, in, h, back)
				}
				continue
			}
			if want := uint16(wants[k][0][i]); h != want {
				t.Errorf("%s of %#08x: %#04x, want %#04x", f.name, in, h, want)
			}
			if want := uint32(wants[k][1][i]); math.Float32bits(back) != want {
				t.Errorf("%s %#04x: back %#08x, want %#08x", f.name, h, math.Float32bits(back), want)
			}
		}
	}
	t.Logf("%d inputs, both formats", len(file.Input))
}

func TestSlices(t *testing.T) {
	src := []float32{0, 1, -2.5, 65504, 1e-6, 1e30, float32(math.Inf(-1))}
	for _, f := range formats {
		const guard = 0x1234
		bits := slices.Repeat([]uint16{guard}, len(src)+1)
		f.encode(bits, src)
		wide := slices.Repeat([]float32{guard}, len(src)+1)
		f.decode(wide, bits[:len(src)])
		for i, x := range src {
			if bits[i] != f.to(x) || wide[i] != f.from(bits[i]) {
				t.Errorf("%s of %v: %#04x and back %v", f.name, x, bits[i], wide[i])
			}
		}
		if bits[len(src)] != guard || wide[len(src)] != guard {
			t.Errorf("%s: written past the source's length", f.name)
		}
	}
}
