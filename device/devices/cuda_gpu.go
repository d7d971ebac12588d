//go:build gpu && linux && (amd64 || arm64)

package devices

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"halfstep/device"
	"halfstep/device/cuda"
)

// openCUDA opens cuda or cuda:N. The environment variable HALFSTEP_CUDA, a list of tf32 and no_graph, sets cuda.Options for
// comparisons.
func openCUDA(name string) (device.Device, error) {
	var o cuda.Options
	if _, number, ok := strings.Cut(name, ":"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no device: want cuda or cuda:N", name)
		}
		o.Ordinal = n
	}
	for _, word := range strings.FieldsFunc(os.Getenv("HALFSTEP_CUDA"), func(r rune) bool { return r == ',' }) {
		switch word {
		case "tf32":
			o.TF32 = true
		case "no_graph":
			o.NoGraph = true
		default:
			return nil, fmt.Errorf("HALFSTEP_CUDA: %q, want tf32 or no_graph", word)
		}
	}
	d, err := cuda.Open(o)
	if err != nil {
		return nil, err // not a nil *cuda.Device in an interface
	}
	return d, nil
}
