package ref

import "math"

// Activate computes y = f(x) for each element. NaN stays NaN, as in PyTorch. All but relu are computed in float64 and
// rounded once.
func Activate[E Float](kind Activation, y, x []E) {
	y = y[:len(x)]
	switch kind {
	case ReLU:
		for i, v := range x {
			if v < 0 { // false for NaN
				v = 0
			}
			y[i] = v
		}
	case Sigmoid:
		for i, v := range x {
			y[i] = E(sigmoid(float64(v)))
		}
	case Tanh:
		for i, v := range x {
			y[i] = E(math.Tanh(float64(v)))
		}
	case GELU:
		for i, v := range x {
			y[i] = E(float64(v) * normalCDF(float64(v)))
		}
	case GELUTanh:
		for i, v := range x {
			t, _ := geluTanh(float64(v))
			y[i] = E(0.5 * float64(v) * (1 + t))
		}
	}
}

// ActivateGrad computes dx = dy·f' for each element. The saved operand is f's output for relu, sigmoid and tanh, its input
// for gelu. relu passes dy only where its output is above zero: not at 0, not at NaN.
func ActivateGrad[E Float](kind Activation, dx, saved, dy []E) {
	dx, dy = dx[:len(saved)], dy[:len(saved)]
	switch kind {
	case ReLU:
		for i, y := range saved {
			g := dy[i]
			if !(y > 0) {
				g = 0
			}
			dx[i] = g
		}
	case Sigmoid:
		for i, y := range saved {
			dx[i] = dy[i] * (1 - y) * y
		}
	case Tanh:
		for i, y := range saved {
			dx[i] = dy[i] * (1 - E(y*y))
		}
	case GELU:
		for i, v := range saved {
			x := float64(v)
			density := math.Exp(-0.5*x*x) / math.Sqrt(2*math.Pi)
			dx[i] = E(float64(dy[i]) * (normalCDF(x) + float64(x*density)))
		}
	case GELUTanh:
		for i, v := range saved {
			x := float64(v)
			t, dt := geluTanh(x)
			dx[i] = E(float64(dy[i]) * (float64(0.5*(1+t)) + float64(0.5*x*dt)))
		}
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func normalCDF(x float64) float64 { return float64(0.5 * (1 + math.Erf(x/math.Sqrt2))) }

// geluTanh is t = tanh(√(2/π)·(x + 0.044715·x³)) of the tanh approximation (Hendrycks and Gimpel, "Gaussian Error Linear
// Units", 2016) and dt/dx.
func geluTanh(x float64) (t, dt float64) {
	const a, b = 0.7978845608028654, 0.044715 // √(2/π)
	t = math.Tanh(a * (x + float64(b*x*x*x)))
	dt = (1 - float64(t*t)) * a * (1 + float64(3*b*x*x))
	return t, dt
}

// Softmax computes exp(x-max)/sum for each row given, in float64, rounded once.
//
// x, y [M,C].
func Softmax[E Float](y, x []E, C int) {
	for i := 0; i < len(x); i += C {
		row, out := x[i:i+C], y[i:i+C]
		m, sum := maxAndSum(row)
		for j, v := range row {
			out[j] = E(math.Exp(float64(v)-m) / sum)
		}
	}
}

// SoftmaxGrad computes dx = y·(dy - sum(y·dy)) for each row given, in float64, rounded once.
//
// y, dy, dx [M,C].
func SoftmaxGrad[E Float](dx, y, dy []E, C int) {
	for i := 0; i < len(y); i += C {
		p, g, out := y[i:i+C], dy[i:i+C], dx[i:i+C]
		dot := 0.0
		for j, v := range p {
			dot += float64(float64(v) * float64(g[j]))
		}
		for j, v := range p {
			out[j] = E(float64(v) * (float64(g[j]) - dot))
		}
	}
}

// maxAndSum is the row's maximum and the sum of exp(x-max).
func maxAndSum[E Float](row []E) (m, sum float64) {
	m = math.Inf(-1)
	for _, v := range row {
		m = max(m, float64(v))
	}
	for _, v := range row {
		sum += math.Exp(float64(v) - m)
	}
	return m, sum
}

// Add computes y = a + b for each element.
func Add[E Float](y, a, b []E) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		y[i] = v + b[i]
	}
}
