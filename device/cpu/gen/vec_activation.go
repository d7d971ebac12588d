package main

import (
	"fmt"
	"math"
)

// activations writes the nonlinear functions in float32. Polynomials are Chebyshev fits on the intervals named beside them;
// the errors that result are measured by the test of package kernel.
func (e *vecEmitter) activations() {
	e.activation("sigmoid", func() { e.sigmoid(actX) })
	e.activation("tanh", e.tanh)
	e.activation("exp", func() { // softmax's
		e.op("VMOVAPS", e.r(actX), e.r(actA))
		e.exp()
		e.op("VMOVAPS", e.r(actP), e.r(actR))
	})
	e.activation("gelu", func() {
		e.normalCDF()
		e.mulv(actX, actX, actR)
		e.op("VMOVAPS", e.r(actX), e.r(actR))
	})
	e.activation("geluTanh", func() {
		e.op("VMOVAPS", e.r(actX), e.r(actW))
		e.geluTanhArgument(actX)
		e.sigmoid(actX)
		e.mulv(actR, actW, actR)
	})
	e.activationGrad("sigmoid", func() { // dy·(1-y)·y
		e.subv(actR, actOne, actX)
		e.mulv(actR, actD, actR)
		e.mulv(actR, actR, actX)
	})
	e.activationGrad("tanh", func() { // dy·(1-y·y)
		e.mulv(actR, actX, actX)
		e.subv(actR, actOne, actR)
		e.mulv(actR, actD, actR)
	})
	e.activationGrad("gelu", func() { // dy·(Φ(x) + x·φ(x))
		e.normalCDF()
		e.konst("VMULPS", 1/math.Sqrt(2*math.Pi), actP, actP)
		e.mulv(actP, actX, actP)
		e.addv(actR, actR, actP)
		e.mulv(actR, actD, actR)
	})
	e.activationGrad("geluTanh", e.geluTanhGrad)
}

// Registers of the activations.
const (
	actX   = iota // x or the saved operand
	actR          // result
	actN          // scratch
	actP          // exp's result
	actA          // exp's argument
	actZ          // |x|
	actW          // scratch that exp leaves alone
	actT          // constants, where they cannot be broadcast from memory
	actD          // dy
	actOne        // 1
)

func (e *vecEmitter) activation(name string, body func()) {
	e.routine(name, "is y = "+name+"(x); its twin is ref.Activate.", "y, x", "", "DI", "SI")
	e.broadcast(math.Float32bits(1), actOne)
	e.loop(e.lanes, func() {
		e.get(float32s, "SI", actX)
		body()
		e.put(float32s, actR, "DI")
	})
}

func (e *vecEmitter) activationGrad(name string, body func()) {
	e.routine(name+"Grad", "is dx = dy·"+name+"'; its twin is ref.ActivateGrad.", "dx, saved, dy", "", "DI", "SI", "DX")
	e.broadcast(math.Float32bits(1), actOne)
	e.loop(e.lanes, func() {
		e.get(float32s, "SI", actX)
		e.get(float32s, "DX", actD)
		body()
		e.put(float32s, actR, "DI")
	})
}

// konst appends dst = src op the constant x, rounded to float32; for a multiply-add see horner.
func (e *vecEmitter) konst(mnemonic string, x float64, src, dst int) {
	e.konstBits(mnemonic, math.Float32bits(float32(x)), src, dst)
}

func (e *vecEmitter) konstBits(mnemonic string, bits uint32, src, dst int) {
	from := e.constant(bits)
	if e.wide() {
		e.op(mnemonic+".BCST", from, e.r(src), e.r(dst))
		return
	}
	e.op("VBROADCASTSS", from, e.r(actT))
	e.op(mnemonic, e.r(actT), e.r(src), e.r(dst))
}

// horner appends p = p·x + c for each c in turn, starting from p = c[0].
func (e *vecEmitter) horner(p, x int, c ...float64) {
	e.op("VBROADCASTSS", e.constant(math.Float32bits(float32(c[0]))), e.r(p))
	for _, k := range c[1:] {
		e.konst("VFMADD213PS", k, x, p)
	}
}

const signBit = 1 << 31

// clamp limits register i to lo..hi; a NaN stays. It uses actN.
func (e *vecEmitter) clamp(lo, hi float64, i int) {
	e.op("VBROADCASTSS", e.constant(math.Float32bits(float32(hi))), e.r(actN))
	e.op("VMINPS", e.r(i), e.r(actN), e.r(i)) // the latter of the pair where one is a NaN
	if math.IsInf(lo, -1) {
		return
	}
	e.op("VBROADCASTSS", e.constant(math.Float32bits(float32(lo))), e.r(actN))
	e.op("VMAXPS", e.r(i), e.r(actN), e.r(i))
}

// exp computes actP = exp(actA) and destroys actA and actN: exp(x) = 2ⁿ·exp(r), n = round(x/ln 2), |r| <= ln 2 / 2.
func (e *vecEmitter) exp() {
	const ln2 = float32(math.Ln2)
	e.clamp(-104, 89, actA) // beyond, the result is 0 or infinity
	e.konst("VMULPS", math.Log2E, actA, actN)
	if e.wide() {
		e.op("VRNDSCALEPS", "$8", e.r(actN), e.r(actN))
	} else {
		e.op("VROUNDPS", "$8", e.r(actN), e.r(actN))
	}
	e.konst("VFNMADD231PS", float64(ln2), actN, actA)
	e.konst("VFNMADD231PS", math.Ln2-float64(ln2), actN, actA)
	// (exp(r)-1-r)/r² within 6.5e-8, then times r² plus r plus 1.
	e.horner(actP, actA, 0.00139261761199, 0.00836317307451, 0.0416665546621, 0.166665770256, 0.5, 1, 1)
	if e.wide() {
		e.op("VSCALEFPS", e.r(actN), e.r(actP), e.r(actP))
		return
	}
	// 2ⁿ may be no float32, but 2 to the two halves of n are.
	n, m := e.r(actN), e.r(actA)
	e.op("VCVTPS2DQ", n, n)
	e.op("VPSRAD", "$1", n, m)
	e.op("VPSUBD", m, n, n)
	for _, k := range []int{actA, actN} {
		e.konstBits("VPADDD", 127, k, k)
		e.op("VPSLLD", "$23", e.r(k), e.r(k))
		e.mulv(actP, actP, k)
	}
}

// choose sets dst to negative where the sign bit of mask is set, else to positive.
func (e *vecEmitter) choose(mask, negative, positive, dst int) {
	if e.wide() {
		e.op("VPMOVD2M", e.r(mask), "K2")
		e.op("VBLENDMPS", e.r(negative), e.r(positive), "K2", e.r(dst))
		return
	}
	e.op("VBLENDVPS", e.r(mask), e.r(negative), e.r(positive), e.r(dst))
}

// sigmoid computes actR = 1/(1+t) where register x is positive, t/(1+t) where it is negative, t = exp(-|x|): neither
// overflows. It leaves t in actP, 1+t in actN.
func (e *vecEmitter) sigmoid(x int) {
	e.konstBits("VORPS", signBit, x, actA)
	e.exp()
	e.addv(actN, actP, actOne)
	e.choose(x, actP, actOne, actR)
	e.divv(actR, actR, actN)
}

// tanh computes x + x³·p(x²) below 0.625, 1 - 2/(exp(2x)+1) above, and gives the result x's sign.
func (e *vecEmitter) tanh() {
	const limit = 0.625
	e.konstBits("VANDPS", signBit-1, actX, actZ)
	e.addv(actA, actZ, actZ)
	e.exp()
	e.addv(actP, actP, actOne)
	e.addv(actN, actOne, actOne)
	e.divv(actN, actN, actP)
	e.subv(actW, actOne, actN)
	e.mulv(actA, actZ, actZ)
	// (tanh(x)/x-1)/x² within 4.4e-8 for 0 <= x <= 0.625.
	e.horner(actP, actA, -0.00609671416591, 0.0209971789991, -0.0538509095785, 0.13332769737, -0.333333289441)
	e.mulv(actP, actP, actA)
	e.op("VFMADD213PS", e.r(actZ), e.r(actZ), e.r(actP))
	e.konst("VSUBPS", limit, actZ, actN)
	e.choose(actN, actP, actW, actR)
	e.konstBits("VANDPS", signBit, actX, actN)
	e.op("VORPS", e.r(actN), e.r(actR), e.r(actR))
}

// normalCDF computes actR = Φ(x) and actP = exp(-x²/2), and leaves actX. The upper tail is exp(-z²/2)·t·p(t) with z = |x|,
// t = 1/(1+0.24z); z²/2 is split in two, since exp turns its rounding error into a relative one.
func (e *vecEmitter) normalCDF() {
	e.konstBits("VANDPS", signBit-1, actX, actZ)
	e.clamp(math.Inf(-1), 15, actZ) // beyond, the tail is 0
	e.konst("VMULPS", 0.5, actZ, actR)
	e.mulv(actA, actR, actZ)
	e.op("VMOVAPS", e.r(actA), e.r(actW))
	e.op("VFMSUB231PS", e.r(actR), e.r(actZ), e.r(actW)) // what the rounding of z²/2 left
	e.konstBits("VXORPS", signBit, actA, actA)
	e.exp()
	e.op("VFNMADD231PS", e.r(actP), e.r(actW), e.r(actP))
	e.konst("VMULPS", 0.24, actZ, actZ)
	e.addv(actZ, actZ, actOne)
	e.divv(actZ, actOne, actZ)
	// exp(z²/2)·(1-Φ(z))/t within 3.9e-9 of itself for 0 <= z <= 14.5.
	e.horner(actR, actZ, 0.0256937516661, -0.125604055066, 0.207893925303, -0.147688827722, 0.144468526484, 0.0264370662437,
		0.088391567681, 0.0887914833258, 0.0958754841392, 0.0957410794347)
	e.mulv(actR, actR, actZ)
	e.mulv(actR, actR, actP)
	e.subv(actN, actOne, actR)
	e.choose(actX, actR, actN, actR)
}

// The tanh form of gelu is x·sigmoid(w), w = x·(a + b·x²), since (1+tanh(w/2))/2 is sigmoid(w).
var (
	geluA = 2 * math.Sqrt(2/math.Pi)
	geluB = geluA * 0.044715
)

// geluTanhArgument turns x into w. It uses actN.
func (e *vecEmitter) geluTanhArgument(x int) {
	e.mulv(actN, x, x)
	e.konst("VMULPS", geluB, actN, actN)
	e.konst("VADDPS", geluA, actN, actN)
	e.mulv(x, x, actN)
}

// geluTanhGrad is dy·(s + x·s·(1-s)·(a+3b·x²)), s = sigmoid(w). With t = exp(-|w|), s·(1-s) = t/(1+t)² loses nothing to
// cancellation.
func (e *vecEmitter) geluTanhGrad() {
	e.clamp(-15, 15, actX) // beyond, s is 0 or 1
	e.op("VMOVAPS", e.r(actX), e.r(actW))
	e.geluTanhArgument(actX)
	e.sigmoid(actX)
	e.mulv(actN, actN, actN)
	e.divv(actP, actP, actN)
	e.mulv(actN, actW, actW)
	e.konst("VMULPS", 3*geluB, actN, actN)
	e.konst("VADDPS", geluA, actN, actN)
	e.mulv(actN, actN, actW)
	e.mulv(actN, actN, actP)
	e.addv(actR, actR, actN)
	e.mulv(actR, actD, actR)
}

// constant is the operand of a 32-bit constant in the file's table.
func (e *vecEmitter) constant(bits uint32) string {
	for i, b := range *e.table {
		if b == bits {
			return constantAt(i)
		}
	}
	*e.table = append(*e.table, bits)
	return constantAt(len(*e.table) - 1)
}

func constantAt(i int) string { return fmt.Sprintf("vecConstants<>+%d(SB)", 4*i) }

// constants writes the table.
func constants(a *asm, table []uint32) {
	a.text.WriteByte('\n')
	for i, bits := range table {
		fmt.Fprintf(&a.text, "DATA %s/4, $%#08x\n", constantAt(i), bits)
	}
	fmt.Fprintf(&a.text, "GLOBL vecConstants<>(SB), RODATA|NOPTR, $%d\n", 4*len(table))
}
