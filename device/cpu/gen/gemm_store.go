package main

// gemmStore writes the epilogue of a float32 tile of two vectors of columns. The AVX2 one wants whole rows.
func (a *asm) gemmStore(v isa, elem gemmElem, op string) {
	d := elem.memory
	e := &vecEmitter{asm: a, isa: v, masked: v.reg == 'Z'}
	name := "gemmStore" + op + elem.name + v.name
	a.fn(name, name+" writes a tile to C; its twin is gemmStore.",
		"c unsafe.Pointer, cs int, tile unsafe.Pointer, rows, cols int, mask unsafe.Pointer")
	if e.masked {
		a.load("cols", "CX")
		a.gemmColumnMasks(v.lanes, 3)
	}
	a.load("c", "DI")
	a.load("cs", "R8")
	a.load("tile", "SI")
	a.load("rows", "CX")
	a.load("mask", "BX")
	e.putConstants(d)
	e.setZero()
	a.label("row")
	for j := range 2 {
		if e.masked {
			a.op("KMOVW", kreg(3+j), "K1")
		}
		e.op("VMOVUPS", mem(j*v.bytes, "SI"), e.r(0))
		at := j * v.lanes * d.size
		switch op {
		case "ReLU":
			e.keep(notLess, e.zero(), 0, 0)
		case "Mask":
			e.getAt(d, mem(at, "BX"), 1)
			e.keep(greater, e.zero(), 1, 0)
		}
		e.putAt(d, 0, mem(at, "DI"))
	}
	a.op("ADDQ", imm(2*v.bytes), "SI")
	a.op("ADDQ", "R8", "DI")
	if op == "Mask" {
		a.op("ADDQ", "R8", "BX")
	}
	a.op("DECQ", "CX")
	a.op("JNZ", "row")
	a.ret()
}

// gemmPrefetch writes a request for rows of 128 bytes.
func (a *asm) gemmPrefetch() {
	a.fn("gemmPrefetch", "gemmPrefetch asks for rows of up to 128 bytes, ps bytes apart, to be brought to the cache. It changes nothing.",
		"p unsafe.Pointer, ps, rows int")
	a.load("p", "SI")
	a.load("ps", "R8")
	a.load("rows", "CX")
	a.label("row")
	a.op("PREFETCHT0", "(SI)")
	a.op("PREFETCHT0", "64(SI)")
	a.op("ADDQ", "R8", "SI")
	a.op("DECQ", "CX")
	a.op("JNZ", "row")
	a.op("RET")
}
