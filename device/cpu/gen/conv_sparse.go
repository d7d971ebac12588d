package main

import "fmt"

// Behind a 2x2 max pool at most one in four gradients of the convolution's output is not zero, fewer after ReLU and
// dropout. These routines, for 3x3 kernels at stride 1 and C a multiple of 16, touch only those: lists of (offset,
// gradient), built by compressing vectors, drive multiply-adds of whole vectors of input channels.

func genConvSparse(a *asm) {
	for _, e := range []elem{f32, f16, bf16} {
		convStage(a, e)
	}
	convTranspose(a)
	convSparseW(a)
	convSparseX(a)
}

// sparseTaps is the size of the kernel: 3x3.
const sparseTaps = 9

// convStage reads one row of pooled gradients. Per pixel it writes the live gradients (others zero) and their offsets in
// x, adds them to db, and appends four lists, one per position in the window: the number of live output channels, then
// each one's offset in the packed weights. The gradients themselves lie delta bytes behind the offsets.
func convStage(a *asm, e elem) {
	v := avx512
	c := converter{a: a, v: v}
	name := "convStage" + e.name + v.name
	a.fn(name, name+" prepares one row of pooled gradients "+e.name+". Its twin is convStageGo.", "t *convStage")
	a.load("t", "AX")
	for _, f := range [][2]string{{"dy", "SI"}, {"idx", "DI"}, {"grad", "R8"}, {"off", "R9"}, {"list", "R10"}, {"delta", "R11"}, {"n", "R13"}} {
		a.op("MOVQ", "convStage_"+f[0]+"(AX)", f[1])
	}
	const (
		grad, index, offset, tmp, table, xOff, xStep, four, wOff, wLane, wStep = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
		positions                                                              = 20
	)
	a.op("VMOVDQU32", "convStage_windowOff(AX)", v.r(table))
	a.op("VPBROADCASTD", "convStage_xOff(AX)", v.r(xOff))
	a.op("VPBROADCASTD", "convStage_xStep(AX)", v.r(xStep))
	a.op("VMOVDQU32", "convStage_wOff(AX)", v.r(wLane))
	broadcastInt(a, v, 4, four)
	broadcastInt(a, v, 16*sparseTaps*64, wStep)
	for q := range 4 {
		broadcastInt(a, v, q, positions+q)
	}
	a.label("pixel")
	a.op("XORQ", "R12", "R12")
	a.op("MOVQ", "convStage_c(AX)", "CX")
	a.op("MOVQ", "convStage_db(AX)", "DX")
	a.label("vector")
	tailMask(a, "CX", "K1")
	a.op("VMOVDQU8.Z", memx(0, "DI", "R12", 1), "K1", "X1")
	a.op("VPMOVZXBD", "X1", v.r(index))
	c.load(e, memx(0, "SI", "R12", e.bytes), grad, "K1")
	a.op("VPCMPUD", "$1", v.r(four), v.r(index), "K1", "K2") // below 4
	a.op("VPXORD", v.r(tmp), v.r(tmp), v.r(tmp))
	a.op("VCMPPS", "$4", v.r(tmp), v.r(grad), "K2", "K2") // not equal
	a.op("VMOVAPS.Z", v.r(grad), "K2", v.r(grad))
	a.op("VMOVUPS", v.r(grad), memx(0, "R8", "R12", 4))
	a.op("VPERMD", v.r(table), v.r(index), v.r(offset))
	a.op("VPADDD", v.r(xOff), v.r(offset), v.r(offset))
	a.op("VMOVDQU32", v.r(offset), memx(0, "R9", "R12", 4))
	a.op("VADDPS", memx(0, "DX", "R12", 4), v.r(grad), v.r(tmp))
	a.op("VMOVUPS", v.r(tmp), memx(0, "DX", "R12", 4))
	a.op("ADDQ", "$16", "R12")
	a.op("SUBQ", "$16", "CX")
	a.op("JGT", "vector")

	a.op("CMPQ", "convStage_lists(AX)", "$0")
	a.op("JEQ", "nextPixel")
	for q := range 4 {
		loop := fmt.Sprintf("list%d", q)
		a.op("MOVQ", "R10", "DX") // where the count goes
		a.op("ADDQ", "$4", "R10")
		a.op("XORQ", "R12", "R12")
		a.op("MOVQ", "convStage_c(AX)", "CX")
		a.op("VMOVDQA32", v.r(wLane), v.r(wOff))
		a.label(loop)
		tailMask(a, "CX", "K1")
		a.op("VMOVDQU8.Z", memx(0, "DI", "R12", 1), "K1", "X1")
		a.op("VPMOVZXBD", "X1", v.r(index))
		a.op("VMOVUPS", memx(0, "R8", "R12", 4), v.r(grad))
		a.op("VPCMPEQD", v.r(positions+q), v.r(index), "K1", "K2")
		a.op("VPTESTMD", v.r(grad), v.r(grad), "K2", "K2") // dead ones were stored as plus zero
		a.op("VCOMPRESSPS.Z", v.r(grad), "K2", v.r(tmp))
		a.op("VPCOMPRESSD.Z", v.r(wOff), "K2", v.r(offset))
		a.op("VMOVDQU32", v.r(offset), mem(0, "R10"))
		a.op("VMOVUPS", v.r(tmp), memx(0, "R10", "R11", 1))
		a.op("KMOVW", "K2", "BX")
		a.op("POPCNTL", "BX", "BX")
		a.op("LEAQ", memx(0, "R10", "BX", 4), "R10")
		a.op("VPADDD", v.r(wStep), v.r(wOff), v.r(wOff))
		a.op("ADDQ", "$16", "R12")
		a.op("SUBQ", "$16", "CX")
		a.op("JGT", loop)
		a.op("MOVQ", "R10", "BX")
		a.op("SUBQ", "DX", "BX")
		a.op("SHRQ", "$2", "BX")
		a.op("DECQ", "BX")
		a.op("MOVL", "BX", mem(0, "DX"))
	}
	a.label("nextPixel")
	a.op("VPADDD", v.r(xStep), v.r(xOff), v.r(xOff))
	a.op("ADDQ", "convStage_dyPix(AX)", "SI")
	a.op("ADDQ", "convStage_idxPix(AX)", "DI")
	a.op("ADDQ", "convStage_pix(AX)", "R8")
	a.op("ADDQ", "convStage_pix(AX)", "R9")
	a.op("DECQ", "R13")
	a.op("JNZ", "pixel")
	a.op("MOVQ", "R10", "convStage_list(AX)")
	a.ret()
}

// convTranspose transposes a matrix of 32-bit elements in blocks of 16 by 16.
func convTranspose(a *asm) {
	v := avx512
	a.fn("convTransposeAVX512", "convTransposeAVX512 is dst[j][i] = src[i][j] for 32-bit elements, 16·rows rows i and 16·cols columns j; line and\ndstLine are bytes between rows. Its twin is convTransposeGo.",
		"dst, src unsafe.Pointer, rows, cols, dstLine, line int")
	a.load("dst", "DI")
	a.load("src", "SI")
	a.load("dstLine", "R8")
	a.load("line", "R9")
	a.load("rows", "R11")
	a.label("rowBlock")
	a.load("cols", "R12")
	a.op("MOVQ", "SI", "R10")
	a.op("MOVQ", "DI", "R13")
	a.label("colBlock")
	a.op("MOVQ", "R10", "DX")
	for i := range 16 {
		a.op("VMOVUPS", mem(0, "DX"), v.r(i))
		if i < 15 {
			a.op("ADDQ", "R9", "DX")
		}
	}
	// Pairs of rows, then fours, within 128-bit lanes; then the lanes.
	two := func(lo, hi string, in, out int, pair func(k int) (int, int)) {
		for k := range 8 {
			x, y := pair(k)
			a.op(lo, v.r(in+y), v.r(in+x), v.r(out+2*k))
			a.op(hi, v.r(in+y), v.r(in+x), v.r(out+2*k+1))
		}
	}
	two("VUNPCKLPS", "VUNPCKHPS", 0, 16, func(k int) (int, int) { return 2 * k, 2*k + 1 })
	// 16+2k, 16+2k+1: columns 0,1 and 2,3 of rows 2k, 2k+1
	two("VUNPCKLPD", "VUNPCKHPD", 16, 0, func(k int) (int, int) { return k/2*4 + k%2, k/2*4 + k%2 + 2 })
	// 4g+c (c = 0..3): column c of each 128-bit lane, rows 4g..4g+3
	for g := range 2 {
		for c := range 4 {
			x, y := v.r(8*g+c), v.r(8*g+4+c)
			a.op("VSHUFF32X4", "$0x88", y, x, v.r(16+8*g+c))   // lanes 0, 2: columns c, 8+c of rows 8g..8g+7
			a.op("VSHUFF32X4", "$0xdd", y, x, v.r(16+8*g+4+c)) // lanes 1, 3: columns 4+c, 12+c
		}
	}
	for c := range 8 {
		x, y := v.r(16+c), v.r(24+c)
		a.op("VSHUFF32X4", "$0x88", y, x, v.r(c))   // column c
		a.op("VSHUFF32X4", "$0xdd", y, x, v.r(8+c)) // column 8+c
	}
	a.op("MOVQ", "R13", "DX")
	for j := range 16 {
		a.op("VMOVUPS", v.r(j), mem(0, "DX"))
		a.op("ADDQ", "R8", "DX")
	}
	a.op("MOVQ", "DX", "R13")
	a.op("ADDQ", "$64", "R10")
	a.op("DECQ", "R12")
	a.op("JNZ", "colBlock")
	a.op("MOVQ", "R9", "BX")
	a.op("SHLQ", "$4", "BX")
	a.op("ADDQ", "BX", "SI")
	a.op("ADDQ", "$64", "DI")
	a.op("DECQ", "R11")
	a.op("JNZ", "rowBlock")
	a.ret()
}

// convSparseW adds to dw [OC][3][3][C] the products of the live gradients of one band, output channel by output channel.
// A body keeps rows·vecs vectors of one channel's dw in registers.
func convSparseW(a *asm) {
	v := avx512
	const name = "convSparseWAVX512"
	a.fn(name, name+" adds t.rows kernel rows by t.vecs vectors of dw. Its twin is convSparseWGo.", "t *convSparseW")
	type body struct{ rows, vecs int }
	var bodies []body
	for n := 3; n <= 9; n += 3 {
		bodies = append(bodies, body{3, n})
	}
	for n := 3; n <= 24; n += 3 {
		bodies = append(bodies, body{1, n})
	}
	a.load("t", "AX")
	for _, f := range [][2]string{{"x", "SI"}, {"grad", "R8"}, {"off", "R9"}, {"dw", "DX"}, {"line", "BX"}, {"n", "R13"}} {
		a.op("MOVQ", "convSparseW_"+f[0]+"(AX)", f[1])
	}
	// Compress one output channel's gradients into a list: offsets, and gradients 4·listLen bytes behind.
	a.label("channel")
	a.op("MOVQ", "convSparseW_list(AX)", "DI")
	a.op("MOVQ", "convSparseW_delta(AX)", "R11")
	a.op("XORQ", "R12", "R12")
	a.op("XORQ", "R10", "R10")
	a.label("compress")
	a.op("VMOVUPS", memx(0, "R8", "R12", 1), v.r(0))
	a.op("VMOVDQU32", memx(0, "R9", "R12", 1), v.r(1))
	a.op("VPTESTMD", v.r(0), v.r(0), "K1")
	a.op("VCOMPRESSPS.Z", v.r(0), "K1", v.r(0))
	a.op("VPCOMPRESSD.Z", v.r(1), "K1", v.r(1))
	a.op("LEAQ", memx(0, "DI", "R10", 4), "CX")
	a.op("VMOVDQU32", v.r(1), mem(0, "CX"))
	a.op("VMOVUPS", v.r(0), memx(0, "CX", "R11", 1))
	a.op("KMOVW", "K1", "CX")
	a.op("POPCNTL", "CX", "CX")
	a.op("ADDQ", "CX", "R10")
	a.op("ADDQ", "$64", "R12")
	a.op("CMPQ", "R12", "convSparseW_pix(AX)")
	a.op("JLT", "compress")
	a.op("TESTQ", "R10", "R10")
	a.op("JEQ", "next")
	a.op("MOVQ", "convSparseW_body(AX)", "CX")
	for _, b := range bodies[1:] {
		a.op("CMPQ", "CX", imm(b.rows*100+b.vecs))
		a.op("JEQ", fmt.Sprintf("b%dx%d", b.rows, b.vecs))
	}
	for _, b := range bodies {
		a.label(fmt.Sprintf("b%dx%d", b.rows, b.vecs))
		at := func(i int) string { return mem(64*i, "DX") }
		for i := range b.rows * b.vecs {
			a.op("VMOVUPS", at(i), v.r(i))
		}
		loop := fmt.Sprintf("loop%dx%d", b.rows, b.vecs)
		a.align()
		a.label(loop)
		a.op("MOVLQSX", mem(0, "DI"), "R12")
		a.op("VBROADCASTSS", memx(0, "DI", "R11", 1), v.r(31))
		a.op("ADDQ", "SI", "R12")
		for r := range b.rows {
			for j := range b.vecs {
				src := mem(64*j, "R12")
				if r > 0 {
					src = memx(64*j, "R12", "BX", r)
				}
				a.op("VFMADD231PS", src, v.r(31), v.r(r*b.vecs+j))
			}
		}
		a.op("ADDQ", "$4", "DI")
		a.op("DECQ", "R10")
		a.op("JNZ", loop)
		for i := range b.rows * b.vecs {
			a.op("VMOVUPS", v.r(i), at(i))
		}
		a.op("JMP", "next")
	}
	a.label("next")
	a.op("ADDQ", "convSparseW_pix(AX)", "R8")
	a.op("ADDQ", "convSparseW_pix(AX)", "R9")
	a.op("ADDQ", "convSparseW_dwStep(AX)", "DX")
	a.op("DECQ", "R13")
	a.op("JNZ", "channel")
	a.ret()
}

// convSparseX adds to 16 channels of dx: for each pooled pixel the 4x4 inputs that its windows cover stay in registers
// while the four lists of live gradients go by.
func convSparseX(a *asm) {
	v := avx512
	const name = "convSparseXAVX512"
	a.fn(name, name+" adds to 16 channels of dx. Its twin is convSparseXGo.", "t *convSparseX")
	a.load("t", "AX")
	for _, f := range [][2]string{{"dx", "R8"}, {"w", "SI"}, {"list", "DI"}, {"delta", "DX"}, {"pix", "BX"}} {
		a.op("MOVQ", "convSparseX_"+f[0]+"(AX)", f[1])
	}
	a.op("LEAQ", memx(0, "BX", "BX", 2), "R12")
	a.label("row")
	a.op("MOVQ", "convSparseX_line(AX)", "CX")
	a.op("LEAQ", memx(0, "R8", "CX", 1), "R9")
	a.op("LEAQ", memx(0, "R9", "CX", 1), "R10")
	a.op("LEAQ", memx(0, "R10", "CX", 1), "R11")
	a.op("MOVQ", "convSparseX_cols(AX)", "CX")
	a.op("MOVQ", "CX", "convSparseX_col(AX)")
	a.label("pixel")
	rows := []string{"R8", "R9", "R10", "R11"}
	each := func(f func(reg int, at string)) {
		for r, base := range rows {
			f(4*r, mem(0, base))
			f(4*r+1, memx(0, base, "BX", 1))
			f(4*r+2, memx(0, base, "BX", 2))
			f(4*r+3, memx(0, base, "R12", 1))
		}
	}
	each(func(reg int, at string) { a.op("VMOVUPS", at, v.r(reg)) })
	for q := range 4 {
		loop, end := fmt.Sprintf("list%d", q), fmt.Sprintf("end%d", q)
		a.op("MOVLQSX", mem(0, "DI"), "CX")
		a.op("ADDQ", "$4", "DI")
		a.op("TESTQ", "CX", "CX")
		a.op("JEQ", end)
		a.align()
		a.label(loop)
		a.op("MOVLQSX", mem(0, "DI"), "R13")
		a.op("VBROADCASTSS", memx(0, "DI", "DX", 1), v.r(31))
		a.op("ADDQ", "SI", "R13")
		for tap := range sparseTaps {
			a.op("VFMADD231PS", mem(64*tap, "R13"), v.r(31), v.r((q/2+tap/3)*4+q%2+tap%3))
		}
		a.op("ADDQ", "$4", "DI")
		a.op("DECQ", "CX")
		a.op("JNZ", loop)
		a.label(end)
	}
	each(func(reg int, at string) { a.op("VMOVUPS", v.r(reg), at) })
	for _, r := range rows {
		a.op("LEAQ", memx(0, r, "BX", 2), r)
	}
	a.op("DECQ", "convSparseX_col(AX)")
	a.op("JNZ", "pixel")
	a.op("ADDQ", "convSparseX_jump(AX)", "R8")
	a.op("DECQ", "convSparseX_rows(AX)")
	a.op("JNZ", "row")
	a.ret()
}
