package amp

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"halfstep/configs"
	"halfstep/golden"
	"halfstep/program"
)

// scalerConfig is the config file's default.
func scalerConfig() configs.GradScaler {
	return configs.GradScaler{
		Enabled: "auto", InitScale: 65536, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 2000,
		MinScale: 1, MaxScale: 1 << 24, MaxConsecutiveSkips: 100,
	}
}

func TestGradScalerEnabled(t *testing.T) {
	for _, c := range []struct {
		enabled string
		dtype   program.DType
		want    bool
	}{
		{"auto", program.Float16, true},
		{"auto", program.BFloat16, false},
		{"auto", program.Float32, false},
		{"true", program.BFloat16, true},
		{"false", program.Float16, false},
	} {
		cfg := scalerConfig()
		cfg.Enabled = c.enabled
		s := NewGradScaler(cfg, c.dtype)
		if s.IsEnabled() != c.want || s.Rule().Enabled != c.want {
			t.Errorf("enabled: %s with %s: %v, want %v", c.enabled, c.dtype, s.IsEnabled(), c.want)
		}
		if want := map[bool]float32{true: 65536, false: 1}[c.want]; s.GetScale() != want {
			t.Errorf("enabled: %s with %s: scale %v, want %v", c.enabled, c.dtype, s.GetScale(), want)
		}
	}
}

// Traces of the published rule, exactly; a manual new scale leaves the tracker as it is.
func TestGradScalerTraces(t *testing.T) {
	var file struct {
		Traces []struct {
			Name           string  `json:"name"`
			InitialScale   float32 `json:"initial_scale"`
			GrowthFactor   float32 `json:"growth_factor"`
			BackoffFactor  float32 `json:"backoff_factor"`
			GrowthInterval int     `json:"growth_interval"`
			Updates        []struct {
				FoundInf bool     `json:"found_inf"`
				NewScale *float32 `json:"manual_new_scale"`
			} `json:"updates"`
			Scales   []float32 `json:"scale_after_update"`
			Trackers []int32   `json:"growth_tracker_after_update"`
		} `json:"traces"`
	}
	if err := golden.Load("testdata/unscale.json", &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Traces) == 0 {
		t.Fatal("no traces")
	}
	for _, c := range file.Traces {
		s := NewGradScaler(configs.GradScaler{
			Enabled: "true", InitScale: c.InitialScale, GrowthFactor: c.GrowthFactor,
			BackoffFactor: c.BackoffFactor, GrowthInterval: c.GrowthInterval,
		}, program.Float16)
		for i, u := range c.Updates {
			if u.NewScale != nil {
				s.SetScale(*u.NewScale)
			} else {
				s.Update(u.FoundInf)
			}
			if s.GetScale() != c.Scales[i] || s.GetGrowthTracker() != c.Trackers[i] {
				t.Fatalf("%s, update %d: scale %v tracker %d, want %v and %d",
					c.Name, i, s.GetScale(), s.GetGrowthTracker(), c.Scales[i], c.Trackers[i])
			}
		}
	}
}

// The unscaled gradients, bit for bit: float32(g · float32(1/float64(scale))).
func TestUnscale(t *testing.T) {
	var file struct {
		Cases []struct {
			Scale    float32           `json:"scale"`
			Gradient golden.Tensor     `json:"gradient"`
			Replaced map[string]string `json:"gradient_elements_replaced_by_bits"`
			Inverse  float32           `json:"inverse_scale"`
			FoundInf bool              `json:"found_inf"`
			Unscaled []string          `json:"unscaled_bits"` // 0x3f800000, nan, +inf or -inf
		} `json:"unscale_cases"`
	}
	if err := golden.Load("testdata/unscale.json", &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	for k, c := range file.Cases {
		inverse := program.InverseScale(c.Scale)
		if inverse != c.Inverse {
			t.Errorf("case %d: inverse scale %v, want %v", k, inverse, c.Inverse)
		}
		g := c.Gradient.Float32s()
		for at, bits := range c.Replaced {
			i, err := strconv.Atoi(at)
			if err != nil {
				t.Fatal(err)
			}
			g[i] = fromBits(t, bits)
		}
		foundInf := false
		for i := range g {
			foundInf = foundInf || math.IsNaN(float64(g[i])) || math.IsInf(float64(g[i]), 0)
			got, want := g[i]*inverse, fromBits(t, c.Unscaled[i])
			if math.Float32bits(got) != math.Float32bits(want) && !(got != got && want != want) {
				t.Errorf("case %d element %d: %v, want %v", k, i, got, want)
			}
		}
		if foundInf != c.FoundInf {
			t.Errorf("case %d: found_inf %v, want %v", k, foundInf, c.FoundInf)
		}
	}
}

func fromBits(t *testing.T, s string) float32 {
	t.Helper()
	if f, err := strconv.ParseFloat(s, 32); err == nil && !strings.HasPrefix(s, "0x") { // nan, +inf, -inf
		return float32(f)
	}
	bits, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		t.Fatal(err)
	}
	return math.Float32frombits(uint32(bits))
}

// A loss so small that nothing ever overflows, with growth at every step: the scale stops at the last power below its
// bound, or at the last finite one, and stays there (pytorch#98828).
func TestGradScalerGrowthStops(t *testing.T) {
	for _, c := range []struct{ maxScale, want float32 }{{0, 0x1p127}, {1 << 24, 1 << 24}, {100000, 65536}} {
		cfg := scalerConfig()
		cfg.GrowthInterval, cfg.MaxScale = 1, c.maxScale
		s := NewGradScaler(cfg, program.Float16)
		for range 1000 {
			s.Update(false)
			if inverse := program.InverseScale(s.GetScale()); inverse == 0 || math.IsInf(float64(s.GetScale()), 0) {
				t.Fatalf("max_scale %v: scale %v, its inverse %v", c.maxScale, s.GetScale(), inverse)
			}
		}
		if s.GetScale() != c.want {
			t.Errorf("max_scale %v: scale %v after 1000 steps, want %v", c.maxScale, s.GetScale(), c.want)
		}
	}
}

// A model whose gradients overflow at every scale above 2⁻¹⁰: with the floor at 1 the scaler stays there and says so, with
// a lower floor it finds the scale (tf-keras#644, jmp#18).
func TestGradScalerFloor(t *testing.T) {
	for _, c := range []struct {
		minScale, want float32
		atMin          bool
	}{{1, 1, true}, {0x1p-20, 0x1p-10, false}, {3, 3, true}} {
		cfg := scalerConfig()
		cfg.MinScale = c.minScale
		s := NewGradScaler(cfg, program.Float16)
		for range 100 {
			s.Update(s.GetScale() > 0x1p-10)
		}
		if s.GetScale() != c.want || s.AtMinScale() != c.atMin {
			t.Errorf("min_scale %v: scale %v, at the floor: %v; want %v, %v", c.minScale, s.GetScale(), s.AtMinScale(), c.want, c.atMin)
		}
	}
}

// Gradients that are all zero are a normal step at every scale: unscaled they are zero, not NaN, and the tracker goes on
// (WeatherGenerator#356).
func TestGradScalerZeroGradients(t *testing.T) {
	for _, scale := range []float32{0x1p-126, 1, 65536, 1 << 24, 0x1p127} {
		s := NewGradScaler(scalerConfig(), program.Float16)
		s.SetScale(scale)
		g := float32(0) * program.InverseScale(s.GetScale())
		s.Update(g != 0)
		if s.GetScale() != scale || s.GetGrowthTracker() != 1 {
			t.Errorf("scale %v: unscaled %v, then scale %v tracker %d, want %v and 1", scale, g, s.GetScale(), s.GetGrowthTracker(), scale)
		}
	}
}

func TestGradScalerDisabled(t *testing.T) {
	s := NewGradScaler(scalerConfig(), program.BFloat16)
	s.Update(true)
	s.SetScale(7)
	s.Sync(7, 7)
	if err := s.LoadStateDict(map[string]float64{"scale": 7}); err != nil {
		t.Error(err)
	}
	if s.GetScale() != 1 || s.GetGrowthTracker() != 0 || len(s.StateDict()) != 0 || s.AtMinScale() {
		t.Errorf("disabled: scale %v, tracker %d, state %v", s.GetScale(), s.GetGrowthTracker(), s.StateDict())
	}
}

// A scaler restored from JSON goes on exactly as the one saved.
func TestGradScalerResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := scalerConfig()
		cfg.InitScale = rapid.Float32Range(1, 1<<20).Draw(t, "init_scale")
		cfg.GrowthInterval = rapid.IntRange(1, 5).Draw(t, "growth_interval")
		a := NewGradScaler(cfg, program.Float16)
		for _, inf := range rapid.SliceOf(rapid.Bool()).Draw(t, "before") {
			a.Update(inf)
		}
		saved, err := json.Marshal(a.StateDict())
		if err != nil {
			t.Fatal(err)
		}
		var state map[string]float64
		if err := json.Unmarshal(saved, &state); err != nil {
			t.Fatal(err)
		}
		b := NewGradScaler(scalerConfig(), program.Float16)
		if err := b.LoadStateDict(state); err != nil {
			t.Fatal(err)
		}
		for _, inf := range rapid.SliceOf(rapid.Bool()).Draw(t, "after") {
			a.Update(inf)
			b.Update(inf)
			if a.GetScale() != b.GetScale() || a.GetGrowthTracker() != b.GetGrowthTracker() {
				t.Fatalf("scale %v and %v, tracker %d and %d", a.GetScale(), b.GetScale(), a.GetGrowthTracker(), b.GetGrowthTracker())
			}
		}
	})
}

func TestGradScalerBadState(t *testing.T) {
	s := NewGradScaler(scalerConfig(), program.Float16)
	good := s.StateDict()
	wantKeys := []string{"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"}
	if len(good) != len(wantKeys) {
		t.Errorf("state %v", good)
	}
	for _, key := range wantKeys {
		state := maps.Clone(good)
		delete(state, key)
		if err := s.LoadStateDict(state); err == nil || !strings.Contains(err.Error(), key+" is missing") {
			t.Errorf("without %s: error %v", key, err)
		}
		for _, bad := range []float64{-1, math.NaN(), math.Inf(1), 1e300} {
			state[key] = bad
			if err := s.LoadStateDict(state); err == nil || !strings.Contains(err.Error(), key+" is ") {
				t.Errorf("%s %v: error %v", key, bad, err)
			}
		}
	}
	if err := s.LoadStateDict(map[string]float64{}); !errors.Is(err, ErrEmptyState) {
		t.Errorf("empty state: error %v", err)
	}
	if !maps.Equal(s.StateDict(), good) {
		t.Errorf("a refused state changed the scaler: %v", s.StateDict())
	}
}

// The scale and tracker of the device come back into the state.
func TestGradScalerSync(t *testing.T) {
	s := NewGradScaler(scalerConfig(), program.Float16)
	s.Sync(1024, 17)
	if d := s.StateDict(); d["scale"] != 1024 || d["_growth_tracker"] != 17 {
		t.Errorf("state %v", d)
	}
}
