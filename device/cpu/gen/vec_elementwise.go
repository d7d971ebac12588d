package main

// casts writes the conversions between float32 and the half types.
func (e *vecEmitter) casts() {
	for _, h := range []dtype{float16s, bfloat16s} {
		e.routine("decode"+h.name, "widens to float32; its twin is half.Decode"+h.name+".", "dst, src", "", "DI", "SI")
		e.loop(e.lanes, func() {
			e.get(h, "SI", 0)
			e.put(float32s, 0, "DI")
		})
		e.routine("encode"+h.name, "rounds to nearest even; its twin is half.Encode"+h.name+".", "dst, src", "", "DI", "SI")
		e.putConstants(h)
		e.loop(e.lanes, func() {
			e.get(float32s, "SI", 0)
			e.put(h, 0, "DI")
		})
	}
}

// elementwise writes the layers' loops.
func (e *vecEmitter) elementwise() {
	e.relu()
	e.reluHalf(float16s, 0x7c00)
	e.reluHalf(bfloat16s, 0x7f80)
	for _, d := range floats {
		e.add(d)
		e.scale(d)
		e.applyMask(d)
		e.normalize(d)
		e.addScaled(d)
	}
}

func (e *vecEmitter) relu() {
	e.routine("reluFloat32", "is y = 0 where x is below zero, else x; its twin is codec.relu.", "y, x", "", "DI", "SI")
	e.setZero()
	e.loop(e.lanes, func() {
		e.get(float32s, "SI", 0)
		e.keep(notLess, e.zero(), 0, 0)
		e.put(float32s, 0, "DI")
	})
	e.routine("reluGradFloat32", "is dx = dy where y is above zero, else 0; its twin is codec.reluGrad.",
		"dx, y, dy", "", "DI", "SI", "DX")
	e.setZero()
	e.loop(e.lanes, func() {
		e.get(float32s, "SI", 1)
		e.get(float32s, "DX", 0)
		e.keep(greater, e.zero(), 1, 0)
		e.put(float32s, 0, "DI")
	})
}

// reluHalf works on the bits of a half type. Those of numbers below zero are 0x8001..0x8000+inf, those above zero 1..inf.
func (e *vecEmitter) reluHalf(d dtype, inf uint32) {
	lanes := 2 * e.lanes
	e.routine("relu"+d.name, "is reluFloat32 on bits; its twin is codec.relu.", "y, x", "", "DI", "SI")
	e.broadcast((inf-1)<<16|(inf-1), 1)
	e.broadcast(0x80018001, 2)
	e.loop(lanes, func() {
		e.getWords("SI", 0)
		e.op("VPSUBW", e.r(2), e.r(0), e.r(3)) // numbers below zero are 0..inf-1
		e.keepWords(3, 1, 0, false)
		e.putWords(0, "DI")
	})
	e.routine("reluGrad"+d.name, "is reluGradFloat32 on bits; its twin is codec.reluGrad.", "dx, y, dy", "", "DI", "SI", "DX")
	e.broadcast((inf-1)<<16|(inf-1), 1)
	e.broadcast(0x00010001, 2)
	e.loop(lanes, func() {
		e.getWords("SI", 3)
		e.getWords("DX", 0)
		e.op("VPSUBW", e.r(2), e.r(3), e.r(3)) // numbers above zero are 0..inf-1
		e.keepWords(3, 1, 0, true)
		e.putWords(0, "DI")
	})
}

func (e *vecEmitter) getWords(ptr string, i int) {
	if e.wide() {
		e.read("VMOVDQU16", e.at(ptr, 2), e.r(i))
	} else {
		e.op("VMOVDQU", e.at(ptr, 2), e.r(i))
	}
}

func (e *vecEmitter) putWords(i int, ptr string) {
	if e.wide() {
		e.write("VMOVDQU16", e.r(i), e.at(ptr, 2))
	} else {
		e.op("VMOVDQU", e.r(i), e.at(ptr, 2))
	}
}

// keepWords zeroes the 16-bit lanes of register i unless key <= limit (atMost) or key > limit, unsigned. It destroys key.
func (e *vecEmitter) keepWords(key, limit, i int, atMost bool) {
	if e.wide() {
		pred := "$6" // not less or equal
		if atMost {
			pred = "$2"
		}
		e.op("VPCMPUW", pred, e.r(limit), e.r(key), "K2")
		e.op("VMOVDQU16.Z", e.r(i), "K2", e.r(i))
		return
	}
	tmp := e.r(e.tmp(0))
	e.op("VPMINUW", e.r(limit), e.r(key), tmp)
	e.op("VPCMPEQW", tmp, e.r(key), tmp)
	if atMost {
		e.op("VPAND", e.r(i), tmp, e.r(i))
	} else {
		e.op("VPANDN", e.r(i), tmp, e.r(i))
	}
}

func (e *vecEmitter) add(d dtype) {
	e.routine("add"+d.name, "is y = a + b; its twin is codec.add.", "y, a, b", "", "DI", "SI", "DX")
	e.putConstants(d)
	e.loop(e.lanes, func() {
		e.get(d, "SI", 0)
		e.get(d, "DX", 1)
		e.op("VADDPS", e.r(1), e.r(0), e.r(0))
		e.put(d, 0, "DI")
	})
}

func (e *vecEmitter) scale(d dtype) {
	e.routine("scale"+d.name, "is y = x*s; its twin is codec.scale.", "y, x", "s float32", "DI", "SI")
	e.putConstants(d)
	e.op("VBROADCASTSS", e.arg("s"), e.r(1))
	e.loop(e.lanes, func() {
		e.get(d, "SI", 0)
		e.op("VMULPS", e.r(1), e.r(0), e.r(0))
		e.put(d, 0, "DI")
	})
}

func (e *vecEmitter) addScaled(d dtype) {
	e.routine("addScaled"+d.name, "is acc += float32(x)*s; its twin is codec.addScaled.", "acc, x", "s float32", "DI", "SI")
	e.op("VBROADCASTSS", e.arg("s"), e.r(1))
	e.loop(e.lanes, func() {
		e.get(d, "SI", 0)
		e.op("VMULPS", e.r(1), e.r(0), e.r(0))
		e.get(float32s, "DI", 2)
		e.op("VADDPS", e.r(0), e.r(2), e.r(2))
		e.put(float32s, 2, "DI")
	})
}

func (e *vecEmitter) applyMask(d dtype) {
	e.routine("applyMask"+d.name, "is y = x*s where the mask is not zero, else 0; its twin is codec.applyMask.",
		"y, x, mask", "s float32", "DI", "SI", "DX")
	e.putConstants(d)
	e.setZero()
	e.op("VBROADCASTSS", e.arg("s"), e.r(1))
	e.loop(e.lanes, func() {
		e.get(uint8s, "DX", 2)
		e.get(d, "SI", 0)
		if e.wide() {
			e.op("VPTESTMD", e.r(2), e.r(2), "K2")
			e.op("VMULPS.Z", e.r(1), e.r(0), "K2", e.r(0))
		} else {
			e.op("VPCMPGTD", e.r(e.zero()), e.r(2), e.r(2))
			e.op("VMULPS", e.r(1), e.r(0), e.r(0))
			e.op("VPAND", e.r(2), e.r(0), e.r(0))
		}
		e.put(d, 0, "DI")
	})
}

// normalize divides by 255 and std truly, as ref.Normalized does: a product with the inverse would round differently.
func (e *vecEmitter) normalize(d dtype) {
	e.routine("normalize"+d.name, "is y = (float32(x)/255 - mean) / std; its twin is codec.normalize.",
		"y, x", "mean, std float32", "DI", "SI")
	e.putConstants(d)
	e.broadcast(0x437f0000, 3) // 255
	e.op("VBROADCASTSS", e.arg("mean"), e.r(1))
	e.op("VBROADCASTSS", e.arg("std"), e.r(2))
	e.loop(e.lanes, func() {
		e.get(uint8s, "SI", 0)
		e.op("VCVTDQ2PS", e.r(0), e.r(0))
		e.op("VDIVPS", e.r(3), e.r(0), e.r(0))
		e.op("VSUBPS", e.r(1), e.r(0), e.r(0))
		e.op("VDIVPS", e.r(2), e.r(0), e.r(0))
		e.put(d, 0, "DI")
	})
}
