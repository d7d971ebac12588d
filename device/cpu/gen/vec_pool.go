package main

// maxPools writes the 2x2 max pool of stride 2, one row of windows at a time, n channels a pixel.
func (e *vecEmitter) maxPools() {
	e.maxPool()
	e.maxPoolGrad()
}

// windows runs body for each window of a row and its n channels, and ends the routine. After a window the registers in one,
// two and bytes go on by one pixel, by two, and by as many bytes as a pixel has channels. R9 is the size of a pixel in bytes.
func (e *vecEmitter) windows(one, two []string, bytes string, body func()) {
	e.op("MOVQ", "CX", "R13")
	e.op("LEAQ", memx(0, "R13", "R13", 1), "R9")
	e.op("ADDQ", "R9", "R9")
	e.load("windows", "R10")
	window := e.newLabel("window")
	e.label(window)
	e.op("MOVQ", "R13", "CX")
	e.each(e.lanes, body)
	for _, reg := range one {
		e.op("ADDQ", "R9", reg)
	}
	for _, reg := range two {
		e.op("LEAQ", memx(0, reg, "R9", 2), reg)
	}
	e.op("ADDQ", "R13", bytes)
	e.op("DECQ", "R10")
	e.op("JNZ", window)
	e.ret()
}

// windowAt is the current vector at position k of the window whose rows start at row0 and row1. It uses R11.
func (e *vecEmitter) windowAt(k int, row0, row1 string) string {
	row := []string{row0, row1}[k/2]
	if k%2 == 0 {
		return e.at(row, 4)
	}
	e.op("LEAQ", memx(0, row, "R9", 1), "R11")
	return e.at("R11", 4)
}

// maxPool takes the maximum and its position in row-major order: a later value wins where it is greater or a NaN.
func (e *vecEmitter) maxPool() {
	e.routine("maxPool2x2", "is one row of y and, unless it is nil, of idx from two rows of x; its twin is ref.MaxPool2D.",
		"y, idx, x0, x1", "windows int", "DI", "DX", "SI", "BX")
	const best, arg, x, nan, number = 0, 1, 2, 3, 4 // numbers 1, 2, 3 from the last one on
	for k := 1; k < 4; k++ {
		e.broadcast(uint32(k), number+k-1)
	}
	e.op("MOVQ", "DX", "R12")
	e.windows([]string{"DI"}, []string{"SI", "BX"}, "DX", func() {
		e.getAt(float32s, e.windowAt(0, "SI", "BX"), best)
		e.clear(arg)
		for k := 1; k < 4; k++ {
			e.getAt(float32s, e.windowAt(k, "SI", "BX"), x)
			if e.wide() {
				e.op("VCMPPS", imm(greater), e.r(best), e.r(x), "K2")
				e.op("VCMPPS", imm(unordered), e.r(x), e.r(x), "K3")
				e.op("KORW", "K2", "K3", "K2")
				e.op("VMOVAPS", e.r(x), "K2", e.r(best))
				e.op("VMOVDQA32", e.r(number+k-1), "K2", e.r(arg))
				continue
			}
			wins := e.r(e.tmp(0))
			e.op("VCMPPS", imm(greater), e.r(best), e.r(x), wins)
			e.op("VCMPPS", imm(unordered), e.r(x), e.r(x), e.r(nan))
			e.op("VPOR", e.r(nan), wins, wins)
			e.op("VBLENDVPS", wins, e.r(x), e.r(best), e.r(best))
			e.op("VBLENDVPS", wins, e.r(number+k-1), e.r(arg), e.r(arg))
		}
		e.put(float32s, best, "DI")
		skip := e.newLabel("skip")
		e.op("TESTQ", "R12", "R12")
		e.op("JZ", skip)
		e.putBytes(arg, nan, "DX")
		e.label(skip)
	})
}

// maxPoolGrad writes all four gradients of each window: dy at the maximum, zero elsewhere. The reference adds dy to zero,
// which makes -0 to 0; so does this.
func (e *vecEmitter) maxPoolGrad() {
	e.routine("maxPoolGrad2x2", "is two rows of dx from one row of idx and dy; its twin is ref.MaxPool2DGrad.",
		"dx0, dx1, idx, dy", "windows int", "DI", "SI", "DX", "BX")
	const dy, arg, out, number = 0, 1, 2, 4
	for k := range 4 {
		e.broadcast(uint32(k), number+k)
	}
	e.windows([]string{"BX"}, []string{"DI", "SI"}, "DX", func() {
		e.get(float32s, "BX", dy)
		e.addv(dy, dy, number) // 0, for -0
		e.get(uint8s, "DX", arg)
		for k := range 4 {
			to := e.windowAt(k, "DI", "SI")
			if e.wide() {
				e.op("VPCMPEQD", e.r(number+k), e.r(arg), "K2")
				e.op("VMOVAPS.Z", e.r(dy), "K2", e.r(out))
			} else {
				e.op("VPCMPEQD", e.r(number+k), e.r(arg), e.r(out))
				e.op("VPAND", e.r(dy), e.r(out), e.r(out))
			}
			e.putAt(float32s, out, to)
		}
	})
}

// putBytes stores the lanes of register i, small numbers, as bytes.
func (e *vecEmitter) putBytes(i, tmp int, ptr string) {
	if e.wide() {
		e.write("VPMOVDB", e.r(i), e.at(ptr, 1))
		return
	}
	x, t := e.half(i), e.half(tmp)
	e.op("VEXTRACTI128", "$1", e.r(i), t)
	e.op("VPACKUSDW", t, x, x)
	e.op("VPACKUSWB", x, x, x)
	e.op("VMOVQ", x, e.at(ptr, 1))
}
