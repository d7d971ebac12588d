// Package ptx holds the compiled kernels of device/cuda. scripts/ptx.sh writes the .ptx files and, with --check, tells
// whether they are what the sources give.
package ptx

import _ "embed"

// Base has all kernels but the matrix products; it runs on every supported GPU (compute capability 7.5 and later). The
// products are a module for each arithmetic, so that a program has the driver compile what it needs only.
var (
	//go:embed base.ptx
	Base string
	//go:embed f32.ptx
	F32 string // compute capability 7.5
	//go:embed f16.ptx
	F16 string // compute capability 7.5
	//go:embed bf16.ptx
	BF16 string // compute capability 8.0
	//go:embed tf32.ptx
	TF32 string // compute capability 8.0
)
