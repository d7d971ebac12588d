package main

import "fmt"

// tileUnroll is the number of steps of a run in one turn of the inner loop.
const tileUnroll = 4

func labelM(s string, m int) string { return fmt.Sprintf("%s%d", s, m) }

// pixel gives the address of output pixel m as base register and multiple of the pixel stride. Four bases at 0, 3, 5 and
// 10 strides reach every pixel up to 14 by the scales that an address can have.
var pixelAddress = [...]struct{ base, scale int }{
	{0, 0}, {0, 1}, {0, 2}, {1, 0}, {0, 4}, {2, 0}, {2, 1}, {1, 4}, {0, 8}, {2, 4}, {3, 0}, {1, 8}, {3, 2}, {2, 8},
}

var pixelBases = [...]string{"SI", "R8", "R9", "R10"}

// bases is how many base registers m pixels need.
func bases(m int) int {
	n := 0
	for _, p := range pixelAddress[:m] {
		n = max(n, p.base+1)
	}
	return n
}

// convTile writes y[p][o] = max(floor, bias[o] + sum over kh, k of x[kh][p][k]·w[kh][k][o]) for m pixels of a row.
func convTile(a *asm, v isa, nv int, bf16 bool) {
	name := tileName("convTile", v, nv, bf16)
	doc := fmt.Sprintf("%s computes t.m output pixels by %d channels. Its twin is convTileGo.", name, nv*v.lanes)
	if bf16 {
		doc = fmt.Sprintf("%s is convTile%dAVX512 for pairs of bfloat16, a run counted in pairs. Its twin is convTileBF16Go.", name, nv)
	}
	a.fn(name, doc, "t *convTile")
	a.load("t", "AX")
	for _, f := range [][2]string{{"x", "SI"}, {"w", "DI"}, {"bias", "R13"}, {"y", "DX"}, {"xPix", "BX"}, {"yPix", "R12"}, {"kh", "R11"}, {"m", "CX"}} {
		a.op("MOVQ", "convTile_"+f[0]+"(AX)", f[1])
	}
	dispatch(a, maxTile(v))
	for m := 1; m <= maxTile(v); m++ {
		convTileBody(a, newTileRegs(v, nv, m), bf16)
	}
}

func convTileBody(a *asm, t tileRegs, bf16 bool) {
	m, v := t.m, t.v
	a.label(labelM("m", m))
	for i := range m {
		for j := range t.nv {
			a.op("VMOVUPS", mem(j*v.bytes, "R13"), t.acc(i, j))
		}
	}
	nb := bases(m)
	if nb > 1 { // 3 strides
		a.op("LEAQ", memx(0, "SI", "BX", 2), "R8")
		a.op("ADDQ", "BX", "R8")
	}
	if nb > 2 { // 5 strides
		a.op("LEAQ", memx(0, "SI", "BX", 4), "R9")
		a.op("ADDQ", "BX", "R9")
	}
	if nb > 3 { // 10 strides
		a.op("LEAQ", memx(0, "R9", "BX", 4), "R10")
		a.op("ADDQ", "BX", "R10")
	}
	step := func(n int) {
		for u := range n {
			for j := range t.nv {
				a.op("VMOVUPS", mem((u*t.nv+j)*v.bytes, "DI"), t.operand(j))
			}
			for i := range m {
				p := pixelAddress[i]
				src := mem(4*u, pixelBases[p.base])
				if p.scale > 0 {
					src = memx(4*u, pixelBases[p.base], "BX", p.scale)
				}
				a.op("VBROADCASTSS", src, t.temp(i))
				for j := range t.nv {
					t.multiply(a, i, j, bf16)
				}
			}
		}
		for b := range nb {
			a.op("ADDQ", imm(4*n), pixelBases[b])
		}
		a.op("ADDQ", imm(n*t.nv*v.bytes), "DI")
	}
	row, loop, rest, last, next := labelM("row", m), labelM("loop", m), labelM("rest", m), labelM("last", m), labelM("next", m)
	a.label(row)
	a.op("MOVQ", "convTile_run(AX)", "CX")
	a.op("SUBQ", imm(tileUnroll), "CX")
	a.op("JLT", rest)
	a.align()
	a.label(loop)
	step(tileUnroll)
	a.op("SUBQ", imm(tileUnroll), "CX")
	a.op("JGE", loop)
	a.label(rest)
	a.op("ADDQ", imm(tileUnroll), "CX")
	a.op("JEQ", next)
	a.label(last)
	step(1)
	a.op("DECQ", "CX")
	a.op("JNZ", last)
	a.label(next)
	for b := range nb {
		a.op("ADDQ", "convTile_xJump(AX)", pixelBases[b])
	}
	a.op("DECQ", "R11")
	a.op("JNZ", row)

	floor := t.operand(0)
	a.op("VBROADCASTSS", "convTile_floor(AX)", floor)
	for i := range m {
		for j := range t.nv {
			a.op("VMAXPS", t.acc(i, j), floor, t.acc(i, j)) // a NaN sum is the second source and stays
			a.op("VMOVUPS", t.acc(i, j), mem(j*v.bytes, "DX"))
		}
		if i < m-1 {
			a.op("ADDQ", "R12", "DX")
		}
	}
	a.ret()
}

// convGradW writes dw[k][o] += sum over pixels of x[pixel][k]·dy[pixel][o] for m elements k of one kernel row's run.
func convGradW(a *asm, v isa, nv int, bf16 bool) {
	name := tileName("convGradW", v, nv, bf16)
	doc := fmt.Sprintf("%s adds to t.m rows of dw by %d channels. Its twin is convGradWGo.", name, nv*v.lanes)
	if bf16 {
		doc = fmt.Sprintf("%s is convGradW%dAVX512 for pixel pairs of bfloat16. Its twin is convGradWBF16Go.", name, nv)
	}
	a.fn(name, doc, "t *convGradW")
	a.load("t", "AX")
	for _, f := range [][2]string{{"x", "SI"}, {"dy", "DI"}, {"dw", "DX"}, {"xPix", "BX"}, {"dyPix", "R12"}, {"rows", "R11"}, {"m", "CX"}} {
		a.op("MOVQ", "convGradW_"+f[0]+"(AX)", f[1])
	}
	dispatch(a, maxTile(v))
	for m := 1; m <= maxTile(v); m++ {
		convGradWBody(a, newTileRegs(v, nv, m), bf16)
	}
}

func convGradWBody(a *asm, t tileRegs, bf16 bool) {
	m, v := t.m, t.v
	a.label(labelM("m", m))
	each := func(f func(i, j int, at string)) {
		for i := range m {
			for j := range t.nv {
				f(i, j, mem((i*t.nv+j)*v.bytes, "DX"))
			}
		}
	}
	each(func(i, j int, at string) { a.op("VMOVUPS", at, t.acc(i, j)) })
	a.label(labelM("row", m))
	a.op("MOVQ", "convGradW_cols(AX)", "CX")
	a.align()
	a.label(labelM("loop", m))
	for j := range t.nv {
		a.op("VMOVUPS", mem(j*v.bytes, "DI"), t.operand(j))
	}
	for i := range m {
		a.op("VBROADCASTSS", mem(4*i, "SI"), t.temp(i))
		for j := range t.nv {
			t.multiply(a, i, j, bf16)
		}
	}
	a.op("ADDQ", "BX", "SI")
	a.op("ADDQ", "R12", "DI")
	a.op("DECQ", "CX")
	a.op("JNZ", labelM("loop", m))
	a.op("ADDQ", "convGradW_xJump(AX)", "SI")
	a.op("ADDQ", "convGradW_dyJump(AX)", "DI")
	a.op("DECQ", "R11")
	a.op("JNZ", labelM("row", m))
	each(func(i, j int, at string) { a.op("VMOVUPS", t.acc(i, j), at) })
	a.ret()
}
