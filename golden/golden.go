// Package golden reads the files of right values that PyTorch produced. Only tests import it.
//
// A tensor in these files is either a list of values or a formula that both sides evaluate to the same bits, so that the
// files stay small: uniform or nearly normal numbers from the generator splitmix64 (Steele, Lea, Flood, "Fast Splittable
// Pseudorandom Number Generators", 2014).
package golden

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
)

// Tensor is {shape, values}, {shape, seed, half_width} or {shape, seed, normal_scale}. Elements are in row-major order,
// images and convolution weights in PyTorch's layout (NCHW, OC·IC·KH·KW), linear weights [out,in].
type Tensor struct {
	Shape       []int     `json:"shape"`
	Seed        uint64    `json:"seed"`
	HalfWidth   *float32  `json:"half_width"`
	NormalScale *float64  `json:"normal_scale"`
	Values      []float32 `json:"values"`
}

// Elems is the number of elements.
func (t Tensor) Elems() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Float32s gives the elements. A tensor with values gives a copy of them.
func (t Tensor) Float32s() []float32 {
	v := make([]float32, t.Elems())
	switch {
	case t.HalfWidth != nil:
		for i := range v {
			v[i] = Uniform(t.Seed, *t.HalfWidth, i)
		}
	case t.NormalScale != nil:
		for i := range v {
			v[i] = Normal(t.Seed, *t.NormalScale, i)
		}
	default:
		copy(v, t.Values)
	}
	return v
}

// UnmarshalJSON implements json.Unmarshaler; it refuses a tensor that is of none of the three kinds.
func (t *Tensor) UnmarshalJSON(b []byte) error {
	type plain Tensor // without this method
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*t = Tensor(p)
	if t.HalfWidth == nil && t.NormalScale == nil && len(t.Values) != t.Elems() {
		return fmt.Errorf("golden: tensor of shape %v has %d values and no formula", t.Shape, len(t.Values))
	}
	return nil
}

// SplitMix64 is output number n (from 1) of the generator started with state seed.
func SplitMix64(seed, n uint64) uint64 {
	z := seed + n*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Uniform is element i of a tensor uniform in [-halfWidth, halfWidth).
func Uniform(seed uint64, halfWidth float32, i int) float32 {
	k := int32(SplitMix64(seed, uint64(i)+1) >> 40)
	return halfWidth * (float32(k-1<<23) * (1.0 / (1 << 23)))
}

// Normal is element i of a tensor of sums of twelve uniforms: mean 0, standard deviation scale.
func Normal(seed uint64, scale float64, i int) float32 {
	var sum uint64
	for j := range uint64(12) {
		sum += SplitMix64(seed, 12*uint64(i)+j+1) >> 40
	}
	return float32(scale * (float64(sum)/(1<<24) - 6))
}

// Load reads the JSON file at path into v. Where the file carries check values of the tensor formula, they are verified
// first.
func Load(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("golden: %w", err)
	}
	return decode(path, b, v)
}

func decode(path string, b []byte, v any) error {
	var head struct {
		Checks []check `json:"generator_check"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return fmt.Errorf("golden: %s: %w", path, err)
	}
	for _, c := range head.Checks {
		if err := c.verify(); err != nil {
			return fmt.Errorf("golden: %s: %w", path, err)
		}
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("golden: %s: %w", path, err)
	}
	return nil
}

// check is one element that the formula must give.
type check struct {
	Seed        uint64   `json:"seed"`
	HalfWidth   *float32 `json:"half_width"`
	NormalScale *float64 `json:"normal_scale"`
	Index       int      `json:"index"`
	Output      string   `json:"splitmix64_output"`
	Value       float32  `json:"value"`
}

func (c check) verify() error {
	var got float32
	switch {
	case c.HalfWidth != nil:
		got = Uniform(c.Seed, *c.HalfWidth, c.Index)
		if out := fmt.Sprintf("0x%016X", SplitMix64(c.Seed, uint64(c.Index)+1)); c.Output != "" && out != c.Output {
			return fmt.Errorf("splitmix64 output %d of seed %d is %s, want %s", c.Index+1, c.Seed, out, c.Output)
		}
	case c.NormalScale != nil:
		got = Normal(c.Seed, *c.NormalScale, c.Index)
	default:
		return fmt.Errorf("generator check of seed %d names no formula", c.Seed)
	}
	if math.Float32bits(got) != math.Float32bits(c.Value) {
		return fmt.Errorf("formula element %d of seed %d is %v, want %v", c.Index, c.Seed, got, c.Value)
	}
	return nil
}

// Permute reorders the axes as NumPy's transpose does: axis j of the result is axis axes[j] of v.
// NCHW to NHWC is (0,2,3,1); convolution weights [OC,IC,KH,KW] to [KH,KW,IC,OC] are (2,3,1,0); linear [out,in] to
// [in,out] is (1,0).
func Permute[T any](v []T, shape []int, axes ...int) []T {
	stride := make([]int, len(shape))
	for i, s := len(shape)-1, 1; i >= 0; i-- {
		stride[i] = s
		s *= shape[i]
	}
	out := make([]T, 0, len(v))
	var walk func(axis, at int)
	walk = func(axis, at int) {
		if axis == len(axes) {
			out = append(out, v[at])
			return
		}
		for i := range shape[axes[axis]] {
			walk(axis+1, at+i*stride[axes[axis]])
		}
	}
	walk(0, 0)
	return out
}

// MaxAbsDiff is the largest |got-want|, and where. A NaN on one side only, or unlike lengths, give +Inf; equal infinities
// and two NaNs differ by 0.
func MaxAbsDiff(got, want []float32) (diff float64, at int) {
	if len(got) != len(want) {
		return math.Inf(1), 0
	}
	for i := range got {
		g, w := float64(got[i]), float64(want[i])
		d := math.Abs(g - w)
		switch {
		case g == w || (math.IsNaN(g) && math.IsNaN(w)):
			d = 0
		case math.IsNaN(d):
			d = math.Inf(1)
		}
		if d > diff {
			diff, at = d, i
		}
	}
	return diff, at
}
