package program

import (
	"fmt"
	"strings"
)

// String reads like an assembly listing: one instruction a line, with what it writes, reads and updates in place.
func (p *Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "program %s: %d instructions, arena %d bytes\n", p.Name, len(p.Instrs), p.Peak)
	for n, i := range p.Instrs {
		fmt.Fprintf(&b, "%3d %-8s %-10s ", n, i.Phase, i.Layer)
		if len(i.Out) > 0 {
			fmt.Fprintf(&b, "%s = ", list(i.Out, (*Value).String))
		}
		fmt.Fprintf(&b, "%s(%s)", describe(i.Op), list(i.In, (*Value).label))
		if len(i.InOut) > 0 {
			fmt.Fprintf(&b, " updates %s", list(i.InOut, (*Value).label))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (v *Value) label() string { return v.Name }

func list(vs []*Value, f func(*Value) string) string {
	s := make([]string, len(vs))
	for i, v := range vs {
		s[i] = f(v)
	}
	return strings.Join(s, ", ")
}

// describe is the op's name with its attributes, leaving out those that are zero.
func describe(op Op) string {
	s := fmt.Sprintf("%+v", op)
	var attrs []string
	for _, f := range strings.Fields(strings.NewReplacer("{", " ", "}", " ").Replace(s)) {
		k, v, ok := strings.Cut(f, ":")
		if ok && v != "" && v != "0" && v != "false" && k != "Seed" {
			attrs = append(attrs, k+"="+v)
		}
	}
	if len(attrs) == 0 {
		return op.Name()
	}
	return op.Name() + "[" + strings.Join(attrs, " ") + "]"
}
