package main

import "fmt"

// genConvPool writes the max pool of float32 scratch into storage, and its gradient's scatter into scratch. Windows of
// two by two are unrolled; other sizes loop.
func genConvPool(a *asm) {
	for _, c := range []converter{{a: a, v: avx512, consts: 28}, {a: a, v: avx2, consts: 12}} {
		for _, e := range []elem{f32, f16, bf16} {
			convPool(c, e, c.v.name)
			convUnpool(c, e, f32)
		}
	}
	bf := converter{a: a, v: avx512, bf16Asm: true}
	convPool(bf, bf16, "AVX512BF16")
	convUnpool(bf, bf16, bf16)
}

// window visits the positions of a pooling window. visit gets the operand of the element, SI being the window's origin
// and R12 the channel's offset in bytes, and increments the position register itself.
// Registers: R8 row pointer, R9 element pointer, R10 and R13 counters.
func window(a *asm, s string, visit func(ptr string)) {
	a.op("LEAQ", memx(0, "SI", "R12", 1), "R8")
	a.op("CMPQ", s+"_size(AX)", "$2")
	a.op("JNE", "any")
	for row := range 2 {
		a.op("MOVQ", "R8", "R9")
		visit("R9")
		a.op("ADDQ", s+"_pix(AX)", "R9")
		visit("R9")
		if row == 0 {
			a.op("ADDQ", s+"_row(AX)", "R8")
		}
	}
	a.op("JMP", "windowEnd")
	a.label("any")
	a.op("MOVQ", s+"_size(AX)", "R10")
	a.label("windowRow")
	a.op("MOVQ", "R8", "R9")
	a.op("MOVQ", s+"_size(AX)", "R13")
	a.label("windowCol")
	visit("R9")
	a.op("ADDQ", s+"_pix(AX)", "R9")
	a.op("DECQ", "R13")
	a.op("JNZ", "windowCol")
	a.op("ADDQ", s+"_row(AX)", "R8")
	a.op("DECQ", "R10")
	a.op("JNZ", "windowRow")
	a.label("windowEnd")
}

// Vector registers of the two routines.
const (
	rMax    = 0 // maximum so far, or the gradient
	rIndex  = 1 // its position, or where the gradient goes
	rPos    = 2 // position in the window
	rOne    = 3
	rElem   = 4
	rTmp    = 5
	rTmp2   = 6
	rFloor  = 7
	rDead   = 8
	rNegInf = 9
)

// convPool writes one row of pooled pixels: the maximum of each window of rounded sums, ReLU, and its position.
func convPool(c converter, e elem, suffix string) {
	a, v := c.a, c.v
	name := "convPool" + e.name + suffix
	doc := fmt.Sprintf("%s pools float32 sums to t.n pixels of t.c channels %s. Its twin is convPoolGo.", name, e.name)
	if v.regs == 16 {
		doc += "\nt.c is a multiple of 8."
	}
	a.fn(name, doc, "t *convPool")
	wide := v.regs == 32
	mask := ""
	if wide {
		mask = "K1"
	}
	a.load("t", "AX")
	a.op("MOVQ", "convPool_src(AX)", "SI")
	a.op("MOVQ", "convPool_y(AX)", "DI")
	a.op("MOVQ", "convPool_idx(AX)", "DX")
	a.op("MOVQ", "convPool_n(AX)", "R11")
	c.setup(e)
	broadcastInt(a, v, 1, rOne)
	broadcastInt(a, v, 0xff800000, rNegInf)
	a.op("VBROADCASTSS", "convPool_floor(AX)", v.r(rFloor))
	a.op("VPBROADCASTD", "convPool_dead(AX)", v.r(rDead))
	if wide {
		a.op("KMOVW", "convPool_relu(AX)", "K3")
	}
	a.label("pixel")
	a.op("XORQ", "R12", "R12")
	a.op("MOVQ", "convPool_c(AX)", "CX")
	a.label("vector")
	if wide {
		tailMask(a, "CX", "K1")
	}
	a.op(xorOp(v), v.r(rIndex), v.r(rIndex), v.r(rIndex))
	a.op(xorOp(v), v.r(rPos), v.r(rPos), v.r(rPos))
	a.op("VMOVAPS", v.r(rNegInf), v.r(rMax))
	window(a, "convPool", func(ptr string) {
		x, m := v.r(rElem), v.r(rMax)
		c.load(f32, mem(0, ptr), rElem, "")
		c.round(e, rElem, rTmp)
		// Taken when above the maximum so far or not a number.
		if wide {
			a.op("VCMPPS", "$14", m, x, "K2")
			a.op("VCMPPS", "$3", x, x, "K4")
			a.op("KORW", "K4", "K2", "K2")
			a.op("VMOVAPS", x, "K2", m)
			a.op("VMOVDQA32", v.r(rPos), "K2", v.r(rIndex))
		} else {
			t, u := v.r(rTmp), v.r(rTmp2)
			a.op("VCMPPS", "$14", m, x, t)
			a.op("VCMPPS", "$3", x, x, u)
			a.op("VORPS", u, t, t)
			a.op("VBLENDVPS", t, x, m, m)
			a.op("VBLENDVPS", t, v.r(rPos), v.r(rIndex), v.r(rIndex))
		}
		a.op("VPADDD", v.r(rOne), v.r(rPos), v.r(rPos))
	})
	// With ReLU a maximum that is not above zero passes no gradient.
	if wide {
		a.op("VCMPPS", "$10", v.r(rFloor), v.r(rMax), "K3", "K2") // not greater
		a.op("VMOVDQA32", v.r(rDead), "K2", v.r(rIndex))
	} else {
		a.op("VCMPPS", "$10", v.r(rFloor), v.r(rMax), v.r(rTmp))
		a.op("VBROADCASTSS", "convPool_relu(AX)", v.r(rTmp2))
		a.op("VANDPS", v.r(rTmp2), v.r(rTmp), v.r(rTmp))
		a.op("VBLENDVPS", v.r(rTmp), v.r(rDead), v.r(rIndex), v.r(rIndex))
	}
	a.op("VMAXPS", v.r(rMax), v.r(rFloor), v.r(rMax))
	a.op("MOVQ", "R12", "BX")
	a.op("SHRQ", "$2", "BX")
	if wide {
		a.op("VPMOVDB", v.r(rIndex), mask, memx(0, "DX", "BX", 1))
	} else {
		x := v.half(rIndex)
		a.op("VEXTRACTI128", "$1", v.r(rIndex), v.half(rTmp))
		a.op("VPACKUSDW", v.half(rTmp), x, x)
		a.op("VPACKUSWB", x, x, x)
		a.op("VMOVQ", x, memx(0, "DX", "BX", 1))
	}
	c.store(e, rMax, rTmp, memx(0, "DI", "BX", e.bytes), mask)
	a.op("ADDQ", imm(v.bytes), "R12")
	a.op("SUBQ", imm(v.lanes), "CX")
	a.op("JGT", "vector")
	a.op("ADDQ", "convPool_step(AX)", "SI")
	a.op("ADDQ", "convPool_yPix(AX)", "DI")
	a.op("ADDQ", "convPool_idxPix(AX)", "DX")
	a.op("DECQ", "R11")
	a.op("JNZ", "pixel")
	a.ret()
}

// convUnpool scatters one row of pooled gradients: each goes to the position in its window that idx names, all other
// positions get zero. With add, for windows that overlap, it is added to what is there.
func convUnpool(c converter, e, to elem) {
	a, v := c.a, c.v
	name := "convUnpool" + e.name + to.name + v.name
	doc := fmt.Sprintf("%s scatters t.n pixels of t.c channels, %s to %s. Its twin is convUnpoolGo.", name, e.name, to.name)
	if v.regs == 16 {
		doc += "\nt.c is a multiple of 8."
	} else {
		doc += "\nChannels from t.c to the next multiple of 16 become zero."
	}
	a.fn(name, doc, "t *convUnpool")
	wide := v.regs == 32
	mask := ""
	if wide {
		mask = "K1"
	}
	a.load("t", "AX")
	a.op("MOVQ", "convUnpool_dst(AX)", "SI")
	a.op("MOVQ", "convUnpool_dy(AX)", "DI")
	a.op("MOVQ", "convUnpool_idx(AX)", "DX")
	a.op("MOVQ", "convUnpool_n(AX)", "R11")
	broadcastInt(a, v, 1, rOne)
	a.op("VPBROADCASTD", "convUnpool_add(AX)", v.r(rDead)) // all ones when adding
	a.label("pixel")
	a.op("XORQ", "R12", "R12")
	a.op("MOVQ", "convUnpool_c(AX)", "CX")
	a.label("vector")
	a.op("MOVQ", "R12", "BX")
	if to.bytes == 4 {
		a.op("SHRQ", "$2", "BX")
	} else {
		a.op("SHRQ", "$1", "BX")
	}
	if wide {
		a.op("MOVQ", "BX", "R9")
		tailMask(a, "CX", "K1")
		a.op("VMOVDQU8.Z", memx(0, "DX", "R9", 1), "K1", "X1")
		a.op("VPMOVZXBD", "X1", v.r(rIndex))
		if to == bf16 {
			a.op("VMOVDQU16.Z", memx(0, "DI", "R9", 2), "K1", v.half(rMax))
		} else {
			c.load(e, memx(0, "DI", "R9", e.bytes), rMax, mask)
		}
	} else {
		a.op("VPMOVZXBD", memx(0, "DX", "BX", 1), v.r(rIndex))
		c.load(e, memx(0, "DI", "BX", e.bytes), rMax, "")
	}
	a.op(xorOp(v), v.r(rPos), v.r(rPos), v.r(rPos))
	window(a, "convUnpool", func(ptr string) {
		at, x := mem(0, ptr), v.r(rElem)
		switch {
		case to == bf16:
			a.op("VPCMPEQD", v.r(rPos), v.r(rIndex), "K2")
			a.op("VMOVDQU16.Z", v.half(rMax), "K2", v.half(rElem))
			a.op("VMOVUPS", v.half(rElem), at)
		case wide:
			a.op("VPCMPEQD", v.r(rPos), v.r(rIndex), "K2")
			a.op("VANDPS", at, v.r(rDead), x)
			a.op("VADDPS", v.r(rMax), x, "K2", x)
			a.op("VMOVUPS", x, at)
		default:
			a.op("VPCMPEQD", v.r(rPos), v.r(rIndex), v.r(rTmp))
			a.op("VANDPS", v.r(rMax), v.r(rTmp), v.r(rTmp))
			a.op("VANDPS", at, v.r(rDead), x)
			a.op("VADDPS", v.r(rTmp), x, x)
			a.op("VMOVUPS", x, at)
		}
		a.op("VPADDD", v.r(rOne), v.r(rPos), v.r(rPos))
	})
	a.op("ADDQ", imm(v.lanes*to.bytes), "R12")
	a.op("SUBQ", imm(v.lanes), "CX")
	a.op("JGT", "vector")
	a.op("ADDQ", "convUnpool_step(AX)", "SI")
	a.op("ADDQ", "convUnpool_dyPix(AX)", "DI")
	a.op("ADDQ", "convUnpool_idxPix(AX)", "DX")
	a.op("DECQ", "R11")
	a.op("JNZ", "pixel")
	a.ret()
}
