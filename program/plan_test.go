package program

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"halfstep/model/op/ref"
)

// drawProgram is a random program of elementwise instructions, views, reductions, instructions with two results, some with a
// workspace.
func drawProgram(t *rapid.T) (p *Program, work map[*Instr]int64) {
	p, work = &Program{Name: "random"}, map[*Instr]int64{}
	loss := 0
	live := []*Value{p.NewPersistent("x", RoleData, Float32, rapid.IntRange(1, 200).Draw(t, "elements"))}
	pick := func() *Value { return rapid.SampledFrom(live).Draw(t, "operand") }
	fresh := func(like *Value, d DType) *Value {
		return p.NewValue(fmt.Sprintf("v%d", len(p.Values)), RoleActivation, d, like.Shape...)
	}
	for range rapid.IntRange(1, 25).Draw(t, "instructions") {
		a := pick()
		y := fresh(a, a.DType)
		var i *Instr
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			i = p.Emit(Forward, "", Activation{ref.ReLU}, []*Value{a}, []*Value{y}, nil)
		case 1:
			b := a
			for _, c := range live {
				if c.Elems() == a.Elems() && c.DType == a.DType && len(c.Shape) == len(a.Shape) && rapid.Bool().Draw(t, "other") {
					b = c
				}
			}
			i = p.Emit(Forward, "", Add{}, []*Value{a, b}, []*Value{y}, nil)
		case 2:
			y.Shape, y.Alias = []int{1, a.Elems()}, a
			i = p.Emit(Forward, "", Reshape{}, []*Value{a}, []*Value{y}, nil)
		case 3:
			y.SetDType(rapid.SampledFrom([]DType{Float32, Float16}).Draw(t, "dtype"))
			i = p.Emit(Forward, "", Cast{}, []*Value{a}, []*Value{y}, nil)
		case 4:
			counters := p.NewPersistent(CountersName, RoleState, Int32, NumCounters)
			mask := fresh(a, Uint8)
			i = p.Emit(Forward, "", Dropout{}, []*Value{a, counters}, []*Value{y, mask}, nil)
		case 5:
			i = p.Emit(Backward, "", ActivationGrad{ref.ReLU}, []*Value{a, a}, []*Value{y}, nil)
		default:
			y.Shape = nil
			y.SetDType(Float32)
			y.Role = RoleMetric
			loss++
			i = p.Emit(Forward, "", PointwiseLoss{}, []*Value{a, a}, []*Value{y}, nil)
		}
		if y.Role != RoleMetric {
			live = append(live, y)
		}
		if _, view := i.Op.(Reshape); !view && rapid.Bool().Draw(t, "wants workspace") {
			work[i] = int64(rapid.IntRange(1, 500).Draw(t, "workspace"))
		}
	}
	return p, work
}

// TestPlanOverlapsNothing runs random planned programs on a memory that notes of each byte whose it is: an operand must still
// be there when it is read, and a result or a workspace may lie over nothing that its own instruction touches, but for an
// elementwise result in its operand's place.
func TestPlanOverlapsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, work := drawProgram(t)
		if err := p.Plan(func(i *Instr) int64 { return work[i] }); err != nil {
			t.Fatal(err)
		}
		owner := make([]*Value, p.Peak)
		for n, i := range p.Instrs {
			read(t, owner, i, n)
			write(t, owner, i, n)
		}
		checkPeak(t, p)
	})
}

func span(v *Value) (from, to int64) { return v.Root().Offset, v.Root().Offset + v.Bytes }

func overlap(a, b *Value) bool {
	a0, a1 := span(a)
	b0, b1 := span(b)
	return a0 < b1 && b0 < a1
}

func read(t *rapid.T, owner []*Value, i *Instr, n int) {
	for _, v := range i.In {
		if v.Root().Persistent {
			continue
		}
		from, to := span(v)
		for at := from; at < to; at++ {
			if owner[at] != v.Root() {
				t.Fatalf("instruction %d reads %s, byte %d of the arena is of %v", n, v, at, owner[at])
			}
		}
	}
}

func write(t *rapid.T, owner []*Value, i *Instr, n int) {
	results := slices.DeleteFunc(slices.Clone(i.Out), func(v *Value) bool { return v.Alias != nil })
	if i.Work != nil {
		results = append(results, i.Work)
	}
	for k, v := range results {
		if v.Offset%align != 0 {
			t.Fatalf("instruction %d: %s is at %d", n, v, v.Offset)
		}
		for j, in := range i.In {
			inPlace := k == 0 && j == overwrites(i.Op) && in.Root().Offset == v.Offset
			if !in.Root().Persistent && overlap(v, in) && !inPlace {
				t.Fatalf("instruction %d: result %s lies over operand %s", n, v, in)
			}
		}
		for _, w := range results[:k] {
			if overlap(v, w) {
				t.Fatalf("instruction %d: %s and %s overlap", n, v, w)
			}
		}
	}
	for _, v := range results {
		from, to := span(v)
		for at := from; at < to; at++ {
			owner[at] = v
		}
	}
}

// checkPeak compares the peak with the end of the last value and with what the values alive together need at least.
func checkPeak(t *rapid.T, p *Program) {
	var end, most, atPeak int64
	for n, i := range p.Instrs {
		for _, v := range append(slices.Clone(i.Out), i.Work) {
			if v != nil && !v.Root().Persistent {
				_, to := span(v)
				end = max(end, v.Root().Offset+alignUp(to-v.Root().Offset))
			}
		}
		most = max(most, aliveBytes(p, n))
	}
	for _, b := range p.PeakByRole {
		atPeak += b
	}
	if p.Peak != end {
		t.Fatalf("peak %d, the last value ends at %d", p.Peak, end)
	}
	if p.Peak < most || atPeak != most {
		t.Fatalf("peak %d, by role %d, at least %d are alive together", p.Peak, atPeak, most)
	}
}

// aliveBytes are the distinct places in the arena that are alive at instruction n: values in one another's place count once.
func aliveBytes(p *Program, n int) int64 {
	first, last := map[*Value]int{}, map[*Value]int{}
	for k, i := range p.Instrs {
		for _, v := range append(slices.Concat(i.In, i.Out, i.InOut), i.Work) {
			if v == nil || v.Root().Persistent {
				continue
			}
			if _, ok := first[v.Root()]; !ok {
				first[v.Root()] = k
			}
			last[v.Root()] = k
		}
	}
	places := map[int64]int64{}
	for v, f := range first {
		if f <= n && n <= last[v] {
			places[v.Offset] = max(places[v.Offset], alignUp(v.Bytes))
		}
	}
	var sum int64
	for _, b := range places {
		sum += b
	}
	return sum
}

// TestPlanInPlace: an elementwise result takes the place of an operand that dies with it, and of no other.
func TestPlanInPlace(t *testing.T) {
	none := func(*Instr) int64 { return 0 }
	c := newChain()
	if err := c.p.Plan(none); err != nil {
		t.Fatal(err)
	}
	if c.y.Offset == c.z.Offset {
		t.Error("y + y is computed on top of y, which it reads twice")
	}
	c = newChain()
	w := c.p.NewValue("w", RoleActivation, Float32, 2, 3)
	c.p.Instrs = slices.Insert(c.p.Instrs, 1, &Instr{Op: Activation{ref.Tanh}, In: []*Value{c.y}, Out: []*Value{w}})
	c.add.In = []*Value{w, w}
	if err := c.p.Plan(none); err != nil {
		t.Fatal(err)
	}
	if c.y.Offset != w.Offset {
		t.Error("tanh(y) is not computed on top of y, which dies with it")
	}
	c.add.In = []*Value{w, c.y}
	if err := c.p.Plan(none); err != nil {
		t.Fatal(err)
	}
	if c.y.Offset == w.Offset {
		t.Error("tanh(y) is computed on top of y, which is read again")
	}
}
