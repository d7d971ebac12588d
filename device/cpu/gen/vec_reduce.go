package main

// reductions writes the sums.
func (e *vecEmitter) reductions() {
	for _, d := range floats {
		e.sumColumns(d)
		e.gradStats(d)
	}
}

// sumColumns keeps the sums of a block of columns in registers and goes down the rows: each sum is in row order.
func (e *vecEmitter) sumColumns(d dtype) {
	e.routine("sumColumns"+d.name, "is sum[j] += x[i][j] for n columns and the rows i in order, stride bytes apart;\nits twin is codec.sumColumns.",
		"sum, x", "rows, stride int", "DI", "SI")
	e.columns(e.lanes, 4, func(vectors int) {
		sum := func(v int) string { return memx(v*e.bytes, "DI", "R8", 4) }
		for v := range vectors {
			e.getAt(float32s, sum(v), v)
		}
		e.rows([]rowPointer{{"SI", "R9", d.size}}, func() {
			for v := range vectors {
				e.getAt(d, mem(v*e.lanes*d.size, "R9"), vectors+v)
				e.addv(v, v, vectors+v)
			}
		})
		for v := range vectors {
			e.putAt(float32s, v, sum(v))
		}
	})
}

// columns runs block for n columns, so many vectors of so many lanes at a time and the last ones singly, and ends the
// routine. The parameters rows and stride, in bytes, are in DX and BX.
func (e *vecEmitter) columns(lanes, vectors int, block func(vectors int)) {
	e.load("rows", "DX")
	e.load("stride", "BX")
	e.op("XORQ", "R8", "R8")
	many, single := e.newLabel("many"), e.newLabel("single")
	e.label(many)
	e.op("CMPQ", "CX", imm(vectors*lanes))
	e.op("JLT", single)
	block(vectors)
	e.op("ADDQ", imm(vectors*lanes), "R8")
	e.op("SUBQ", imm(vectors*lanes), "CX")
	e.op("JMP", many)
	e.label(single)
	e.rest(lanes, func() { block(1) })
	e.ret()
}

// rowPointer is a register that goes down the rows of the matrix at base, from the current column on.
type rowPointer struct {
	base, reg string
	size      int // of an element
}

// rows runs body for each of the DX rows, at least one.
func (e *vecEmitter) rows(pointers []rowPointer, body func()) {
	for _, p := range pointers {
		e.op("LEAQ", e.at(p.base, p.size), p.reg)
	}
	e.op("MOVQ", "DX", "R10")
	row := e.newLabel("row")
	e.label(row)
	body()
	for _, p := range pointers {
		e.op("ADDQ", "BX", p.reg)
	}
	e.op("DECQ", "R10")
	e.op("JNZ", row)
}

// gradStats sums in float64 lanes. A product of two float32 numbers is exact in float64, so a multiply-add rounds once
// as the twin does; only the order of the sum differs.
func (e *vecEmitter) gradStats(d dtype) {
	e.routine("gradStats"+d.name, "adds the sum of (float32(x)*inv)² to the float64 at squares and sets the int32\n"+
		"at bad to 1 when an x is not finite; its twin is codec.gradStats.", "x, squares, bad", "inv float32", "SI", "DI", "DX")
	const low, high, inv, exponent, badBits = 4, 5, 6, 7, 8
	for _, i := range []int{low, high, badBits} {
		e.clear(i)
	}
	e.op("VBROADCASTSS", e.arg("inv"), e.r(inv))
	if e.wide() {
		e.op("KXORW", "K3", "K3", "K3")
	} else {
		e.broadcast(0x7f800000, exponent)
	}
	e.each(e.lanes, func() {
		e.get(d, "SI", 0)
		if e.wide() {
			e.op("VFPCLASSPSZ", "$0x99", e.r(0), "K2") // NaN of both kinds, infinity of both signs
			e.op("KORW", "K2", "K3", "K3")
		} else {
			e.op("VPAND", e.r(exponent), e.r(0), e.r(1))
			e.op("VPCMPEQD", e.r(exponent), e.r(1), e.r(1))
			e.op("VPOR", e.r(1), e.r(badBits), e.r(badBits))
		}
		e.op("VMULPS", e.r(inv), e.r(0), e.r(0))
		e.widenHalves(0, 1, 2)
		e.op("VFMADD231PD", e.r(1), e.r(1), e.r(low))
		e.op("VFMADD231PD", e.r(2), e.r(2), e.r(high))
	})
	ok := e.newLabel("finite")
	if e.wide() {
		e.op("KORTESTW", "K3", "K3")
	} else {
		e.op("VPTEST", e.r(badBits), e.r(badBits))
	}
	e.op("JZ", ok)
	e.op("MOVL", "$1", "(DX)")
	e.label(ok)
	e.op("VADDPD", e.r(high), e.r(low), e.r(low))
	e.sumFloat64(low, high)
	e.op("VADDSD", "(DI)", "X4", "X4")
	e.op("VMOVSD", "X4", "(DI)")
	e.ret()
}

// widenHalves converts the lower and upper halves of a float32 register to float64.
func (e *vecEmitter) widenHalves(x, low, high int) {
	if e.wide() {
		e.op("VEXTRACTF64X4", "$1", e.r(x), e.half(high))
	} else {
		e.op("VEXTRACTF128", "$1", e.r(x), e.half(high))
	}
	e.op("VCVTPS2PD", e.half(x), e.r(low))
	e.op("VCVTPS2PD", e.half(high), e.r(high))
}

// sumFloat64 adds all lanes of a register into its lowest one.
func (e *vecEmitter) sumFloat64(i, tmp int) {
	x, t := avx512.r(i), avx512.r(tmp)
	part := func(letter, reg string) string { return letter + reg[1:] }
	if e.wide() {
		e.op("VEXTRACTF64X4", "$1", x, part("Y", t))
		e.op("VADDPD", part("Y", t), part("Y", x), part("Y", x))
	}
	e.op("VEXTRACTF128", "$1", part("Y", x), part("X", t))
	e.op("VADDPD", part("X", t), part("X", x), part("X", x))
	e.op("VPERMILPD", "$1", part("X", x), part("X", t))
	e.op("VADDSD", part("X", t), part("X", x), part("X", x))
}
