package main

import "fmt"

// gemmWiden loads 16 elements under a mask as float32; lanes outside are zero.
func (a *asm) gemmWiden(e gemmElem, from, mask, to string) {
	switch e {
	case gemmF32:
		a.op("VMOVUPS.Z", from, mask, to)
	case gemmF16:
		a.op("VCVTPH2PS.Z", from, mask, to)
	case gemmBF16:
		a.op("VPMOVZXWD.Z", from, mask, to)
		a.op("VPSLLD", "$16", to, to)
	}
}

const gemmPackParams = "dst, src unsafe.Pointer, ds, ss, k, n int"

// gemmPackRows writes the copy of n rows of k elements.
func (a *asm) gemmPackRows(e gemmElem) {
	name := "gemmPackRows" + e.name + "AVX512"
	a.fn(name, name+" packs A for the row form; its twin is gemmPackRows.", gemmPackParams)
	a.load("dst", "DI")
	a.load("src", "SI")
	a.load("ds", "R8")
	a.load("ss", "R9")
	a.load("n", "R10")
	lanes := 16
	if e == gemmBF16Pair {
		lanes = 32
	}
	a.op("KXNORQ", "K0", "K0", "K1")
	a.load("k", "CX")
	a.op("ANDQ", imm(lanes-1), "CX")
	a.op("MOVL", "$1", "AX")
	a.op("SHLQ", "CX", "AX")
	a.op("DECQ", "AX")
	a.op("KMOVD", "AX", "K2")
	a.op("TESTQ", "R10", "R10")
	a.op("JZ", "end")
	move := func(mask string) {
		a.op("PREFETCHT0", "(R11)(BX*1)")
		if e == gemmBF16Pair {
			a.op("VMOVDQU16.Z", "(SI)(BX*1)", mask, "Z0")
		} else {
			a.gemmWiden(e, "(SI)(BX*1)", mask, "Z0")
		}
		a.op("VMOVUPS", "Z0", "(DX)")
	}
	a.label("row")
	a.load("k", "CX")
	a.op("XORL", "BX", "BX")
	a.op("MOVQ", "DI", "DX")
	a.op("LEAQ", "(SI)(R9*2)", "R11")
	a.op("SUBQ", imm(lanes), "CX")
	a.op("JLT", "tail")
	a.label("loop")
	move("K1")
	a.op("ADDQ", imm(lanes*e.memory.size), "BX")
	a.op("ADDQ", "$64", "DX")
	a.op("SUBQ", imm(lanes), "CX")
	a.op("JGE", "loop")
	a.label("tail")
	a.op("ADDQ", imm(lanes), "CX")
	a.op("JZ", "next")
	move("K2")
	a.label("next")
	a.op("ADDQ", "R8", "DI")
	a.op("ADDQ", "R9", "SI")
	a.op("DECQ", "R10")
	a.op("JNZ", "row")
	a.label("end")
	a.ret()
}

// gemmPackPanels writes the packing of k rows of n columns into panels of width columns.
func (a *asm) gemmPackPanels(e gemmElem, width int) {
	name := fmt.Sprintf("gemmPackPanels%dx%sAVX512", width, e.name)
	a.fn(name, fmt.Sprintf("%s packs panels of %d columns; its twin is gemmPackPanels.", name, width), gemmPackParams)
	vecs := (width + 15) / 16
	a.load("dst", "DI")
	a.load("src", "SI")
	a.load("ds", "R8")
	a.load("ss", "R9")
	a.load("k", "R10")
	// K1, K2: a whole panel's lanes; K3, K4: those of the last panel, of 1 to width columns. R11: panels before the last.
	a.load("n", "AX")
	a.op("DECQ", "AX")
	a.op("XORL", "DX", "DX")
	a.op("MOVL", imm(width), "CX")
	a.op("DIVQ", "CX")
	a.op("MOVQ", "AX", "R11")
	a.op("LEAQ", "1(DX)", "CX")
	a.gemmColumnMasks(16, 3)
	a.op("MOVL", imm(width), "CX")
	a.gemmColumnMasks(16, 1)
	panel := func(mask int, pair bool) {
		for j := range vecs {
			k := kreg(mask + j)
			a.op("PREFETCHT0", memx(j*16*e.memory.size, "BX", "R9", 8))
			if e != gemmBF16Pair {
				a.gemmWiden(e, mem(j*16*e.memory.size, "BX"), k, "Z0")
			} else {
				a.op("VPMOVZXWD.Z", mem(j*32, "BX"), k, "Z0")
				if pair {
					a.op("VPMOVZXWD.Z", memx(j*32, "BX", "R9", 1), k, "Z1")
					a.op("VPSLLD", "$16", "Z1", "Z1")
					a.op("VPORD", "Z1", "Z0", "Z0")
				}
			}
			a.op("VMOVUPS", "Z0", mem(j*64, "DX"))
		}
	}
	row := func(label string, pair bool) {
		a.op("MOVQ", "SI", "BX")
		a.op("MOVQ", "DI", "DX")
		a.op("MOVQ", "R11", "CX")
		a.op("TESTQ", "CX", "CX")
		a.op("JZ", label+"last")
		a.label(label + "panel")
		panel(1, pair)
		a.op("ADDQ", imm(width*e.memory.size), "BX")
		a.op("ADDQ", "R8", "DX")
		a.op("DECQ", "CX")
		a.op("JNZ", label+"panel")
		a.label(label + "last")
		panel(3, pair)
	}
	if e != gemmBF16Pair {
		a.label("row")
		row("", false)
		a.op("ADDQ", "R9", "SI")
		a.op("ADDQ", imm(width*4), "DI")
		a.op("DECQ", "R10")
		a.op("JNZ", "row")
		a.ret()
		return
	}
	a.op("SUBQ", "$2", "R10")
	a.op("JLT", "odd")
	a.label("row")
	row("", true)
	a.op("LEAQ", "(SI)(R9*2)", "SI")
	a.op("ADDQ", imm(width*4), "DI")
	a.op("SUBQ", "$2", "R10")
	a.op("JGE", "row")
	a.label("odd")
	a.op("CMPQ", "R10", "$-1")
	a.op("JNE", "end")
	row("odd", false)
	a.label("end")
	a.ret()
}

// gemmPackTransposed writes the packing of one panel of 32 columns from n rows of k elements, by transposing blocks of
// 16 x 16.
func (a *asm) gemmPackTransposed(e gemmElem) {
	name := "gemmPackTransposed" + e.name + "AVX512"
	a.fn(name, name+" packs a panel from rows that become its columns; its twin is gemmPackTransposed.\n"+
		"It writes up to 15 rows more and leaves columns from n on undefined.", gemmPackParams)
	step := 16 // elements of a row in a block
	if e == gemmBF16Pair {
		step = 32
	}
	a.load("n", "R10")
	a.load("dst", "R13")
	a.load("src", "R12")
	a.load("ss", "R9")
	a.label("half")
	a.op("MOVQ", "R13", "DI")
	a.op("MOVQ", "R12", "SI")
	a.load("k", "R11")
	a.label("block")
	a.op("MOVL", "$-1", "AX")
	a.op("CMPQ", "R11", imm(step))
	a.op("JGE", "whole")
	a.op("MOVQ", "R11", "CX")
	a.op("MOVL", "$1", "AX")
	a.op("SHLQ", "CX", "AX")
	a.op("DECQ", "AX")
	a.label("whole")
	a.op("KMOVD", "AX", "K1")
	// Rows beyond n repeat the last.
	a.op("MOVQ", "SI", "BX")
	a.op("MOVQ", "R10", "DX")
	for i := range 16 {
		if e == gemmBF16Pair {
			a.op("VMOVDQU16.Z", "(BX)", "K1", avx512.r(i))
		} else {
			a.gemmWiden(e, "(BX)", "K1", avx512.r(i))
		}
		if i < 15 {
			a.op("LEAQ", "(BX)(R9*1)", "AX")
			a.op("DECQ", "DX")
			a.op("CMOVQGT", "AX", "BX")
		}
	}
	a.transpose16()
	for i := range 16 {
		a.op("VMOVUPS", avx512.r(i), mem(128*i, "DI"))
	}
	a.op("ADDQ", imm(step*e.memory.size), "SI")
	a.op("ADDQ", "$2048", "DI")
	a.op("SUBQ", imm(step), "R11")
	a.op("JGT", "block")
	a.op("MOVQ", "R9", "AX")
	a.op("SHLQ", "$4", "AX")
	a.op("ADDQ", "AX", "R12")
	a.op("ADDQ", "$64", "R13")
	a.op("SUBQ", "$16", "R10")
	a.op("JGT", "half")
	a.ret()
}

// transpose16 transposes the 16 x 16 matrix of 4-byte elements whose rows are Z0 to Z15; it uses Z16 to Z31.
func (a *asm) transpose16() {
	z := avx512.r
	for r := 0; r < 16; r += 4 { // within 128-bit lanes: four rows by four columns
		a.op("VUNPCKLPS", z(r+1), z(r), z(16+r))
		a.op("VUNPCKHPS", z(r+1), z(r), z(17+r))
		a.op("VUNPCKLPS", z(r+3), z(r+2), z(18+r))
		a.op("VUNPCKHPS", z(r+3), z(r+2), z(19+r))
		a.op("VUNPCKLPD", z(18+r), z(16+r), z(r))
		a.op("VUNPCKHPD", z(18+r), z(16+r), z(r+1))
		a.op("VUNPCKLPD", z(19+r), z(17+r), z(r+2))
		a.op("VUNPCKHPD", z(19+r), z(17+r), z(r+3))
	}
	// Now lane l of register 4r+c is column 4l+c of rows 4r to 4r+3.
	for c := range 4 {
		a.op("VSHUFF32X4", "$0x88", z(4+c), z(c), z(16+c))
		a.op("VSHUFF32X4", "$0xDD", z(4+c), z(c), z(20+c))
		a.op("VSHUFF32X4", "$0x88", z(12+c), z(8+c), z(24+c))
		a.op("VSHUFF32X4", "$0xDD", z(12+c), z(8+c), z(28+c))
	}
	for c := range 4 {
		a.op("VSHUFF32X4", "$0x88", z(24+c), z(16+c), z(c))
		a.op("VSHUFF32X4", "$0xDD", z(24+c), z(16+c), z(8+c))
		a.op("VSHUFF32X4", "$0x88", z(28+c), z(20+c), z(4+c))
		a.op("VSHUFF32X4", "$0xDD", z(28+c), z(20+c), z(12+c))
	}
}
