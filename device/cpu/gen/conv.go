package main

// The direct convolution's routines. Images are NHWC, so the products of one kernel row with one output pixel are a run of
// KW·C consecutive elements; a tile is m output pixels of a row by one or two vectors of output channels, kept in
// registers over the whole sum. Strides are parameters; m selects one of several unrolled bodies.

// genConv writes the direct convolution's routines.
func genConv() map[string]string {
	a := newAsm("conv")
	for _, v := range []isa{avx512, avx2} {
		for nv := 1; nv <= 2; nv++ {
			convTile(a, v, nv, false)
			convGradW(a, v, nv, false)
		}
	}
	for nv := 1; nv <= 2; nv++ {
		convTile(a, avx512, nv, true)
		convGradW(a, avx512, nv, true)
	}
	genConvRows(a)
	genConvPool(a)
	genConvSparse(a)
	return a.files()
}

// tileRegs splits the vector registers: accumulators, one operand per vector of channels, and the rest for broadcasts.
type tileRegs struct {
	v     isa
	nv    int // vectors of channels
	m     int // broadcast operands: pixels, or elements of a run
	temps int
}

// maxTile is the largest m: two vectors of channels leave at least two registers for broadcasts.
func maxTile(v isa) int {
	if v.regs == 32 {
		return 13 // 26 accumulators, 2 operands, 4 broadcasts
	}
	return 6 // 12 accumulators, 2 operands, 2 broadcasts
}

func newTileRegs(v isa, nv, m int) tileRegs {
	return tileRegs{v, nv, m, min(v.regs-nv*m-nv, 6)}
}

func (t tileRegs) acc(m, v int) string  { return t.v.r(m*t.nv + v) }
func (t tileRegs) operand(v int) string { return t.v.r(t.m*t.nv + v) }
func (t tileRegs) temp(m int) string    { return t.v.r(t.m*t.nv + t.nv + m%t.temps) }

// multiply is acc += broadcast·operand: float32, or pairs of bfloat16.
func (t tileRegs) multiply(a *asm, m, v int, bf16 bool) {
	if bf16 {
		a.vdpbf16ps(t.operand(v), t.temp(m), t.acc(m, v))
	} else {
		a.op("VFMADD231PS", t.temp(m), t.operand(v), t.acc(m, v))
	}
}

// dispatch jumps to the body for the m in CX.
func dispatch(a *asm, maxM int) {
	for m := maxM; m > 1; m-- {
		a.op("CMPQ", "CX", imm(m))
		a.op("JEQ", labelM("m", m))
	}
}

func tileName(base string, v isa, nv int, bf16 bool) string {
	name := base + string(rune('0'+nv))
	if bf16 {
		return name + "BF16" // implies AVX512
	}
	return name + v.name
}
