package ref

import "math"

// channelBlock is how many channels the statistics sum at a time: their float64 sums fit in a fixed array, and their
// values in one cache line of a row.
const channelBlock = 16

// BatchStats computes channels from to to-1 of the mean and the biased variance over all rows: two passes with float64
// sums in row order.
//
// x [...,C], mean, variance [C].
func BatchStats[E Float](mean, variance, x []E, C, from, to int) {
	n := float64(len(x) / C)
	for c0 := from; c0 < to; c0 += channelBlock {
		width := min(channelBlock, to-c0)
		var m, s [channelBlock]float64
		for r := c0; r < len(x); r += C {
			for c, v := range x[r:][:width] {
				m[c] += float64(v)
			}
		}
		for c := range width {
			m[c] /= n
		}
		for r := c0; r < len(x); r += C {
			for c, v := range x[r:][:width] {
				d := float64(v) - m[c]
				s[c] += float64(d * d)
			}
		}
		for c := range width {
			mean[c0+c], variance[c0+c] = E(m[c]), E(s[c]/n)
		}
	}
}

// inverseStd is 1/sqrt(variance+eps), in float64, rounded once.
func inverseStd[E Float](variance E, eps float32) E {
	return E(1 / math.Sqrt(float64(variance)+float64(eps)))
}

// BatchNorm computes y = (x-mean)·inverseStd·gamma + beta for the rows given, each operation rounded.
//
// x, y [M,C], gamma, beta, mean, variance [C].
func BatchNorm[E Float](y, x, gamma, beta, mean, variance []E, eps float32) {
	C := len(gamma)
	for c0 := 0; c0 < C; c0 += channelBlock {
		width := min(channelBlock, C-c0)
		var is [channelBlock]E
		for c := range width {
			is[c] = inverseStd(variance[c0+c], eps)
		}
		g, b, m := gamma[c0:][:width], beta[c0:][:width], mean[c0:][:width]
		for r := c0; r < len(x); r += C {
			out := y[r:][:width]
			for c, v := range x[r:][:width] {
				out[c] = E((v-m[c])*is[c]*g[c]) + b[c]
			}
		}
	}
}

// BatchNormGradGamma computes channels from to to-1 of dgamma: the float64 sum of dy·(x-mean) over the rows in order, times
// inverseStd.
//
// x, dy [...,C], mean, variance, dgamma [C].
func BatchNormGradGamma[E Float](dgamma, x, mean, variance, dy []E, eps float32, from, to int) {
	C := len(mean)
	for c0 := from; c0 < to; c0 += channelBlock {
		width := min(channelBlock, to-c0)
		var s [channelBlock]float64
		for r := c0; r < len(x); r += C {
			g := dy[r:][:width]
			for c, v := range x[r:][:width] {
				s[c] += float64(float64(v-mean[c0+c]) * float64(g[c]))
			}
		}
		for c := range width {
			dgamma[c0+c] = E(s[c] * float64(inverseStd(variance[c0+c], eps)))
		}
	}
}

// BatchNormGradX computes dx for the rows given, through the batch's statistics:
// dx = gamma·inverseStd·(dy - dbeta/n - (x-mean)·inverseStd·dgamma/n), where n is the number of rows in the whole batch.
//
// x, dy, dx [M,C], gamma, mean, variance, dgamma, dbeta [C].
func BatchNormGradX[E Float](dx, x, gamma, mean, variance, dy, dgamma, dbeta []E, eps float32, n int) {
	C := len(gamma)
	for c0 := 0; c0 < C; c0 += channelBlock {
		width := min(channelBlock, C-c0)
		var scale, meanDy, slope [channelBlock]E
		for c := range width {
			is := inverseStd(variance[c0+c], eps)
			scale[c], meanDy[c], slope[c] = gamma[c0+c]*is, dbeta[c0+c]/E(n), is*dgamma[c0+c]/E(n)
		}
		m := mean[c0:][:width]
		for r := c0; r < len(x); r += C {
			out, g := dx[r:][:width], dy[r:][:width]
			for c, v := range x[r:][:width] {
				out[c] = scale[c] * (g[c] - meanDy[c] - E((v-m[c])*slope[c]))
			}
		}
	}
}

// UpdateRunning moves the running statistics: running = (1-momentum)·running + momentum·batch. The running variance takes the
// unbiased one over count values, count/(count-1) times the biased, as in PyTorch.
func UpdateRunning[E Float](runningMean, runningVar, mean, variance []E, momentum float32, count int) {
	m := E(momentum)
	unbiased := E(float64(count) / float64(max(count-1, 1)))
	for c := range runningMean {
		runningMean[c] = E((1-m)*runningMean[c]) + E(m*mean[c])
		runningVar[c] = E((1-m)*runningVar[c]) + E(m*(variance[c]*unbiased))
	}
}
