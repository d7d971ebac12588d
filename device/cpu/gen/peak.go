package main

import "fmt"

// genPeak writes the loops that measure a machine's highest rate of multiply-adds (kernel/peak.go).
func genPeak() map[string]string {
	a := newAsm("peak")
	for _, v := range []isa{avx512, avx2} {
		for _, e := range []gemmElem{gemmF32, gemmF64} {
			a.peak(v, e)
		}
	}
	a.peak(avx512, gemmBF16Pair)
	return a.files()
}

// peak writes n rounds of one multiply-add on each of three quarters of the vector registers: more than latency times
// issue width of any machine, so that each waits for none before it. No memory is touched inside.
func (a *asm) peak(v isa, e gemmElem) {
	name := "peak" + e.name + v.name
	sums := v.regs * 3 / 4
	a.fn(name, fmt.Sprintf("%s adds x·y to each of %d vectors n times, n at least 1; its twin is peakGo.", name, sums),
		"n int, x, y, out unsafe.Pointer")
	a.load("n", "CX")
	a.load("x", "SI")
	a.load("y", "DI")
	a.load("out", "DX")
	x, y := v.r(sums), v.r(sums+1)
	a.op(e.bcast, mem(0, "SI"), x)
	a.op(e.bcast, mem(0, "DI"), y)
	for i := range sums {
		a.op("VMOVUPS", mem(i*v.bytes, "DX"), v.r(i))
	}
	a.align()
	a.label("loop")
	for i := range sums {
		if e.fma == "" {
			a.vdpbf16ps(x, y, v.r(i))
		} else {
			a.op(e.fma, x, y, v.r(i))
		}
	}
	a.op("DECQ", "CX")
	a.op("JNZ", "loop")
	for i := range sums {
		a.op("VMOVUPS", v.r(i), mem(i*v.bytes, "DX"))
	}
	a.ret()
}
