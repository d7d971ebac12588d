package main

import (
	"fmt"
	"strings"
)

// genVec writes the routines that go over vectors once: casts, elementwise layers, masks, reductions, optimizers.
func genVec() map[string]string {
	a := newAsm("vec")
	var table []uint32
	for _, v := range []isa{avx512, avx2} {
		e := &vecEmitter{asm: a, isa: v, table: &table}
		e.casts()
		e.elementwise()
		e.dropoutMask()
		e.reductions()
		e.norms()
		e.maxPools()
		e.optimizers()
		e.activations()
	}
	constants(a, table)
	return a.files()
}

// dtype is how elements lie in memory. Arithmetic is in float32.
type dtype struct {
	name string
	size int
}

var (
	float32s  = dtype{"Float32", 4}
	float16s  = dtype{"Float16", 2}
	bfloat16s = dtype{"BFloat16", 2}
	uint8s    = dtype{"Uint8", 1} // widened to int32
	floats    = []dtype{float32s, float16s, bfloat16s}
)

// vecEmitter writes routines over n elements in CX. Pointers stay where they are; the index of the vector's first element
// is in R8. AVX-512 routines take any n: the last vector is masked by K1, and lanes beyond n are neither read nor written.
// AVX2 routines want a multiple of the vector; the caller gives what is left to the twin.
//
// Registers: zero() and those above it hold constants, the three below it are scratch of put, and K2, K3 are scratch.
type vecEmitter struct {
	*asm
	isa
	table  *[]uint32 // constants in memory, shared by all routines
	masked bool
	labels int
}

func (e *vecEmitter) wide() bool { return e.reg == 'Z' }

// routine starts a routine called name+level. Its parameters are the pointers, the first loaded into regs, n, loaded into
// CX, and the rest, a parameter list.
func (e *vecEmitter) routine(name, doc, pointers, rest string, regs ...string) {
	params := pointers + " unsafe.Pointer, n int"
	if rest != "" {
		params += ", " + rest
	}
	e.fn(name+e.name, name+e.name+" "+doc, params)
	for i, p := range strings.Split(pointers, ", ")[:len(regs)] {
		e.load(p, regs[i])
	}
	e.load("n", "CX")
}

// loop runs body for each vector of so many elements, and ends the routine.
func (e *vecEmitter) loop(lanes int, body func()) {
	e.each(lanes, body)
	e.ret()
}

// each runs body for each vector of so many elements, from R8 = 0 to n.
func (e *vecEmitter) each(lanes int, body func()) {
	e.op("XORQ", "R8", "R8")
	e.rest(lanes, body)
}

// rest is each from where R8 is, for CX further elements.
func (e *vecEmitter) rest(lanes int, body func()) {
	loop, tail, done := e.newLabel("loop"), e.newLabel("tail"), e.newLabel("done")
	e.op("SUBQ", imm(lanes), "CX")
	e.op("JLT", tail)
	e.align()
	e.label(loop)
	body()
	e.op("ADDQ", imm(lanes), "R8")
	e.op("SUBQ", imm(lanes), "CX")
	e.op("JGE", loop)
	e.label(tail)
	if e.wide() {
		e.op("ADDQ", imm(lanes), "CX")
		e.op("JZ", done)
		e.tailMask("CX", 1)
		e.masked = true
		body()
		e.masked = false
		e.label(done)
	}
}

// newLabel makes a label that is used nowhere else.
func (e *vecEmitter) newLabel(name string) string {
	e.labels++
	return fmt.Sprint(name, e.labels)
}

// tailMask sets the first so many bits of a mask register. It uses AX.
func (e *vecEmitter) tailMask(count string, k int) {
	e.op("MOVQ", "$-1", "AX")
	e.op("BZHIQ", count, "AX", "AX")
	e.op("KMOVQ", "AX", kreg(k))
}

// at is the current vector of the array at ptr, or its tail.
func (e *vecEmitter) at(ptr string, size int) string { return memx(0, ptr, "R8", size) }

// read appends an instruction that loads; masked-out lanes become zero.
func (e *vecEmitter) read(mnemonic, from string, to string) {
	if e.masked {
		e.op(mnemonic+".Z", from, "K1", to)
	} else {
		e.op(mnemonic, from, to)
	}
}

// write appends an instruction that stores; imm operands come first.
func (e *vecEmitter) write(mnemonic string, operands ...string) {
	if e.masked {
		last := len(operands) - 1
		operands = append(append([]string(nil), operands[:last]...), "K1", operands[last])
	}
	e.op(mnemonic, operands...)
}

// get loads the current vector at ptr as float32 (bytes: as int32) into register i.
func (e *vecEmitter) get(d dtype, ptr string, i int) { e.getAt(d, e.at(ptr, d.size), i) }

func (e *vecEmitter) getAt(d dtype, from string, i int) {
	switch d {
	case float32s:
		e.read("VMOVUPS", from, e.r(i))
	case float16s:
		e.read("VCVTPH2PS", from, e.r(i))
	case bfloat16s:
		e.read("VPMOVZXWD", from, e.r(i))
		e.op("VPSLLD", "$16", e.r(i), e.r(i))
	case uint8s:
		e.read("VPMOVZXBD", from, e.r(i))
	}
}

// Registers of the constants and the scratch of put.
func (e *vecEmitter) bias() int     { return e.regs - 1 } // 0x7fff
func (e *vecEmitter) one() int      { return e.regs - 2 } // 1
func (e *vecEmitter) quiet() int    { return e.regs - 3 } // 0x40
func (e *vecEmitter) zero() int     { return e.regs - 4 }
func (e *vecEmitter) tmp(n int) int { return e.regs - 5 - n } // n in 0..2

// putConstants sets what put needs to store elements of this type.
func (e *vecEmitter) putConstants(d dtype) {
	if d == bfloat16s {
		e.broadcast(0x7fff, e.bias())
		e.broadcast(1, e.one())
		e.broadcast(0x40, e.quiet())
	}
}

// setZero clears the register zero().
func (e *vecEmitter) setZero() { e.clear(e.zero()) }

func (e *vecEmitter) clear(i int) {
	if e.wide() {
		e.op("VPXORD", e.r(i), e.r(i), e.r(i))
	} else {
		e.op("VPXOR", e.r(i), e.r(i), e.r(i))
	}
}

// broadcast sets all 32-bit lanes of register i to a constant. It uses AX.
func (e *vecEmitter) broadcast(bits uint32, i int) {
	e.op("MOVL", fmt.Sprintf("$%#x", bits), "AX")
	if e.wide() {
		e.op("VPBROADCASTD", "AX", e.r(i))
		return
	}
	e.op("VMOVD", "AX", fmt.Sprintf("X%d", i))
	e.op("VPBROADCASTD", fmt.Sprintf("X%d", i), e.r(i))
}

// put stores register i as elements of type d, rounding to nearest even. It destroys the register.
func (e *vecEmitter) put(d dtype, i int, ptr string) { e.putAt(d, i, e.at(ptr, d.size)) }

func (e *vecEmitter) putAt(d dtype, i int, to string) {
	switch d {
	case float32s:
		e.write("VMOVUPS", e.r(i), to)
	case float16s:
		e.write("VCVTPS2PH", "$0", e.r(i), to)
	case bfloat16s:
		e.putBFloat16(i, to)
	}
}

// putBFloat16 is half.ToBFloat16: (b + 0x7fff + b>>16&1) >> 16, and b>>16 | 0x40 for a NaN. The instruction for it,
// VCVTNEPS2BF16, takes subnormal numbers as zeros.
func (e *vecEmitter) putBFloat16(i int, to string) {
	x, hi, odd := e.r(i), e.r(e.tmp(0)), e.r(e.tmp(1))
	e.op("VPSRLD", "$16", x, hi)
	if e.wide() {
		e.op("VCMPPS", imm(unordered), x, x, "K2") // unordered
		e.op("VPANDD", e.r(e.one()), hi, odd)
		e.op("VPADDD", e.r(e.bias()), x, x)
		e.op("VPADDD", odd, x, x)
		e.op("VPSRLD", "$16", x, x)
		e.op("VPORD", e.r(e.quiet()), hi, "K2", x)
		e.write("VPMOVDW", x, to)
		return
	}
	nan := e.r(e.tmp(2))
	e.op("VCMPPS", imm(unordered), x, x, nan)
	e.op("VPAND", e.r(e.one()), hi, odd)
	e.op("VPADDD", e.r(e.bias()), x, x)
	e.op("VPADDD", odd, x, x)
	e.op("VPSRLD", "$16", x, x)
	e.op("VPOR", e.r(e.quiet()), hi, hi)
	e.op("VBLENDVPS", nan, hi, x, x)
	e.op("VEXTRACTI128", "$1", x, "X"+hi[1:])
	e.op("VPACKUSDW", "X"+hi[1:], "X"+x[1:], "X"+x[1:])
	e.op("VMOVDQU", "X"+x[1:], to)
}

// keep zeroes the lanes of register i where pred does not hold between a and b: a pred b.
func (e *vecEmitter) keep(pred int, b, a, i int) {
	if e.wide() {
		e.op("VCMPPS", imm(pred), e.r(b), e.r(a), "K2")
		e.op("VMOVAPS.Z", e.r(i), "K2", e.r(i))
		return
	}
	e.op("VCMPPS", imm(pred), e.r(b), e.r(a), e.r(e.tmp(0)))
	e.op("VANDPS", e.r(e.tmp(0)), e.r(i), e.r(i))
}

// Predicates of VCMPPS, quiet.
const (
	unordered = 3
	notLess   = 0x15 // true of NaN
	greater   = 0x1e // false of NaN
)
