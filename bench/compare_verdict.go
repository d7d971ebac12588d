package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"halfstep/program"
)

// What can bound a step.
const (
	boundInput      = "input"
	boundLaunch     = "launch overhead"
	boundMemory     = "memory bandwidth"
	boundArithmetic = "arithmetic"
)

// cost is an instruction of a step with its time and what bounds that from below, for all its runs in the step.
type cost struct {
	op      string
	phase   program.Phase
	seconds float64 // measured
	fixed   float64 // of these, what does not shrink with the batch
	flops   int64
	bytes   int64
	runs    int
	sparse  bool // it leaves out products with zeros, which flops counts
}

// evidence is what was measured of a row's step.
type evidence struct {
	name      string // "fp16 at batch 512"
	dtype     program.DType
	tf32      bool    // products of float32 in tf32
	step      float64 // seconds of a step in training, undisturbed
	instrs    []cost
	least     float64 // seconds of the shortest instruction: what launching one costs
	loader    float64 // seconds of a step that go into making the batch on the host
	batch     int
	probe     int     // another batch size, which fixed costs were told by
	longer    float64 // time of a step at that size over the time of this one; 0: not measured
	peak      float64 // FLOP/s at most; 0: not known
	native    bool    // the device has multiply-adds for dtype; else it computes in float32
	bandwidth float64 // bytes/s at most, at the size of the step's memory
}

// BoundShares tell what a step's time goes to. They add up to 1.
type BoundShares struct {
	Input      float64 `json:"input"`
	Launch     float64 `json:"launch_overhead"`
	Memory     float64 `json:"memory_bandwidth"`
	Arithmetic float64 `json:"arithmetic"`
}

// largest names the largest share.
func (s BoundShares) largest() string {
	of := map[string]float64{boundInput: s.Input, boundLaunch: s.Launch, boundMemory: s.Memory, boundArithmetic: s.Arithmetic}
	return slices.MaxFunc(slices.Sorted(maps.Keys(of)), func(a, b string) int { return cmp.Compare(of[a], of[b]) })
}

// mostOverhead bounds the overhead of an instruction, in shortest instructions: what is longer is work, however badly it
// goes with the batch.
const mostOverhead = 200

// nearBandwidth is the share of the measured bandwidth from which traffic explains a time. Instructions with more streams
// than the two of that measurement do not reach all of it.
const nearBandwidth = 0.4

// split divides an instruction's time. Launching it is overhead: as much as the shortest instruction takes. The rest is bound
// by memory when it moves data near the measured bandwidth, and its multiply-adds would take less time at their measured peak
// than that traffic (the roofline of Williams, Waterman and Patterson, 2009). Else what does not shrink with
// the batch is overhead too, but not in the update, whose work is on parameters; and what is left is bound by arithmetic, of
// whatever kind.
func (e *evidence) split(c cost) (launch, memory, arithmetic float64) {
	launch = min(c.seconds, e.least*float64(c.runs))
	rest := c.seconds - launch
	move, compute := ratio(float64(c.bytes), e.bandwidth), ratio(float64(c.flops), e.peak)
	if move >= compute && move >= nearBandwidth*rest {
		return launch, rest, 0
	}
	if c.phase < program.Update {
		launch = max(launch, min(c.fixed, mostOverhead*launch))
	}
	return launch, 0, c.seconds - launch
}

// shares divides the time of the profiled step.
func (e *evidence) shares() BoundShares {
	s := BoundShares{Input: e.loader}
	for _, c := range e.instrs {
		if c.phase == program.Input {
			s.Input += c.seconds
			continue
		}
		launch, memory, arithmetic := e.split(c)
		s.Launch += launch
		s.Memory += memory
		s.Arithmetic += arithmetic
	}
	total := s.Input + s.Launch + s.Memory + s.Arithmetic
	return BoundShares{ratio(s.Input, total), ratio(s.Launch, total), ratio(s.Memory, total), ratio(s.Arithmetic, total)}
}

// part sums up some of the instructions.
type part struct {
	seconds      float64
	flops, bytes int64
	runs         int
	byOp         map[string]float64 // seconds
}

// part sums up the instructions after the input phase that a condition holds for.
func (e *evidence) part(which func(c cost) bool) part {
	p := part{byOp: map[string]float64{}}
	for _, c := range e.instrs {
		if c.phase != program.Input && which(c) {
			p.seconds += c.seconds
			p.flops += c.flops
			p.bytes += c.bytes
			p.runs += c.runs
			p.byOp[c.op] += c.seconds
		}
	}
	return p
}

func (e *evidence) boundByMemory(c cost) bool {
	_, memory, _ := e.split(c)
	return memory > 0
}

// ops names the operations that most of the time goes to: as many as make up two thirds of it, three at most.
func (p part) ops() string {
	names := slices.SortedFunc(maps.Keys(p.byOp), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.byOp[b], p.byOp[a]), cmp.Compare(a, b))
	})
	sum := 0.0
	for n, name := range names {
		sum += p.byOp[name]
		if n == 2 || sum >= p.seconds*2/3 {
			return strings.Join(names[:n+1], ", ")
		}
	}
	return "nothing"
}

// gflops and gbytes are achieved rates.
func (p part) gflops() float64 { return ratio(float64(p.flops), p.seconds) / 1e9 }
func (p part) gbytes() float64 { return ratio(float64(p.bytes), p.seconds) / 1e9 }

// products are the instructions that do multiply-adds.
func (e *evidence) products() part { return e.part(func(c cost) bool { return c.flops > 0 }) }

// bytes is the memory traffic of a step after its input.
func (e *evidence) bytes() int64 { return e.part(func(cost) bool { return true }).bytes }

// bound is a sentence about what bounds the step, with the figures that say so.
func (e *evidence) bound() string {
	s := e.shares()
	lead := func(share float64, what string) string {
		return fmt.Sprintf("%s is bound by %s (%.0f%% of the step): ", e.name, what, 100*share)
	}
	switch s.largest() {
	case boundInput:
		return lead(s.Input, "its input") + e.inputReason()
	case boundLaunch:
		return lead(s.Launch, boundLaunch) + e.launchReason()
	case boundMemory:
		p := e.part(e.boundByMemory)
		return lead(s.Memory, boundMemory) + fmt.Sprintf("it moves %.1f GB/s in %s; a mere stream of the step's size reaches %.1f.", p.gbytes(), p.ops(), e.bandwidth/1e9)
	}
	return lead(s.Arithmetic, boundArithmetic) + e.arithmeticReason()
}

func (e *evidence) launchReason() string {
	text := "it is " + e.launches()
	if e.longer > 0 {
		text += fmt.Sprintf(", much of it whatever the batch: at batch %d a step takes %.2fx as long", e.probe, e.longer)
	}
	return text + "."
}

// launches tells how many instructions there are and how short they are.
func (e *evidence) launches() string {
	all := e.part(func(cost) bool { return true })
	return fmt.Sprintf("%d instructions of %.2f µs on average", all.runs, 1e6*ratio(all.seconds, float64(all.runs)))
}

func (e *evidence) inputReason() string {
	if e.loader > 0 {
		return fmt.Sprintf("making a batch on the host takes %.2f ms, in which the device waits; data.resident: true avoids it.", 1e3*e.loader)
	}
	return "gathering the batch takes longer than computing with it."
}

// farFromPeak is the share of the peak below which multiply-adds alone do not explain a time.
const farFromPeak = 0.2

// arithmeticReason tells whether multiply-adds or other arithmetic take the time.
func (e *evidence) arithmeticReason() string {
	products := e.part(func(c cost) bool { return c.flops > 0 && !e.boundByMemory(c) })
	rest := e.part(func(c cost) bool { return c.flops == 0 && !e.boundByMemory(c) })
	if rest.seconds > products.seconds {
		return fmt.Sprintf("most of it goes to %s, which do no multiply-adds that count as FLOPs.", rest.ops())
	}
	text := fmt.Sprintf("its products (%s) run at %.0f GFLOP/s", products.ops(), products.gflops())
	if e.peak == 0 {
		return text + "."
	}
	text += fmt.Sprintf(" of at most %.0f", e.peak/1e9)
	switch share := products.gflops() * 1e9 / e.peak; {
	case share > 1 && slices.ContainsFunc(e.instrs, func(c cost) bool { return c.sparse }):
		text += ", counting products with zeros that they leave out"
	case share > 1:
		text += ", which was measured when the machine was busier"
	case share < farFromPeak:
		text += fmt.Sprintf(" and move %.1f of %.1f GB/s: neither limit explains it, these kernels are slow at these shapes", products.gbytes(), e.bandwidth/1e9)
	}
	return text + "."
}
