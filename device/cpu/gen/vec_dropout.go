package main

import "fmt"

// dropoutMask writes Philox4x32-10 on sixteen counters at once (package philox). A 32-bit word is the lower half of a
// 64-bit lane, where VPMULUDQ wants it and whatever is in the upper half does no harm; so the even blocks are in one set
// of registers and the odd ones in another.
func (e *vecEmitter) dropoutMask() {
	e.routine("dropoutMask", "sets mask[i] to 1 where philox.MaskWord of element i is at least threshold, else 0; its twin is\n"+
		"dropoutMaskGo. keys are the keys of the ten rounds, in pairs.", "mask, keys", "position, epoch, purpose, threshold uint32", "DI", "SI")
	if e.wide() {
		e.dropoutMask512()
	} else {
		e.dropoutMask256()
	}
}

// The constants of the generator (philox.go).
const (
	philoxMul0   = 0xD2511F53
	philoxMul1   = 0xCD9E8D57
	philoxRounds = 10
)

func (e *vecEmitter) dropoutMask512() {
	const even, odd, step, ones, mul0, mul1, position, epoch, purpose, threshold = 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	e.broadcast(philoxMul0, mul0)
	e.broadcast(philoxMul1, mul1)
	e.broadcast(0x01010101, ones)
	for _, p := range []struct {
		name string
		reg  int
	}{{"position", position}, {"epoch", epoch}, {"purpose", purpose}, {"threshold", threshold}} {
		e.op("VBROADCASTSS", e.arg(p.name), e.r(p.reg))
	}
	e.iota("$0x0e0c0a0806040200", even)
	e.iota("$0x0f0d0b0907050301", odd)
	e.op("MOVL", "$16", "AX")
	e.op("VPBROADCASTQ", "AX", e.r(step))
	e.op("MOVL", "$0xaaaa", "AX")
	e.op("KMOVW", "AX", "K7")
	e.loop(64, func() {
		words := [2][4]int{}
		for set, block := range []int{even, odd} {
			words[set] = e.philox512([4]int{block, position, epoch, purpose}, 8*set, mul0, mul1)
			e.op("VPADDQ", e.r(step), e.r(block), e.r(block))
		}
		for w := range 4 {
			e.op("VMOVSLDUP", e.r(words[1][w]), "K7", e.r(words[0][w]))
			e.op("VPCMPUD", "$5", e.r(threshold), e.r(words[0][w]), kreg(2+w)) // not less
		}
		e.op("KUNPCKWD", "K2", "K3", "K2")
		e.op("KUNPCKWD", "K4", "K5", "K4")
		e.op("KUNPCKDQ", "K2", "K4", "K2")
		e.op("VMOVDQU8.Z", e.r(ones), "K2", e.r(16))
		e.write("VMOVDQU8", e.r(16), e.at("DI", 1))
	})
}

// iota sets the 64-bit lanes of register i to the bytes of a constant.
func (e *vecEmitter) iota(bytes string, i int) {
	x := fmt.Sprintf("X%d", i)
	e.op("MOVQ", bytes, "AX")
	e.op("VMOVQ", "AX", x)
	e.op("VPMOVZXBQ", x, e.r(i))
}

// philox512 runs the rounds on the counters c and gives the registers of the result, among the eight from base on.
func (e *vecEmitter) philox512(c [4]int, base, mul0, mul1 int) [4]int {
	for round := range philoxRounds {
		n := base + round%2*4
		p0, p1, hi0, hi1 := e.r(n+3), e.r(n+1), e.r(n+2), e.r(n)
		e.op("VPMULUDQ", e.r(mul0), e.r(c[0]), p0)
		e.op("VPMULUDQ", e.r(mul1), e.r(c[2]), p1)
		e.op("VPSRLQ", "$32", p1, hi1)
		e.op("VPSRLQ", "$32", p0, hi0)
		e.op("VPTERNLOGD.BCST", "$0x96", mem(8*round, "SI"), e.r(c[1]), hi1) // exclusive or of three
		e.op("VPTERNLOGD.BCST", "$0x96", mem(8*round+4, "SI"), e.r(c[3]), hi0)
		c = [4]int{n, n + 1, n + 2, n + 3}
	}
	return c
}

// dropoutMask256 does a group of 64 elements in two halves of eight blocks.
func (e *vecEmitter) dropoutMask256() {
	const tmp0, tmp1, mul0, mul1, even, odd, threshold, sign = 8, 9, 10, 11, 12, 13, 14, 15
	e.broadcast(philoxMul0, mul0)
	e.broadcast(philoxMul1, mul1)
	e.broadcast(0x80000000, sign)
	e.op("VBROADCASTSS", e.arg("threshold"), e.r(threshold))
	e.op("VPXOR", e.r(sign), e.r(threshold), e.r(threshold))
	e.iota("$0x06040200", even)
	e.iota("$0x07050301", odd)
	e.loop(64, func() {
		for half := range 2 {
			for set, block := range []int{even, odd} {
				e.philox256(4*set, block, tmp0, tmp1, mul0, mul1)
			}
			e.op("MOVL", "$8", "AX")
			e.op("VMOVQ", "AX", fmt.Sprintf("X%d", tmp0))
			e.op("VPBROADCASTQ", fmt.Sprintf("X%d", tmp0), e.r(tmp0))
			e.op("VPADDQ", e.r(tmp0), e.r(even), e.r(even))
			e.op("VPADDQ", e.r(tmp0), e.r(odd), e.r(odd))
			for w := range 4 {
				e.op("VPSLLQ", "$32", e.r(4+w), e.r(4+w))
				e.op("VPBLENDD", "$0xaa", e.r(4+w), e.r(w), e.r(w))
				e.op("VPXOR", e.r(sign), e.r(w), e.r(w))
				e.op("VPCMPGTD", e.r(w), e.r(threshold), e.r(w)) // drop: threshold > word
			}
			// Narrowing works on each 128-bit lane: its four elements of words 0, 1, 2, 3.
			e.op("VPACKSSDW", "Y1", "Y0", "Y0")
			e.op("VPACKSSDW", "Y3", "Y2", "Y2")
			e.op("VPACKSSWB", "Y2", "Y0", "Y0")
			e.op("VPABSB", "Y0", "Y0")
			e.broadcast(0x01010101, 1)
			e.op("VPXOR", "Y1", "Y0", "Y0")
			e.op("VEXTRACTI128", "$1", "Y0", "X1")
			e.op("VPUNPCKLDQ", "X1", "X0", "X2") // eight elements of word 0, eight of word 1
			e.op("VPUNPCKHDQ", "X1", "X0", "X3")
			e.op("VMOVQ", "X2", memx(8*half, "DI", "R8", 1))
			e.op("VPEXTRQ", "$1", "X2", memx(8*half+16, "DI", "R8", 1))
			e.op("VMOVQ", "X3", memx(8*half+32, "DI", "R8", 1))
			e.op("VPEXTRQ", "$1", "X3", memx(8*half+48, "DI", "R8", 1))
		}
	})
}

// philox256 runs the rounds on one set of counters; the result is in the four registers from base on.
func (e *vecEmitter) philox256(base, block, tmp0, tmp1, mul0, mul1 int) {
	c0, c1, c2, c3 := e.r(base), e.r(base+1), e.r(base+2), e.r(base+3)
	p0, p1 := e.r(tmp0), e.r(tmp1)
	e.op("VMOVDQA", e.r(block), c0)
	e.op("VBROADCASTSS", e.arg("position"), c1)
	e.op("VBROADCASTSS", e.arg("epoch"), c2)
	e.op("VBROADCASTSS", e.arg("purpose"), c3)
	for round := range philoxRounds {
		e.op("VPMULUDQ", e.r(mul0), c0, p0)
		e.op("VPMULUDQ", e.r(mul1), c2, p1)
		e.op("VPBROADCASTD", mem(8*round, "SI"), c0)
		e.op("VPBROADCASTD", mem(8*round+4, "SI"), c2)
		e.op("VPXOR", c1, c0, c0)
		e.op("VPXOR", c3, c2, c2)
		e.op("VPSRLQ", "$32", p1, c1)
		e.op("VPSRLQ", "$32", p0, c3)
		e.op("VPXOR", c1, c0, c0)
		e.op("VPXOR", c3, c2, c2)
		e.op("VMOVDQA", p1, c1)
		e.op("VMOVDQA", p0, c3)
	}
}
