package program

import "fmt"

// Verify checks the program after a pass: every operand is as its Op wants it; names are unique; scratch values are
// written before they are read and written once; no instruction works in vain.
func (p *Program) Verify() error {
	names := map[string]bool{}
	for _, v := range p.Values {
		if names[v.Name] {
			return fmt.Errorf("program %s: two values are called %s", p.Name, v.Name)
		}
		names[v.Name] = true
	}
	written, read := map[*Value]bool{}, map[*Value]bool{}
	for n, i := range p.Instrs {
		fail := func(format string, a ...any) error {
			return fmt.Errorf("program %s: instruction %d (%s %s): %s", p.Name, n, i.Layer, i.Op.Name(), fmt.Sprintf(format, a...))
		}
		if err := i.Op.Check(i.In, i.Out, i.InOut); err != nil {
			return fail("%v", err)
		}
		for _, v := range append(append([]*Value(nil), i.In...), i.InOut...) {
			if !v.Persistent && !written[v] {
				return fail("reads %s before it is written", v.Name)
			}
			read[v] = true
			read[v.Root()] = true
		}
		for _, v := range i.Out {
			if written[v] && !v.Persistent {
				return fail("writes %s a second time", v.Name)
			}
			written[v] = true
		}
	}
	for _, i := range p.Instrs {
		if len(i.Out) > 0 && !i.useful(read) {
			return fmt.Errorf("program %s: %s is written and never read", p.Name, i.Out[0].Name)
		}
	}
	return nil
}

// useful reports whether i updates a value or one of its results is wanted. Others may go unread: a dropout's mask, when
// nothing before it is trained.
func (i *Instr) useful(read map[*Value]bool) bool {
	useful := len(i.InOut) > 0
	for _, v := range i.Out {
		useful = useful || read[v] || v.Persistent || v.result()
	}
	return useful
}

// result reports whether v is wanted for itself: gradients and metrics, which later passes read.
func (v *Value) result() bool { return v.Role == RoleGrad || v.Role == RoleMetric }

// Prune drops instructions whose results nobody reads, and scratch values that no instruction names.
func (p *Program) Prune() {
	for {
		read := map[*Value]bool{}
		for _, i := range p.Instrs {
			for _, v := range append(append([]*Value(nil), i.In...), i.InOut...) {
				read[v] = true
			}
		}
		var keep []*Instr
		for _, i := range p.Instrs {
			if i.useful(read) {
				keep = append(keep, i)
			}
		}
		if len(keep) == len(p.Instrs) {
			break
		}
		p.Instrs = keep
	}
	p.dropUnused()
}

func (p *Program) dropUnused() {
	used := map[*Value]bool{}
	for _, i := range p.Instrs {
		for _, vs := range [][]*Value{i.In, i.Out, i.InOut} {
			for _, v := range vs {
				used[v] = true
				used[v.Root()] = true
			}
		}
		if i.Work != nil {
			used[i.Work] = true
		}
	}
	keep := p.Values[:0]
	for _, v := range p.Values {
		if used[v] || v.Persistent { // a master weight may be read by nothing until the update is appended
			v.ID = len(keep)
			keep = append(keep, v)
		}
	}
	p.Values = keep
}
