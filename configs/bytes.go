package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteUnits are the suffixes of sizes; MB is 10⁶ bytes, MiB 2²⁰.
var byteUnits = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// ParseBytes reads a size such as 8GiB, 500MB or 1000000.
func ParseBytes(s string) (int64, error) {
	number, unit := strings.TrimSpace(s), 1.0
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v > 0) || v*unit > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not a size; want one such as 8GiB or 500MB", s)
	}
	return int64(v * unit), nil
}
