package kernel

import "unsafe"

// The kernels of batch norm work on rows of C channels, all float32: x [R,C]. C is the length of the statistics.

// normRoutines is the assembly of batch norm. It does the first n channels of all rows; n is a multiple of block.
type normRoutines struct {
	block          int
	columnSums     func(sums, x unsafe.Pointer, n, rows, stride int)
	columnSquares  func(sums, x, mean unsafe.Pointer, n, rows, stride int)
	columnProducts func(sums, x, dy, mean unsafe.Pointer, n, rows, stride int)
	batchNorm      func(y, x, mean, invStd, gamma, beta unsafe.Pointer, n, rows, stride int)
	batchNormGradX func(dx, x, dy, mean, scale, meanDy, slope unsafe.Pointer, n, rows, stride int)
}

// fast gives how many of C channels the assembly does, and the rows of x and their stride.
func (v *Vec) fast(x []float32, C int) (n, rows, stride int) {
	if v.norm == nil || C == 0 || len(x) < C {
		return 0, 0, 0
	}
	return C - C%v.norm.block, len(x) / C, 4 * C
}

// ColumnSums adds the rows of x [R,C] to sums [C] in float64, in order.
func (v *Vec) ColumnSums(sums []float64, x []float32) {
	n, rows, stride := v.fast(x, len(sums))
	if n > 0 {
		v.norm.columnSums(pointer(sums), pointer(x), n, rows, stride)
	}
	columnSumsGo(sums, x, n)
}

func columnSumsGo(sums []float64, x []float32, from int) {
	for C := len(sums); from < C && len(x) >= C; x = x[C:] {
		for c := from; c < C; c++ {
			sums[c] += float64(x[c])
		}
	}
}

// ColumnSquares adds (x-mean)² of each row of x [R,C] to sums [C] in float64, in order.
func (v *Vec) ColumnSquares(sums []float64, x []float32, mean []float64) {
	mean = mean[:len(sums)]
	n, rows, stride := v.fast(x, len(sums))
	if n > 0 {
		v.norm.columnSquares(pointer(sums), pointer(x), pointer(mean), n, rows, stride)
	}
	columnSquaresGo(sums, x, mean, n)
}

func columnSquaresGo(sums []float64, x []float32, mean []float64, from int) {
	for C := len(sums); from < C && len(x) >= C; x = x[C:] {
		for c := from; c < C; c++ {
			d := float64(x[c]) - mean[c]
			sums[c] += float64(d * d)
		}
	}
}

// ColumnProducts adds (x-mean)·dy of each row of x, dy [R,C] to sums [C], in order: the difference in float32, the rest in
// float64.
func (v *Vec) ColumnProducts(sums []float64, x, dy, mean []float32) {
	dy, mean = dy[:len(x)], mean[:len(sums)]
	n, rows, stride := v.fast(x, len(sums))
	if n > 0 {
		v.norm.columnProducts(pointer(sums), pointer(x), pointer(dy), pointer(mean), n, rows, stride)
	}
	columnProductsGo(sums, x, dy, mean, n)
}

func columnProductsGo(sums []float64, x, dy, mean []float32, from int) {
	for C := len(sums); from < C && len(x) >= C; x, dy = x[C:], dy[C:] {
		for c := from; c < C; c++ {
			sums[c] += float64(float64(x[c]-mean[c]) * float64(dy[c]))
		}
	}
}

// BatchNorm is y = (x-mean)·invStd·gamma + beta, each operation rounded: y, x [R,C], the others [C].
func (v *Vec) BatchNorm(y, x, mean, invStd, gamma, beta []float32) {
	C := len(mean)
	x, invStd, gamma, beta = x[:len(y)], invStd[:C], gamma[:C], beta[:C]
	n, rows, stride := v.fast(y, C)
	if n > 0 {
		v.norm.batchNorm(pointer(y), pointer(x), pointer(mean), pointer(invStd), pointer(gamma), pointer(beta), n, rows, stride)
	}
	batchNormGo(y, x, mean, invStd, gamma, beta, n)
}

func batchNormGo(y, x, mean, invStd, gamma, beta []float32, from int) {
	for C := len(mean); from < C && len(x) >= C; y, x = y[C:], x[C:] {
		for c := from; c < C; c++ {
			y[c] = float32((x[c]-mean[c])*invStd[c]*gamma[c]) + beta[c]
		}
	}
}

// BatchNormGradX is dx = scale·(dy - meanDy - (x-mean)·slope), each operation rounded: dx, x, dy [R,C], the others [C].
// With gradients dgamma and dbeta over N rows, scale = gamma·invStd, meanDy = dbeta/N, slope = invStd·dgamma/N.
func (v *Vec) BatchNormGradX(dx, x, dy, mean, scale, meanDy, slope []float32) {
	C := len(mean)
	x, dy, scale, meanDy, slope = x[:len(dx)], dy[:len(dx)], scale[:C], meanDy[:C], slope[:C]
	n, rows, stride := v.fast(dx, C)
	if n > 0 {
		v.norm.batchNormGradX(pointer(dx), pointer(x), pointer(dy),
			pointer(mean), pointer(scale), pointer(meanDy), pointer(slope), n, rows, stride)
	}
	batchNormGradXGo(dx, x, dy, mean, scale, meanDy, slope, n)
}

func batchNormGradXGo(dx, x, dy, mean, scale, meanDy, slope []float32, from int) {
	for C := len(mean); from < C && len(x) >= C; dx, x, dy = dx[C:], x[C:], dy[C:] {
		for c := from; c < C; c++ {
			dx[c] = scale[c] * (dy[c] - meanDy[c] - float32((x[c]-mean[c])*slope[c]))
		}
	}
}
