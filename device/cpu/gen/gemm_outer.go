package main

// gemmOuter writes the product of a column and a row: the weight gradient of a linear layer at batch 1.
func (a *asm) gemmOuter() {
	v := avx512
	a.fn("gemmOuterF32"+v.name, "gemmOuterF32"+v.name+" is c[i·stride+j] = 0 + x[i]·y[j] for i < m and j < cols ≤ 16; stride is in bytes. Its twin is gemmOuterGo.",
		"c, x, y unsafe.Pointer, m, cols, stride int")
	a.load("cols", "CX")
	a.gemmColumnMasks(16, 1)
	a.load("c", "DI")
	a.load("x", "SI")
	a.load("y", "DX")
	a.load("m", "CX")
	a.load("stride", "R8")
	a.op("VPXORD", "Z2", "Z2", "Z2")
	a.op("VMOVUPS.Z", mem(0, "DX"), kreg(1), "Z0")
	a.align()
	a.label("loop")
	a.op("VMULPS.BCST", mem(0, "SI"), "Z0", "Z1")
	a.op("VADDPS", "Z2", "Z1", "Z1")
	a.op("VMOVUPS", "Z1", kreg(1), mem(0, "DI"))
	a.op("ADDQ", imm(4), "SI")
	a.op("ADDQ", "R8", "DI")
	a.op("DECQ", "CX")
	a.op("JNZ", "loop")
	a.ret()
}
