package configs

import "testing"

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]int64{"8GiB": 8 << 30, "500MB": 500e6, "1.5 kB": 1500, "1000000": 1e6, "12B": 12} {
		if got, err := ParseBytes(s); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "8Gib", "-1MB", "0", "MB", "NaN", "Inf GB"} {
		if got, err := ParseBytes(s); err == nil {
			t.Errorf("%q: %d, want an error", s, got)
		}
	}
}
