//go:build !unix

package kernel

import "testing"

// fenced is plain memory where pages cannot be protected.
func fenced(_ testing.TB, n int) ([]byte, func()) { return make([]byte, n), func() {} }
