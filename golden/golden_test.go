package golden

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// The check values that every golden file carries.
const generatorChecks = `[
{"seed": 0, "half_width": 1.0, "index": 0, "splitmix64_output": "0xE220A8397B1DCDAF", "value": 0.7666216},
{"seed": 0, "half_width": 1.0, "index": 1, "splitmix64_output": "0x6E789E6AA1B965F4", "value": -0.13694406},
{"seed": 1234567, "half_width": 0.25, "index": 0, "splitmix64_output": "0x599ED017FB08FC85", "value": -0.07496023},
{"seed": 1234567, "half_width": 0.25, "index": 999, "splitmix64_output": "0x8B33CC4945DD1C5F", "value": 0.021879554},
{"seed": 4503599627370501, "half_width": 0.33333334, "index": 7, "splitmix64_output": "0xCFEF6EEB2B504BCB", "value": 0.20816478},
{"seed": 42, "normal_scale": 2.0, "index": 0, "value": -1.7882675},
{"seed": 42, "normal_scale": 2.0, "index": 31, "value": 0.35824728}]`

func TestGeneratorChecks(t *testing.T) {
	var checks []check
	if err := json.Unmarshal([]byte(generatorChecks), &checks); err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if err := c.verify(); err != nil {
			t.Error(err)
		}
	}
}

func TestTensorKinds(t *testing.T) {
	var v []Tensor
	err := json.Unmarshal([]byte(`[{"shape":[2],"seed":0,"half_width":1.0},{"shape":[32],"seed":42,"normal_scale":2.0},
		{"shape":[2,2],"values":[1,2,3,4]},{"shape":[0],"values":[]}]`), &v)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := v[0].Float32s(), []float32{0.7666216, -0.13694406}; !slices.Equal(got, want) {
		t.Errorf("uniform: %v, want %v", got, want)
	}
	if got := v[1].Float32s(); got[0] != -1.7882675 || got[31] != 0.35824728 {
		t.Errorf("normal: %v and %v, want -1.7882675 and 0.35824728", got[0], got[31])
	}
	if got, want := v[2].Float32s(), []float32{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("values: %v, want %v", got, want)
	}
	var bad Tensor
	if err := json.Unmarshal([]byte(`{"shape":[3],"values":[1]}`), &bad); err == nil || !strings.Contains(err.Error(), "no formula") {
		t.Errorf("one value for three elements: error %v", err)
	}
}

func TestPermute(t *testing.T) {
	nchw := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11} // [1,2,2,3]
	if got, want := Permute(nchw, []int{1, 2, 2, 3}, 0, 2, 3, 1), []int{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}; !slices.Equal(got, want) {
		t.Errorf("NHWC: %v, want %v", got, want)
	}
	if got, want := Permute([]int{0, 1, 2, 3, 4, 5}, []int{2, 3}, 1, 0), []int{0, 3, 1, 4, 2, 5}; !slices.Equal(got, want) {
		t.Errorf("transpose: %v, want %v", got, want)
	}
}

func TestMaxAbsDiff(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		got, want []float32
		diff      float64
		at        int
	}{
		{[]float32{1, 2, 3}, []float32{1, 2.5, 3}, 0.5, 1},
		{[]float32{nan, inf, -inf}, []float32{nan, inf, -inf}, 0, 0},
		{[]float32{1, nan}, []float32{1, 1}, math.Inf(1), 1},
		{[]float32{inf}, []float32{-inf}, math.Inf(1), 0},
		{[]float32{1}, []float32{1, 2}, math.Inf(1), 0},
	} {
		if d, at := MaxAbsDiff(c.got, c.want); d != c.diff || at != c.at {
			t.Errorf("%v against %v: %v at %d, want %v at %d", c.got, c.want, d, at, c.diff, c.at)
		}
	}
}
