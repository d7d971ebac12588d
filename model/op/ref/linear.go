package ref

// Float is what the loops compute in: float32 in programs, float64 for derivative checks.
type Float interface{ float32 | float64 }

// Linear computes y = x·w + b for the rows of x and y given: each y[i,n] is b[n] (0 when b is nil) plus x[i,k]·w[k,n] for
// k = 0, 1, ...
//
// x [M,K], w [K,N], b [N] or nil, y [M,N].
func Linear[E Float](y, x, w, b []E, K, N int) {
	for i := range len(y) / N {
		row := y[i*N:][:N]
		setBias(row, b)
		addProducts(row, x[i*K:][:K], 1, w)
	}
}

// LinearGradX computes dx = dy·wᵀ for the rows of dx and dy given: each dx[i,k] sums dy[i,n]·w[k,n] over n.
//
// dy [M,N], w [K,N], dx [M,K].
func LinearGradX[E Float](dx, dy, w []E, K, N int) {
	for i := range len(dx) / K {
		row := dx[i*K:][:K]
		clear(row)
		addDots(row, dy[i*N:][:N], w)
	}
}

// LinearGradW computes rows from to to-1 of dw = xᵀ·dy: each dw[k,n] sums x[m,k]·dy[m,n] over the batch in order.
//
// x [M,K], dy [M,N], dw [K,N].
func LinearGradW[E Float](dw, x, dy []E, K, N, from, to int) {
	for k := from; k < to; k++ {
		row := dw[k*N:][:N]
		clear(row)
		addProducts(row, x[k:], K, dy)
	}
}

// BiasGrad computes channels from to to-1 of db: the sum of dy over its rows in order.
//
// dy [...,C], db [C].
func BiasGrad[E Float](db, dy []E, C, from, to int) {
	db = db[from:to]
	clear(db)
	for r := 0; r < len(dy); r += C {
		row := dy[r+from:][:len(db)]
		for c, v := range row {
			db[c] += v
		}
	}
}

func setBias[E Float](y, b []E) {
	if b == nil {
		clear(y)
		return
	}
	copy(y, b)
}

// addProducts adds x·w to y: y[j] += x[k·stride]·w[k,j] for k = 0, 1, ... while w has rows. Four rows at a time save loads and
// stores of y; the order of the additions stays that of the plain loop.
//
// w [K,len(y)].
func addProducts[E Float](y, x []E, stride int, w []E) {
	n := len(y)
	k := 0
	for ; len(w) >= 4*n; k, w = k+4*stride, w[4*n:] {
		x0, x1, x2, x3 := x[k], x[k+stride], x[k+2*stride], x[k+3*stride]
		w0, w1, w2, w3 := w[:n], w[n:][:n], w[2*n:][:n], w[3*n:][:n]
		for j, v := range y {
			y[j] = v + E(x0*w0[j]) + E(x1*w1[j]) + E(x2*w2[j]) + E(x3*w3[j])
		}
	}
	for ; len(w) >= n; k, w = k+stride, w[n:] {
		x0 := x[k]
		for j, v := range w[:n] {
			y[j] += E(x0 * v)
		}
	}
}

// addDots adds to each y[k] the products x[j]·w[k,j] for j = 0, 1, ... Four rows at a time hide the latency of the
// additions; each sum keeps its order.
//
// w [len(y),len(x)].
func addDots[E Float](y, x, w []E) {
	n := len(x)
	k := 0
	for ; k+4 <= len(y); k, w = k+4, w[4*n:] {
		y0, y1, y2, y3 := y[k], y[k+1], y[k+2], y[k+3]
		w0, w1, w2, w3 := w[:n], w[n:][:n], w[2*n:][:n], w[3*n:][:n]
		for j, v := range x {
			y0 += E(v * w0[j])
			y1 += E(v * w1[j])
			y2 += E(v * w2[j])
			y3 += E(v * w3[j])
		}
		y[k], y[k+1], y[k+2], y[k+3] = y0, y1, y2, y3
	}
	for ; k < len(y); k, w = k+1, w[n:] {
		for j, v := range x {
			y[k] += E(v * w[j])
		}
	}
}
