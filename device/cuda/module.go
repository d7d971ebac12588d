//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"strconv"
	"strings"
)

// module is the PTX of one of kernels/*.cu, cut into its kernels.
type module struct {
	target    int                   // compute capability times ten
	head      string                // version, target, and what several kernels use
	kernels   map[string]kernelText // by name
	functions string                // what kernels call
}

// kernelText is one kernel.
type kernelText struct {
	text     string
	argBytes int // size of its one parameter
}

// parseModule cuts a text as nvcc writes it: a head, then definitions that begin at the start of a line,
//
//	.visible .entry add_f16(
//		.param .align 8 .b8 add_f16_param_0[32]
//	)
//	.maxntid 256, 1, 1
//	{ ... }
//	.func (.param .b64 func_retval0) __internal_accurate_pow( ... ) { ... }
//
// A declaration of a function in the head counts as head.
func parseModule(text string) *module {
	m := &module{target: target(text), kernels: map[string]kernelText{}}
	first := strings.Index(text, "\n"+entryMark) + 1
	m.head, text = text[:first], text[first:]
	for len(text) > 0 {
		end := 1 + nextDefinition(text[1:])
		definition := text[:end]
		text = text[end:]
		if name, ok := strings.CutPrefix(definition, entryMark); ok {
			name, params, _ := strings.Cut(name, "(")
			m.kernels[name] = kernelText{definition, paramBytes(params)}
		} else {
			m.functions += definition
		}
	}
	return m
}

// How definitions begin.
const entryMark, funcMark = ".visible .entry ", ".func "

// nextDefinition is where the next line begins a definition, or the end.
func nextDefinition(text string) int {
	for at := 0; ; {
		n := strings.Index(text[at:], "\n.")
		if n < 0 {
			return len(text)
		}
		at += n + 1
		if strings.HasPrefix(text[at:], entryMark) || strings.HasPrefix(text[at:], funcMark) {
			return at
		}
	}
}

// target reads the compute capability of a PTX text: `.target sm_75` is 75.
func target(text string) int {
	_, rest, _ := strings.Cut(text, ".target sm_")
	number, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil {
		return 0 // the driver will tell
	}
	return n
}

// paramBytes reads the size of the one parameter of a kernel.
func paramBytes(params string) int {
	params, _, _ = strings.Cut(params, ")")
	_, size, _ := strings.Cut(params, "[")
	size, _, _ = strings.Cut(size, "]")
	n, err := strconv.Atoi(size)
	if err != nil {
		return -1 // a kernel that does not take one struct; check refuses it
	}
	return n
}

// slice is a module of some of the kernels.
func (m *module) slice(names []string) string {
	var s strings.Builder
	s.WriteString(m.head)
	for _, name := range names {
		s.WriteString(m.kernels[name].text)
	}
	s.WriteString(m.functions)
	return s.String()
}
