package main

import "fmt"

// Passes over pixels: conversions between storage and float32 scratch, with ReLU's mask folded in, and sums.

// genConvRows writes copies of every kind, column sums, pixel pairs, and the sum of accumulators.
func genConvRows(a *asm) {
	for _, c := range []converter{{a: a, v: avx512, consts: 28}, {a: a, v: avx2, consts: 12}} {
		for _, p := range [][2]elem{{f32, f32}, {f16, f32}, {bf16, f32}, {f32, f16}, {f32, bf16}} {
			convRows(c, p[0], p[1], false, c.v.name)
			convRows(c, p[0], p[1], true, c.v.name)
		}
		convColSum(c, f32)
		convSumAcc(a, c.v)
	}
	bf := converter{a: a, v: avx512, bf16Asm: true}
	convRows(bf, f32, bf16, false, "AVX512BF16")
	convRows(bf, f32, bf16, true, "AVX512BF16")
	convRows(bf, bf16, bf16, false, "AVX512")
	convRows(bf, bf16, bf16, true, "AVX512")
	convColSum(bf, bf16)
	convPairs(a)
}

// convRows copies n pixels of c channels from one element type to another. With a mask, channels whose mask element, of
// the narrower type, is not above zero become zero.
func convRows(c converter, src, dst elem, masked bool, suffix string) {
	a, v := c.a, c.v
	name := "convRows" + src.name + dst.name
	doc := fmt.Sprintf("%%s copies t.n pixels of t.c channels, %s to %s.", src.name, dst.name)
	if masked {
		name += "Mask"
		doc = fmt.Sprintf("%%s copies t.n pixels of t.c channels, %s to %s, where t.mask > 0; zero elsewhere.", src.name, dst.name)
	}
	name += suffix
	doc = fmt.Sprintf(doc, name) + " Its twin is convRowsGo."
	if v.regs == 16 {
		doc += "\nt.c is a multiple of 8."
	}
	a.fn(name, doc, "t *convRows")
	maskElem := src
	if dst.bytes < src.bytes {
		maskElem = dst
	}
	a.load("t", "AX")
	a.op("MOVQ", "convRows_n(AX)", "R11")
	c.setup(dst)
	if masked {
		a.op(xorOp(v), v.r(8), v.r(8), v.r(8))
	}
	a.label("pixel")
	a.op("MOVQ", "convRows_src(AX)", "SI")
	a.op("MOVQ", "convRows_dst(AX)", "DI")
	a.op("MOVQ", "convRows_mask(AX)", "R8")
	for _, r := range [][2]string{{"srcPix", "SI"}, {"dstPix", "DI"}, {"maskPix", "R8"}} {
		a.op("MOVQ", "convRows_n(AX)", "BX")
		a.op("SUBQ", "R11", "BX")
		a.op("IMULQ", "convRows_"+r[0]+"(AX)", "BX")
		a.op("ADDQ", "BX", r[1])
	}
	a.op("MOVQ", "convRows_c(AX)", "CX")
	body := func(mask string) {
		reg := 0
		if src == bf16 && dst == bf16 { // 16-bit lanes go through unchanged
			if masked {
				c.load(bf16, mem(0, "R8"), 1, mask)
				a.op("VCMPPS", "$14", v.r(8), v.r(1), "K2") // greater, quiet or not: a NaN is not above zero
			} else {
				a.op("KXNORW", "K2", "K2", "K2")
			}
			if mask != "" {
				a.op("KANDW", mask, "K2", "K2")
				a.op("VMOVDQU16.Z", mem(0, "SI"), "K2", v.half(reg))
				a.op("VMOVDQU16", v.half(reg), mask, mem(0, "DI"))
				return
			}
			a.op("VMOVDQU16.Z", mem(0, "SI"), "K2", v.half(reg))
			a.op("VMOVDQU16", v.half(reg), mem(0, "DI"))
			return
		}
		c.load(src, mem(0, "SI"), reg, mask)
		if masked {
			c.load(maskElem, mem(0, "R8"), 1, mask)
			if v.regs == 32 {
				a.op("VCMPPS", "$14", v.r(8), v.r(1), "K2")
				a.op("VMOVAPS.Z", v.r(reg), "K2", v.r(reg))
			} else {
				a.op("VCMPPS", "$14", v.r(8), v.r(1), v.r(1))
				a.op("VANDPS", v.r(1), v.r(reg), v.r(reg))
			}
		}
		c.store(dst, reg, 2, mem(0, "DI"), mask)
	}
	a.op("SUBQ", imm(v.lanes), "CX")
	a.op("JLT", "tail")
	a.label("vector")
	body("")
	a.op("ADDQ", imm(v.lanes*src.bytes), "SI")
	a.op("ADDQ", imm(v.lanes*dst.bytes), "DI")
	a.op("ADDQ", imm(v.lanes*maskElem.bytes), "R8")
	a.op("SUBQ", imm(v.lanes), "CX")
	a.op("JGE", "vector")
	a.label("tail")
	if v.regs == 32 {
		a.op("ADDQ", imm(v.lanes), "CX")
		a.op("JEQ", "next")
		tailMask(a, "CX", "K1")
		body("K1")
		a.label("next")
	}
	a.op("DECQ", "R11")
	a.op("JNZ", "pixel")
	a.ret()
}

func xorOp(v isa) string {
	if v.regs == 32 {
		return "VPXORD"
	}
	return "VPXOR"
}

// convColSum adds n pixels to a vector of float32 sums, channel by channel.
func convColSum(c converter, e elem) {
	a, v := c.a, c.v
	name := "convColSum" + e.name + v.name
	a.fn(name, fmt.Sprintf("%s is sum[o] += x[i·pix+o] over n pixels i, for vecs vectors of %d channels o. Its twin is convColSumGo.", name, v.lanes),
		"sum, x unsafe.Pointer, n, vecs, pix int")
	a.load("sum", "DI")
	a.load("x", "DX")
	a.load("vecs", "R11")
	a.load("pix", "R8")
	a.label("vector")
	a.op("VMOVUPS", mem(0, "DI"), v.r(0))
	a.op("MOVQ", "DX", "SI")
	a.load("n", "CX")
	a.label("pixel")
	c.load(e, mem(0, "SI"), 1, "")
	a.op("VADDPS", v.r(1), v.r(0), v.r(0))
	a.op("ADDQ", "R8", "SI")
	a.op("DECQ", "CX")
	a.op("JNZ", "pixel")
	a.op("VMOVUPS", v.r(0), mem(0, "DI"))
	a.op("ADDQ", imm(v.bytes), "DI")
	a.op("ADDQ", imm(v.lanes*e.bytes), "DX")
	a.op("DECQ", "R11")
	a.op("JNZ", "vector")
	a.ret()
}

// convSumAcc sums count accumulators in order.
func convSumAcc(a *asm, v isa) {
	name := "convSumAcc" + v.name
	a.fn(name, fmt.Sprintf("%s is dst[i] = sum over j of src[j·stride+i] for vecs vectors of %d elements, stride in bytes. Its twin is convSumAccGo.", name, v.lanes),
		"dst, src unsafe.Pointer, vecs, stride, count int")
	a.load("dst", "DI")
	a.load("src", "DX")
	a.load("vecs", "R11")
	a.load("stride", "R8")
	a.label("vector")
	a.op("VMOVUPS", mem(0, "DX"), v.r(0))
	a.op("MOVQ", "DX", "SI")
	a.load("count", "CX")
	a.op("DECQ", "CX")
	a.op("JEQ", "done")
	a.label("term")
	a.op("ADDQ", "R8", "SI")
	a.op("VADDPS", mem(0, "SI"), v.r(0), v.r(0))
	a.op("DECQ", "CX")
	a.op("JNZ", "term")
	a.label("done")
	a.op("VMOVUPS", v.r(0), mem(0, "DI"))
	a.op("ADDQ", imm(v.bytes), "DI")
	a.op("ADDQ", imm(v.bytes), "DX")
	a.op("DECQ", "R11")
	a.op("JNZ", "vector")
	a.ret()
}

// convPairs interleaves two rows of 16-bit elements.
func convPairs(a *asm) {
	v := avx512
	a.fn("convPairsAVX512", "convPairsAVX512 is dst[i] = lo[i] | hi[i]<<16 for n 16-bit elements. Its twin is convPairsGo.", "dst, lo, hi unsafe.Pointer, n int")
	a.load("dst", "DI")
	a.load("lo", "SI")
	a.load("hi", "R8")
	a.load("n", "CX")
	body := func(mask string) {
		if mask == "" {
			a.op("VPMOVZXWD", mem(0, "SI"), v.r(0))
			a.op("VPMOVZXWD", mem(0, "R8"), v.r(1))
		} else {
			a.op("VMOVDQU16.Z", mem(0, "SI"), mask, v.half(0))
			a.op("VMOVDQU16.Z", mem(0, "R8"), mask, v.half(1))
			a.op("VPMOVZXWD", v.half(0), v.r(0))
			a.op("VPMOVZXWD", v.half(1), v.r(1))
		}
		a.op("VPSLLD", "$16", v.r(1), v.r(1))
		a.op("VPORD", v.r(1), v.r(0), v.r(0))
		if mask == "" {
			a.op("VMOVDQU32", v.r(0), mem(0, "DI"))
		} else {
			a.op("VMOVDQU32", v.r(0), mask, mem(0, "DI"))
		}
	}
	a.op("SUBQ", "$16", "CX")
	a.op("JLT", "tail")
	a.label("vector")
	body("")
	a.op("ADDQ", "$32", "SI")
	a.op("ADDQ", "$32", "R8")
	a.op("ADDQ", "$64", "DI")
	a.op("SUBQ", "$16", "CX")
	a.op("JGE", "vector")
	a.label("tail")
	a.op("ADDQ", "$16", "CX")
	a.op("JEQ", "done")
	tailMask(a, "CX", "K1")
	body("K1")
	a.label("done")
	a.ret()
}
