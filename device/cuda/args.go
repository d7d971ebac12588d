//go:build linux && gpu && (amd64 || arm64)

package cuda

import "halfstep/device/cuda/driver"

// The structs that kernels take, field by field as in kernels/*.h, where their meaning is told. kernels.check compares
// their sizes with the PTX.

type ptr = driver.Ptr

type castArgs struct {
	y, x        ptr
	n, to, from int32
}

type zeroArgs struct {
	x          ptr
	n, vectors int32
}

type activationArgs struct {
	y, x, dy ptr
	n, kind  int32
}

type addArgs struct {
	y, a, b ptr
	n       int32
}

type dropoutArgs struct {
	y, mask, x, counters           ptr
	samples, elems                 int32
	key0, key1, purpose, threshold uint32
	scale                          float32
}

type applyMaskArgs struct {
	dx, dy, mask ptr
	n            int32
	scale        float32
}

type accumulateArgs struct {
	acc, g, scale ptr
	n, dtype      int32
}

type gatherImagesArgs struct {
	x, images, order, counters ptr
	labels, allLabels          ptr
	batch, h, w, c, shift      int32
	key0, key1                 uint32
	mean, std                  float32
}

type gatherRowsArgs struct {
	dst, src, order, counters ptr
	rows, elems, dtype        int32
}

type oneHotArgs struct {
	y, labels         ptr
	n, classes, dtype int32
}

type poolArgs struct {
	y, idx, x                        ptr
	n, h, w, c, ph, pw, size, stride int32
	mark                             int32
}

type columnSumArgs struct {
	partials, x, dy, mean64, mean ptr
	rows, c, kind                 int32
}

type columnFinishArgs struct {
	out, mean64, partials, variance ptr
	blocks, rows, c, kind           int32
	eps                             float32
}

type columnTotalsArgs struct {
	sum    columnSumArgs
	finish columnFinishArgs
}

type batchNormArgs struct {
	y, x, dy, gamma, beta, mean, variance, dgamma, dbeta ptr
	n, c                                                 int32
	eps                                                  float32
}

type runningArgs struct {
	runningMean, runningVar, mean, variance, control ptr
	c                                                int32
	momentum, unbiased                               float32
}

type commitArgs struct {
	running, shadow, control ptr
	c                        int32
}

type softmaxArgs struct {
	y, x, dy ptr
	rows, c  int32
}

type crossEntropyArgs struct {
	rowLoss, dx, x, labels, dloss ptr
	rows, c                       int32
	smoothing                     float32
}

type sumArgs struct {
	out, terms ptr
	n          int32
	divisor    float64
}

type pointwiseArgs struct {
	partials, dy, y, t, dloss ptr
	n, loss, dtype, tDType    int32
	divisor                   float64
}

type countCorrectArgs struct {
	out, x, labels ptr
	rows, c, dtype int32
}

// statTensor is a row of a table in device memory, as optimizerTensor.
type statTensor struct {
	g               ptr
	n, dtype, first int32
	_               int32
}

type gradStatsArgs struct {
	tensors, scale, sums, bad, flags, squares ptr
	count, chunks                             int32
}

type stepControlArgs struct {
	control, scale, counters, flags, squares, rates ptr
	count, rows                                     int32
	clipNorm                                        float32
	unscaled, scalerEnabled, growthInterval         int32
	growthFactor, backoffFactor, minScale, maxScale float32
}

type ringRowArgs struct {
	ring, counters, loss, correct, control, flags ptr
	rows, samples, count                          int32
	advance                                       advanceArgs
}

type advanceArgs struct {
	counters         ptr
	samples, attempt int32
}

type scalarArgs struct {
	out, a, b ptr
	value     float32
	isInt     int32
}

type optimizerTensor struct {
	p, g                        ptr
	state                       [3]ptr
	half                        ptr
	n, gDType, halfDType, first int32
}

type optimizerArgs struct {
	tensors, control, counters, coefficients                ptr
	count, momentum, nesterov, amsgrad, decoupled, centered int32
	hyper                                                   [4]float64
}

type epilogue struct {
	c, partials, bias, mask, argmax       ptr
	m, n, k, splits, relu, cFloat32, pool int32
}

type linearArgs struct {
	out        epilogue
	a, b       ptr
	vecA, vecB int32
}

type convArgs struct {
	out                                      epilogue
	a, b                                     ptr
	h, w, c, oh, ow, oc, kh, kw, stride, pad int32
	pool, ph, pw                             int32
	vecA, vecB                               int32
}

type matmul64Args struct {
	c, a, b ptr
	m, n, k int32
}

type peakArgs struct {
	out    ptr
	rounds int32
}
