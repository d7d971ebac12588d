package main

import "fmt"

// genGEMM writes the routines of the packed matrix product (kernel/gemm.go).
func genGEMM() map[string]string {
	a := newAsm("gemm")
	for _, e := range []gemmElem{gemmF32, gemmF64, gemmBF16Pair} {
		for _, form := range []string{"Row", "Col"} {
			for h := 4; h <= 12; h += 4 {
				a.gemmTile(avx512, e, form, h)
			}
		}
	}
	for _, e := range []gemmElem{gemmF32, gemmF64} {
		for _, form := range []string{"Row", "Col"} {
			for h := 2; h <= 6; h += 2 {
				a.gemmTile(avx2, e, form, h)
			}
		}
	}
	for _, e := range []gemmElem{gemmF32, gemmF16, gemmBF16, gemmBF16Pair} {
		a.gemmPackRows(e)
		a.gemmPackPanels(e, 12)
		a.gemmPackPanels(e, 32)
		a.gemmPackTransposed(e)
	}
	for _, e := range []gemmElem{gemmF32, gemmF16, gemmBF16} {
		for _, op := range []string{"", "ReLU", "Mask"} {
			a.gemmStore(e, op)
		}
	}
	a.gemmTranspose8()
	return a.files()
}

// gemmElem is an element type of the matrix product.
type gemmElem struct {
	name   string
	bytes  int    // of an element in memory
	packed int    // bytes of an element of a packed panel
	move   string // moves a vector of packed elements
	bcast  string // broadcasts a packed element
	fma    string
}

var (
	gemmF32      = gemmElem{"F32", 4, 4, "VMOVUPS", "VBROADCASTSS", "VFMADD231PS"}
	gemmF64      = gemmElem{"F64", 8, 8, "VMOVUPD", "VBROADCASTSD", "VFMADD231PD"}
	gemmF16      = gemmElem{name: "F16", bytes: 2, packed: 4}  // widened to float32 by packing
	gemmBF16     = gemmElem{name: "BF16", bytes: 2, packed: 4} // the same
	gemmBF16Pair = gemmElem{"BF16Pair", 2, 4, "VMOVUPS", "VBROADCASTSS", ""}
)

// gemmTile writes the inner loop over k for a tile of so many rows and two vectors of columns. With the row form A's rows
// lie as bytes apart; with the column form its columns do, and rows are adjacent.
func (a *asm) gemmTile(v isa, e gemmElem, form string, rows int) {
	name := fmt.Sprintf("gemm%s%sx%d%s", form, e.name, rows, v.name)
	twin := "gemmTileRow"
	if form == "Col" {
		twin = "gemmTileCol"
	}
	a.fn(name, fmt.Sprintf("%s is the inner loop of a tile of %d rows; its twin is %s.", name, rows, twin),
		"k int, a unsafe.Pointer, as int, b unsafe.Pointer, bs, cols int, init unsafe.Pointer, is int, out unsafe.Pointer, os int")
	a.load("k", "CX")
	if v.reg == 'Z' {
		a.load("cols", "CX")
		a.gemmColumnMasks(v.bytes / e.packed)
		a.load("k", "CX")
	}
	a.load("a", "SI")
	a.load("as", "R11")
	a.load("b", "DI")
	a.load("bs", "R12")
	a.load("init", "DX")
	a.load("is", "R13")
	acc := func(m, j int) string { return v.r(2*m + j) }
	for m := range rows {
		a.op("VMOVUPS", mem(0, "DX"), acc(m, 0))
		a.op("VMOVUPS", mem(v.bytes, "DX"), acc(m, 1))
		a.op("ADDQ", "R13", "DX")
	}
	// Groups of three rows share a pointer: its multiples of the stride are addressing modes.
	groups := []string{"SI", "R8", "R9", "R10"}[:(rows+2)/3]
	if form == "Row" {
		a.op("LEAQ", memx(0, "R11", "R11", 2), "AX")
		for i := 1; i < len(groups); i++ {
			a.op("LEAQ", memx(0, groups[i-1], "AX", 1), groups[i])
		}
	}
	bcast := 2*rows + 2 // first register for broadcasts
	nb := min(v.regs-bcast, 4)
	b := [2]string{v.r(2 * rows), v.r(2*rows + 1)}
	a.op("TESTQ", "CX", "CX")
	a.op("JZ", "done")
	a.align()
	a.label("loop")
	for j := range 2 {
		if v.reg == 'Z' {
			a.op(e.move+".Z", mem(j*v.bytes, "DI"), kreg(1+j), b[j])
		} else {
			a.op(e.move, mem(j*v.bytes, "DI"), b[j])
		}
	}
	for m := range rows {
		t := v.r(bcast + m%nb)
		switch {
		case form == "Col":
			a.op(e.bcast, mem(m*e.packed, "SI"), t)
		case m%3 == 0:
			a.op(e.bcast, mem(0, groups[m/3]), t)
		default:
			a.op(e.bcast, memx(0, groups[m/3], "R11", m%3), t)
		}
		for j := range 2 {
			if e.fma == "" {
				a.vdpbf16ps(b[j], t, acc(m, j))
			} else {
				a.op(e.fma, b[j], t, acc(m, j))
			}
		}
	}
	if form == "Col" {
		a.op("ADDQ", "R11", "SI")
	} else {
		for _, p := range groups {
			a.op("ADDQ", imm(e.packed), p)
		}
	}
	a.op("ADDQ", "R12", "DI")
	a.op("DECQ", "CX")
	a.op("JNZ", "loop")
	a.label("done")
	a.load("out", "DX")
	a.load("os", "R13")
	for m := range rows {
		a.op("VMOVUPS", acc(m, 0), mem(0, "DX"))
		a.op("VMOVUPS", acc(m, 1), mem(v.bytes, "DX"))
		a.op("ADDQ", "R13", "DX")
	}
	a.ret()
}

// gemmColumnMasks sets K1 and K2 to the first CX lanes of two vectors; it uses AX.
func (a *asm) gemmColumnMasks(lanes int) {
	a.op("MOVL", "$1", "AX")
	a.op("SHLQ", "CX", "AX")
	a.op("DECQ", "AX")
	a.op("KMOVW", "AX", "K1")
	a.op("SHRQ", imm(lanes), "AX")
	a.op("KMOVW", "AX", "K2")
}

// gemmWiden loads 16 elements under a mask as float32; lanes outside are zero.
func (a *asm) gemmWiden(e gemmElem, from, mask, to string) {
	switch e.name {
	case "F32":
		a.op("VMOVUPS.Z", from, mask, to)
	case "F16":
		a.op("VCVTPH2PS.Z", from, mask, to)
	case "BF16":
		a.op("VPMOVZXWD.Z", from, mask, to)
		a.op("VPSLLD", "$16", to, to)
	default:
		panic(e.name)
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
	a.op("SUBQ", imm(lanes), "CX")
	a.op("JLT", "tail")
	a.label("loop")
	move("K1")
	a.op("ADDQ", imm(lanes*e.bytes), "BX")
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
	a.gemmColumnMasks(16)
	a.op("KMOVW", "K1", "K3")
	a.op("KMOVW", "K2", "K4")
	a.op("MOVL", imm(width), "CX")
	a.gemmColumnMasks(16)
	panel := func(mask int, pair bool) {
		for j := range vecs {
			k := kreg(mask + j)
			if e != gemmBF16Pair {
				a.gemmWiden(e, mem(j*16*e.bytes, "BX"), k, "Z0")
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
		a.op("ADDQ", imm(width*e.bytes), "BX")
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
	a.op("ADDQ", imm(step*e.bytes), "SI")
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

// gemmStore writes the epilogue of a float32 tile of 32 columns.
func (a *asm) gemmStore(e gemmElem, op string) {
	name := "gemmStore" + op + e.name + "AVX512"
	a.fn(name, name+" writes a tile to C; its twin is gemmStore.",
		"c unsafe.Pointer, cs int, tile unsafe.Pointer, rows, cols int, mask unsafe.Pointer")
	a.load("cols", "CX")
	a.gemmColumnMasks(16)
	a.load("c", "DI")
	a.load("cs", "R8")
	a.load("tile", "SI")
	a.load("rows", "CX")
	a.load("mask", "BX")
	a.op("VXORPS", "Z31", "Z31", "Z31")
	if e == gemmBF16 {
		for i, c := range []string{"$1", "$0x7fff", "$0x400000"} {
			a.op("MOVL", c, "AX")
			a.op("VPBROADCASTD", "AX", avx512.r(28+i))
		}
	}
	a.label("row")
	for j := range 2 {
		k, z := kreg(1+j), avx512.r(j)
		a.op("VMOVUPS", mem(64*j, "SI"), z)
		switch op {
		case "ReLU":
			a.op("VCMPPS", "$22", "Z31", z, "K3") // not at most 0: NaN stays
			a.op("VMOVAPS.Z", z, "K3", z)
		case "Mask":
			a.gemmWiden(e, mem(16*e.bytes*j, "BX"), k, "Z4")
			a.op("VCMPPS", "$30", "Z31", "Z4", "K3") // greater, false for NaN
			a.op("VMOVAPS.Z", z, "K3", z)
		}
		to := mem(16*e.bytes*j, "DI")
		switch e.name {
		case "F32":
			a.op("VMOVUPS", z, k, to)
		case "F16":
			a.op("VCVTPS2PH", "$0", z, k, to)
		case "BF16":
			a.roundBF16(z)
			a.op("VPMOVDW", z, k, to)
		}
	}
	a.op("ADDQ", "$128", "SI")
	a.op("ADDQ", "R8", "DI")
	if op == "Mask" {
		a.op("ADDQ", "R8", "BX")
	}
	a.op("DECQ", "CX")
	a.op("JNZ", "row")
	a.ret()
}

// roundBF16 rounds the float32 lanes of z to bfloat16 in the low halves, to nearest even, NaN made quiet. Z28, Z29 and Z30
// hold 1, 0x7fff and 0x400000; it uses Z5, Z6 and K4. VCVTNEPS2BF16 would flush denormals.
func (a *asm) roundBF16(z string) {
	a.op("VCMPPS", "$3", z, z, "K4")
	a.op("VPSRLD", "$16", z, "Z5")
	a.op("VPANDD", "Z28", "Z5", "Z5")
	a.op("VPADDD", "Z29", "Z5", "Z5")
	a.op("VPADDD", "Z5", z, "Z5")
	a.op("VPORD", "Z30", z, "K4", "Z5")
	a.op("VPSRLD", "$16", "Z5", z)
}
