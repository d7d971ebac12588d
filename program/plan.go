package program

import (
	"fmt"
	"sort"
)

// align is the alignment of every value in the arena: a cache line, and a full AVX-512 vector.
const align = 64

func alignUp(n int64) int64 { return (n + align - 1) &^ (align - 1) }

// Plan gives every scratch value an offset in one arena, so that values alive at the same time never overlap, and sets
// Peak and PeakByRole. workspace tells how many bytes of scratch the device wants for an instruction. An elementwise result takes
// the place of an operand that dies with it. Offsets are chosen greedily, largest value first (the first-fit of Pisarchyk
// and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020), which on these programs ends within a few
// percent of the lower bound.
func (p *Program) Plan(workspace func(*Instr) int64) error {
	for n, i := range p.Instrs {
		if size := workspace(i); size > 0 && i.Work == nil {
			i.Work = p.NewValue(fmt.Sprintf("work/%d", n), RoleWorkspace, Uint8, int(size))
		}
	}
	blocks := p.blocks()
	sort.SliceStable(blocks, func(a, b int) bool { return blocks[a].bytes > blocks[b].bytes })
	p.Peak = 0
	for n, b := range blocks {
		b.offset = firstFit(b, blocks[:n])
		p.Peak = max(p.Peak, b.offset+alignUp(b.bytes))
		for _, v := range b.values {
			v.Offset = b.offset
		}
	}
	p.PeakByRole = peakByRole(blocks, len(p.Instrs))
	return nil
}

// block is a piece of the arena: a value and all that share its memory, alive from instruction first to last.
type block struct {
	values      []*Value
	bytes       int64
	first, last int
	offset      int64
}

// blocks finds what shares memory and when each is alive.
func (p *Program) blocks() []*block {
	last := map[*Value]int{}
	for n, i := range p.Instrs {
		for _, vs := range [][]*Value{i.In, i.InOut, i.Out} {
			for _, v := range vs {
				last[v.Root()] = n
			}
		}
	}
	of := map[*Value]*block{}
	var all []*block
	add := func(v *Value, n int, b *block) {
		if b == nil {
			b = &block{first: n, bytes: v.Bytes}
			all = append(all, b)
		}
		b.values = append(b.values, v)
		b.last = max(b.last, n, last[v])
		of[v] = b
	}
	for n, i := range p.Instrs {
		for k, v := range i.Out {
			if v.Persistent {
				continue
			}
			if v.Alias != nil {
				b := of[v.Root()]
				if b == nil {
					continue // a view of a persistent value
				}
				b.values = append(b.values, v)
				of[v] = b
				continue
			}
			add(v, n, p.inPlace(i, k, n, of, last))
		}
		if i.Work != nil {
			add(i.Work, n, nil)
		}
	}
	return all
}

// inPlace gives the block of an operand whose memory output k of instruction n may take, or nil.
func (p *Program) inPlace(i *Instr, k, n int, of map[*Value]*block, last map[*Value]int) *block {
	operand := overwrites(i.Op)
	if k != 0 || operand < 0 {
		return nil
	}
	in := i.In[operand]
	b := of[in.Root()]
	if b == nil || b.last != n || in.Bytes != i.Out[0].Bytes || b.bytes != in.Bytes {
		return nil
	}
	// The operand must not be read twice by this instruction: element i of the output may be written before it.
	for j, v := range i.In {
		if j != operand && of[v.Root()] == b {
			return nil
		}
	}
	return b
}

// overwrites is the operand that an elementwise op may be computed on top of, or -1.
func overwrites(op Op) int {
	switch op.(type) {
	case Activation, ApplyMask, Add, Dropout, PointwiseLossGrad:
		return 0
	case ActivationGrad:
		return 1
	}
	return -1
}

// firstFit is the lowest offset at which b overlaps no placed block that is alive at the same time.
func firstFit(b *block, placed []*block) int64 {
	var busy []*block
	for _, o := range placed {
		if o.first <= b.last && b.first <= o.last {
			busy = append(busy, o)
		}
	}
	sort.Slice(busy, func(i, j int) bool { return busy[i].offset < busy[j].offset })
	var at int64
	for _, o := range busy {
		if at+alignUp(b.bytes) <= o.offset {
			break
		}
		at = max(at, o.offset+alignUp(o.bytes))
	}
	return at
}

// peakByRole tells what the arena holds at the instruction where the values alive are largest together.
func peakByRole(blocks []*block, instrs int) [NumRoles]int64 {
	var best [NumRoles]int64
	var most int64 = -1
	for n := range instrs {
		var now [NumRoles]int64
		var sum int64
		for _, b := range blocks {
			if b.first <= n && n <= b.last {
				now[b.values[0].Role] += alignUp(b.bytes)
				sum += alignUp(b.bytes)
			}
		}
		if sum > most {
			most, best = sum, now
		}
	}
	return best
}

// PersistentByRole sums the store's bytes by category.
func (p *Program) PersistentByRole() [NumRoles]int64 {
	var r [NumRoles]int64
	for _, v := range p.Values {
		if v.Persistent {
			r[v.Role] += v.Bytes
		}
	}
	return r
}
