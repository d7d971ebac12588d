//go:build !amd64

package kernel

// newGEMMRoutines gives the portable routines.
func newGEMMRoutines(_ Level, s GEMMShape) gemmRoutines { return newPortableGEMM(s, 4, 16, 4) }
