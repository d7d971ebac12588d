// Package ptx holds the compiled kernels of device/cuda. scripts/ptx.sh writes the .ptx files and, with --check, tells
// whether they are what the sources give.
package ptx

import _ "embed"

// SM75 runs on every supported GPU (compute capability 7.5 and later).
//
//go:embed sm75.ptx
var SM75 string

// SM80 has the matrix products in bfloat16 and tf32 (compute capability 8.0 and later).
//
//go:embed sm80.ptx
var SM80 string
