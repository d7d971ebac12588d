//go:build !linux

package cpu

// adviseHuge does nothing here.
func adviseHuge([]byte) {}
