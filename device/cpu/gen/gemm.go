package main

import "fmt"

// genGEMM writes the routines of the packed matrix product (kernel/gemm.go).
func genGEMM() map[string]string {
	a := newAsm("gemm")
	for _, form := range []string{"Row", "Col"} {
		for h := 4; h <= 12; h += 4 {
			for vecs := 1; vecs <= 2; vecs++ {
				a.gemmTile(avx512, gemmF32, form, h, vecs)
				a.gemmTile(avx512, gemmBF16Pair, form, h, vecs)
			}
			a.gemmTile(avx512, gemmF64, form, h, 2)
		}
		for h := 2; h <= 6; h += 2 {
			a.gemmTile(avx2, gemmF32, form, h, 2)
			a.gemmTile(avx2, gemmF64, form, h, 2)
		}
	}
	for _, e := range []gemmElem{gemmF32, gemmF16, gemmBF16, gemmBF16Pair} {
		a.gemmPackRows(e)
		a.gemmPackPanels(e, 12)
		a.gemmPackPanels(e, 32)
		a.gemmPackTransposed(e)
	}
	a.gemmPackPanels6()
	a.gemmTranspose8()
	for _, v := range []isa{avx512, avx2} {
		for _, e := range []gemmElem{gemmF32, gemmF16, gemmBF16} {
			for _, op := range []string{"", "ReLU", "Mask"} {
				a.gemmStore(v, e, op)
			}
		}
	}
	a.gemmPrefetch()
	a.gemmOuter()
	return a.files()
}

// gemmElem is an element type of the matrix product.
type gemmElem struct {
	name   string
	memory dtype  // in A, B and C
	packed int    // bytes of an element of a packed panel
	move   string // moves a vector of packed elements
	bcast  string // broadcasts a packed element
	fma    string // multiplies and adds; empty: VDPBF16PS
}

var (
	gemmF32      = gemmElem{"F32", float32s, 4, "VMOVUPS", "VBROADCASTSS", "VFMADD231PS"}
	gemmF64      = gemmElem{"F64", dtype{"Float64", 8}, 8, "VMOVUPD", "VBROADCASTSD", "VFMADD231PD"}
	gemmF16      = gemmElem{name: "F16", memory: float16s, packed: 4} // float32 when packed
	gemmBF16     = gemmElem{name: "BF16", memory: bfloat16s, packed: 4}
	gemmBF16Pair = gemmElem{"BF16Pair", bfloat16s, 4, "VMOVUPS", "VBROADCASTSS", ""} // two neighbours along k
)

// gemmTile writes the inner loop over k for a tile of so many rows and vectors of columns. In the row form A's rows lie as
// bytes apart; in the column form its columns do, and rows are adjacent. Columns from cols on are computed as if B were
// zero there.
func (a *asm) gemmTile(v isa, e gemmElem, form string, rows, vecs int) {
	name := fmt.Sprintf("gemm%s%sx%dx%d%s", form, e.name, rows, vecs*v.bytes/e.packed, v.name)
	twin := "gemmTile" + form
	if e == gemmBF16Pair {
		twin = "gemmPairs"
	}
	a.fn(name, fmt.Sprintf("%s is the inner loop of a tile of %d rows; its twin is %s.", name, rows, twin),
		"k int, a unsafe.Pointer, as int, b unsafe.Pointer, bs, cols int, init unsafe.Pointer, is int, out unsafe.Pointer, os int")
	masked := v.reg == 'Z'
	if masked {
		a.load("cols", "CX")
		a.gemmColumnMasks(v.bytes/e.packed, 1)
	}
	a.load("k", "CX")
	a.load("a", "SI")
	a.load("as", "R11")
	a.load("b", "DI")
	a.load("bs", "R12")
	a.load("init", "DX")
	a.load("is", "R13")
	acc := func(m, j int) string { return v.r(vecs*m + j) }
	for m := range rows {
		for j := range vecs {
			a.op("VMOVUPS", mem(j*v.bytes, "DX"), acc(m, j))
		}
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
	b := func(j int) string { return v.r(vecs*rows + j) }
	bcast := vecs * (rows + 1) // first register for broadcasts
	a.op("TESTQ", "CX", "CX")
	a.op("JZ", "done")
	a.align()
	a.label("loop")
	for j := range vecs {
		if masked {
			a.op(e.move+".Z", mem(j*v.bytes, "DI"), kreg(1+j), b(j))
		} else {
			a.op(e.move, mem(j*v.bytes, "DI"), b(j))
		}
	}
	for m := range rows {
		t := v.r(bcast + m%min(v.regs-bcast, 4))
		switch {
		case form == "Col":
			a.op(e.bcast, mem(m*e.packed, "SI"), t)
		case m%3 == 0:
			a.op(e.bcast, mem(0, groups[m/3]), t)
		default:
			a.op(e.bcast, memx(0, groups[m/3], "R11", m%3), t)
		}
		for j := range vecs {
			if e == gemmBF16Pair {
				a.vdpbf16ps(b(j), t, acc(m, j))
			} else {
				a.op(e.fma, b(j), t, acc(m, j))
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
		for j := range vecs {
			a.op("VMOVUPS", acc(m, j), mem(j*v.bytes, "DX"))
		}
		a.op("ADDQ", "R13", "DX")
	}
	a.ret()
}

// gemmColumnMasks sets masks k and k+1 to the first CX lanes of two vectors of so many lanes; it uses AX.
func (a *asm) gemmColumnMasks(lanes, k int) {
	a.op("MOVL", "$1", "AX")
	a.op("SHLQ", "CX", "AX")
	a.op("DECQ", "AX")
	a.op("KMOVW", "AX", kreg(k))
	a.op("SHRQ", imm(lanes), "AX")
	a.op("KMOVW", "AX", kreg(k+1))
}
