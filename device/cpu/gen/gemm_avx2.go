package main

// gemmPackPanels6 writes the packing of k rows into so many panels of 6 float32 columns.
func (a *asm) gemmPackPanels6() {
	a.fn("gemmPackPanels6AVX2", "gemmPackPanels6AVX2 packs whole panels of 6 columns; its twin is gemmPackPanels.\n"+
		"It reads 2 columns and writes 2 elements beyond the last panel's.", "dst, src unsafe.Pointer, ds, ss, k, panels int")
	a.load("dst", "DI")
	a.load("src", "SI")
	a.load("ds", "R8")
	a.load("ss", "R9")
	a.load("k", "R10")
	a.load("panels", "R11")
	a.label("row")
	a.op("MOVQ", "SI", "BX")
	a.op("MOVQ", "DI", "DX")
	a.op("MOVQ", "R11", "CX")
	a.label("panel")
	a.op("PREFETCHT0", "(BX)(R9*8)")
	a.op("VMOVUPS", "(BX)", "Y0")
	a.op("VMOVUPS", "Y0", "(DX)")
	a.op("ADDQ", "$24", "BX")
	a.op("ADDQ", "R8", "DX")
	a.op("DECQ", "CX")
	a.op("JNZ", "panel")
	a.op("ADDQ", "R9", "SI")
	a.op("ADDQ", "$24", "DI")
	a.op("DECQ", "R10")
	a.op("JNZ", "row")
	a.ret()
}

// gemmTranspose8 writes the transposition of 8 rows of k float32, a multiple of 8, into a panel of 16 columns.
func (a *asm) gemmTranspose8() {
	a.fn("gemmTranspose8AVX2", "gemmTranspose8AVX2 is dst[16*i+r] = src[r][i] for 8 rows r, ss bytes apart, and i below k, a multiple of 8;\n"+
		"its twin is gemmPackTransposed.", "dst, src unsafe.Pointer, ss, k int")
	a.load("dst", "DI")
	a.load("src", "SI")
	a.load("ss", "R9")
	a.load("k", "CX")
	a.op("SHRQ", "$3", "CX")
	a.op("JZ", "end")
	y := avx2.r
	a.op("LEAQ", "(R9)(R9*2)", "R10")
	a.op("LEAQ", "(SI)(R9*4)", "R8")
	a.label("loop")
	for half, p := range []string{"SI", "R8"} {
		for i, m := range []string{mem(0, p), memx(0, p, "R9", 1), memx(0, p, "R9", 2), memx(0, p, "R10", 1)} {
			a.op("VMOVUPS", m, y(4*half+i))
		}
	}
	for r := 0; r < 8; r += 4 { // within 128-bit lanes: four rows by four columns
		a.op("VUNPCKLPS", y(r+1), y(r), y(8+r))
		a.op("VUNPCKHPS", y(r+1), y(r), y(9+r))
		a.op("VUNPCKLPS", y(r+3), y(r+2), y(10+r))
		a.op("VUNPCKHPS", y(r+3), y(r+2), y(11+r))
		a.op("VUNPCKLPD", y(10+r), y(8+r), y(r))
		a.op("VUNPCKHPD", y(10+r), y(8+r), y(r+1))
		a.op("VUNPCKLPD", y(11+r), y(9+r), y(r+2))
		a.op("VUNPCKHPD", y(11+r), y(9+r), y(r+3))
	}
	for c := range 4 {
		a.op("VPERM2F128", "$0x20", y(4+c), y(c), y(8+c))
		a.op("VPERM2F128", "$0x31", y(4+c), y(c), y(12+c))
		a.op("VMOVUPS", y(8+c), mem(64*c, "DI"))
		a.op("VMOVUPS", y(12+c), mem(64*(4+c), "DI"))
	}
	a.op("ADDQ", "$32", "SI")
	a.op("ADDQ", "$32", "R8")
	a.op("ADDQ", "$512", "DI")
	a.op("DECQ", "CX")
	a.op("JNZ", "loop")
	a.label("end")
	a.ret()
}
