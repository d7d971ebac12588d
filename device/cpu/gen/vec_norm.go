package main

// norms writes batch norm's loops over rows of n channels, in the order of package ref: column by column, rows in order.
func (e *vecEmitter) norms() {
	e.columnSums()
	e.columnSquares()
	e.columnProducts()
	e.batchNorm()
	e.batchNormGradX()
}

// wideLanes is the number of float64 elements of a register.
func (e *vecEmitter) wideLanes() int { return e.lanes / 2 }

// getWide loads float32 elements as float64 into register i.
func (e *vecEmitter) getWide(from string, i int) { e.read("VCVTPS2PD", from, e.r(i)) }

// sumVectors is how many vectors of float64 sums are kept in registers.
const sumVectors = 4

// float64Sums runs add(v), which adds a row's term to register v, down the rows, on sums at DI.
func (e *vecEmitter) float64Sums(pointers []rowPointer, before, add func(v int)) {
	e.columns(e.wideLanes(), sumVectors, func(vectors int) {
		sum := func(v int) string { return memx(v*e.bytes, "DI", "R8", 8) }
		for v := range vectors {
			e.read("VMOVUPD", sum(v), e.r(v))
			before(v)
		}
		e.rows(pointers, func() {
			for v := range vectors {
				add(v)
			}
		})
		for v := range vectors {
			e.write("VMOVUPD", e.r(v), sum(v))
		}
	})
}

func (e *vecEmitter) columnSums() {
	e.routine("columnSums", "is sums[j] += x[i][j] in float64; its twin is columnSumsGo.", "sums, x", "rows, stride int", "DI", "SI")
	e.float64Sums([]rowPointer{{"SI", "R9", 4}}, func(int) {}, func(v int) {
		e.getWide(mem(v*e.bytes/2, "R9"), sumVectors+v)
		e.op("VADDPD", e.r(sumVectors+v), e.r(v), e.r(v))
	})
}

func (e *vecEmitter) columnSquares() {
	e.routine("columnSquares", "is sums[j] += (x[i][j]-mean[j])² in float64; its twin is columnSquaresGo.",
		"sums, x, mean", "rows, stride int", "DI", "SI", "R13")
	const mean, d = sumVectors, 2 * sumVectors
	e.float64Sums([]rowPointer{{"SI", "R9", 4}}, func(v int) {
		e.read("VMOVUPD", memx(v*e.bytes, "R13", "R8", 8), e.r(mean+v))
	}, func(v int) {
		e.getWide(mem(v*e.bytes/2, "R9"), d)
		e.op("VSUBPD", e.r(mean+v), e.r(d), e.r(d))
		e.op("VMULPD", e.r(d), e.r(d), e.r(d))
		e.op("VADDPD", e.r(d), e.r(v), e.r(v))
	})
}

func (e *vecEmitter) columnProducts() {
	e.routine("columnProducts", "is sums[j] += (x[i][j]-mean[j])·dy[i][j], the difference in float32, the rest in\nfloat64; its twin is columnProductsGo.",
		"sums, x, dy, mean", "rows, stride int", "DI", "SI", "R11", "R13")
	const mean, d, dy = sumVectors, 2 * sumVectors, 2*sumVectors + 1
	e.float64Sums([]rowPointer{{"SI", "R9", 4}, {"R11", "R12", 4}}, func(v int) {
		e.read("VMOVUPS", memx(v*e.bytes/2, "R13", "R8", 4), e.half(mean+v))
	}, func(v int) {
		e.read("VMOVUPS", mem(v*e.bytes/2, "R9"), e.half(d))
		e.op("VSUBPS", e.half(mean+v), e.half(d), e.half(d))
		e.op("VCVTPS2PD", e.half(d), e.r(d))
		e.getWide(mem(v*e.bytes/2, "R12"), dy)
		e.op("VFMADD231PD", e.r(dy), e.r(d), e.r(v)) // the product is exact
	})
}

// channelConstants loads the vectors of parameters that are arrays of one element a channel: vector v of parameter p goes to
// register p·vectors + v.
func (e *vecEmitter) channelConstants(vectors int, params ...string) {
	for p, name := range params {
		e.load(name, "AX")
		for v := range vectors {
			e.read("VMOVUPS", memx(v*e.bytes, "AX", "R8", 4), e.r(p*vectors+v))
		}
	}
}

// normVectors is how many vectors of channels are done at a time: four constants each and scratch fit the registers.
func (e *vecEmitter) normVectors() int { return e.regs / 8 }

func (e *vecEmitter) batchNorm() {
	e.routine("batchNorm", "is y = (x-mean)·invStd·gamma + beta; its twin is batchNormGo.",
		"y, x, mean, invStd, gamma, beta", "rows, stride int", "DI", "SI")
	e.columns(e.lanes, e.normVectors(), func(vectors int) {
		e.channelConstants(vectors, "mean", "invStd", "gamma", "beta")
		e.rows([]rowPointer{{"SI", "R9", 4}, {"DI", "R12", 4}}, func() {
			for v := range vectors {
				x := 4*vectors + v
				e.getAt(float32s, mem(v*e.bytes, "R9"), x)
				e.subv(x, x, v)
				e.mulv(x, x, vectors+v)
				e.mulv(x, x, 2*vectors+v)
				e.addv(x, x, 3*vectors+v)
				e.putAt(float32s, x, mem(v*e.bytes, "R12"))
			}
		})
	})
}

func (e *vecEmitter) batchNormGradX() {
	e.routine("batchNormGradX", "is dx = scale·(dy - meanDy - (x-mean)·slope); its twin is batchNormGradXGo.",
		"dx, x, dy, mean, scale, meanDy, slope", "rows, stride int", "DI", "SI", "R13")
	e.columns(e.lanes, e.normVectors(), func(vectors int) {
		e.channelConstants(vectors, "mean", "scale", "meanDy", "slope")
		e.rows([]rowPointer{{"SI", "R9", 4}, {"R13", "R11", 4}, {"DI", "R12", 4}}, func() {
			for v := range vectors {
				x, dy := 4*vectors, 4*vectors+1
				e.getAt(float32s, mem(v*e.bytes, "R9"), x)
				e.getAt(float32s, mem(v*e.bytes, "R11"), dy)
				e.subv(x, x, v)
				e.mulv(x, x, 3*vectors+v)
				e.subv(dy, dy, 2*vectors+v)
				e.subv(dy, dy, x)
				e.mulv(dy, dy, vectors+v)
				e.putAt(float32s, dy, mem(v*e.bytes, "R12"))
			}
		})
	})
}
