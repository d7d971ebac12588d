//go:build !amd64

package kernel

func hasF16C() bool { return false }
