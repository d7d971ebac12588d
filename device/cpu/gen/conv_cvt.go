package main

// Element types of rows in memory; arithmetic on them is float32.
type elem struct {
	name  string
	bytes int
}

var (
	f32  = elem{"F32", 4}
	f16  = elem{"F16", 2}
	bf16 = elem{"BF16", 2}
)

// converter emits conversions between a vector of float32 and elements in memory. With a mask register, AVX-512 only,
// lanes outside it are loaded as zero and not stored.
type converter struct {
	a *asm
	v isa
	// bf16Asm uses the rounding instruction of AVX512_BF16; else rounding is done on integers with the three constants,
	// in registers from consts on (one, 0x7fff, the quiet bit of a NaN).
	bf16Asm bool
	consts  int
}

// setup loads the constants that rounding to e wants.
func (c converter) setup(e elem) {
	if e != bf16 || c.bf16Asm {
		return
	}
	for i, k := range []int{1, 0x7fff, 0x00400000} {
		broadcastInt(c.a, c.v, k, c.consts+i)
	}
}

// broadcastInt fills vector register reg with a 32-bit integer. It uses BX.
func broadcastInt(a *asm, v isa, k, reg int) {
	a.op("MOVL", imm(k), "BX")
	if v.regs == 32 {
		a.op("VPBROADCASTD", "BX", v.r(reg))
		return
	}
	x := v.half(reg)
	a.op("VMOVD", "BX", x)
	a.op("VPBROADCASTD", x, v.r(reg))
}

// load reads a vector of e at src into reg as float32.
func (c converter) load(e elem, src string, reg int, mask string) {
	a, r, h := c.a, c.v.r(reg), c.v.half(reg)
	switch {
	case e == f32 && mask != "":
		a.op("VMOVUPS.Z", src, mask, r)
	case e == f32:
		a.op("VMOVUPS", src, r)
	case mask != "":
		a.op("VMOVDQU16.Z", src, mask, h)
		c.widen(e, h, reg)
	default:
		c.widen(e, src, reg)
	}
}

// widen converts a half-width register or memory operand to float32.
func (c converter) widen(e elem, src string, reg int) {
	r := c.v.r(reg)
	if e == f16 {
		c.a.op("VCVTPH2PS", src, r)
		return
	}
	c.a.op("VPMOVZXWD", src, r)
	c.a.op("VPSLLD", "$16", r, r)
}

// store rounds reg to e and writes it; reg and tmp are lost.
func (c converter) store(e elem, reg, tmp int, dst, mask string) {
	a, h := c.a, c.v.half(reg)
	if e == f32 {
		if mask != "" {
			a.op("VMOVUPS", c.v.r(reg), mask, dst)
		} else {
			a.op("VMOVUPS", c.v.r(reg), dst)
		}
		return
	}
	c.narrow(e, reg, tmp)
	if mask != "" {
		a.op("VMOVDQU16", h, mask, dst)
	} else {
		a.op("VMOVUPS", h, dst)
	}
}

// narrow rounds reg to e in its lower half.
func (c converter) narrow(e elem, reg, tmp int) {
	a, r, h := c.a, c.v.r(reg), c.v.half(reg)
	switch {
	case e == f16:
		a.op("VCVTPS2PH", "$0", r, h)
	case c.bf16Asm:
		a.vcvtneps2bf16(r, r)
	default:
		c.roundBF16(reg, tmp)
		a.op("VPSRLD", "$16", r, r)
		if c.v.regs == 32 {
			a.op("VPMOVDW", r, h)
			return
		}
		a.op("VEXTRACTI128", "$1", r, c.v.half(tmp))
		a.op("VPACKUSDW", c.v.half(tmp), h, h)
	}
}

// round rounds reg to e and leaves it as float32.
func (c converter) round(e elem, reg, tmp int) {
	a, r := c.a, c.v.r(reg)
	switch {
	case e == f32:
	case e == f16 || c.bf16Asm:
		c.narrow(e, reg, tmp)
		c.widen(e, c.v.half(reg), reg)
	default:
		c.roundBF16(reg, tmp)
		a.op("VPSRLD", "$16", r, r)
		a.op("VPSLLD", "$16", r, r)
	}
}

// roundBF16 brings the upper half of each lane to the nearest even bfloat16; NaNs become quiet. It uses K7.
func (c converter) roundBF16(reg, tmp int) {
	a, r, t := c.a, c.v.r(reg), c.v.r(tmp)
	one, bias, quiet := c.v.r(c.consts), c.v.r(c.consts+1), c.v.r(c.consts+2)
	if c.v.regs == 32 {
		a.op("VCMPPS", "$3", r, r, "K7")
		a.op("VPSRLD", "$16", r, t)
		a.op("VPANDD", one, t, t)
		a.op("VPADDD", bias, t, t)
		a.op("VPADDD", r, t, t)
		a.op("VPORD", quiet, r, "K7", t)
		a.op("VMOVDQA32", t, r)
		return
	}
	u := c.v.r(c.consts + 3)
	a.op("VPSRLD", "$16", r, t)
	a.op("VPAND", one, t, t)
	a.op("VPADDD", bias, t, t)
	a.op("VPADDD", r, t, t)
	a.op("VCMPPS", "$3", r, r, u)
	a.op("VPOR", quiet, r, r)
	a.op("VBLENDVPS", u, r, t, r)
}

// tailMask sets mask register k to the lower min(n, 16) lanes for n > 0 in reg. It uses BX.
func tailMask(a *asm, reg, k string) {
	a.op("MOVL", "$-1", "BX")
	a.op("BZHIL", reg, "BX", "BX") // an index above 31 leaves all bits
	a.op("KMOVW", "BX", k)         // the lower 16
}
