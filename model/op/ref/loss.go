package ref

import "math"

// SumChunk is the number of elements whose float64 sum is one partial: sums over many elements are cut in chunks of so
// many, each summed in order, and the partials are added in order. So they do not depend on the number of workers.
const SumChunk = 4096

// Sum64 adds v in chunks of SumChunk.
func Sum64(v []float64) float64 {
	total := 0.0
	for len(v) > 0 {
		chunk := v[:min(SumChunk, len(v))]
		v = v[len(chunk):]
		part := 0.0
		for _, x := range chunk {
			part += x
		}
		total += part
	}
	return total
}

// CrossEntropy computes each row's loss in float64: minus the log-probability of the label, or with smoothing s minus the
// mean of all log-probabilities under the target (1-s)·onehot + s/C. Log-probabilities are (x-max) - log(sum), which
// stays exact for extreme logits. Labels must lie in 0..C-1.
//
// loss [M], x [M,C], labels [M].
func CrossEntropy[E Float](loss []float64, x []E, labels []int32, C int, smoothing float32) {
	s := float64(smoothing)
	for i, label := range labels {
		row := x[i*C:][:C]
		m, sum := maxAndSum(row)
		logSum := math.Log(sum)
		l := float64(-(1 - s) * ((float64(row[label]) - m) - logSum))
		if s != 0 {
			all := 0.0
			for _, v := range row {
				all += (float64(v) - m) - logSum
			}
			l -= float64(s / float64(C) * all)
		}
		loss[i] = l
	}
}

// CrossEntropyGrad computes the gradient of the mean over B rows, times dloss: (softmax - target)·(dloss/B), in float64,
// rounded once.
//
// dx, x [M,C], labels [M].
func CrossEntropyGrad[E Float](dx, x []E, labels []int32, dloss E, B, C int, smoothing float32) {
	s, scale := float64(smoothing), float64(dloss)/float64(B)
	for i, label := range labels {
		row, out := x[i*C:][:C], dx[i*C:][:C]
		m, sum := maxAndSum(row)
		for j, v := range row {
			d := math.Exp(float64(v)-m)/sum - s/float64(C)
			if j == int(label) {
				d -= 1 - s
			}
			out[j] = E(d * scale)
		}
	}
}

// PointLoss names a loss that is a sum over elements.
type PointLoss uint8

// MSE is (y-t)²; BCEWithLogits is max(y,0) - y·t + log(1+exp(-|y|)).
const (
	MSE PointLoss = iota
	BCEWithLogits
)

var pointLossNames = [...]string{"mse", "bce_with_logits"}

func (l PointLoss) String() string { return pointLossNames[l] }

// Divisor is what the sum over elems elements of batch samples is divided by.
func (r Reduction) Divisor(elems, batch int) int {
	switch r {
	case Mean:
		return elems
	case BatchMean:
		return batch
	}
	return 1
}

// PointwiseLoss is the float64 sum of the loss over the elements of one chunk, in order. MSE's terms are computed in E,
// BCEWithLogits' in float64 and rounded to E.
func PointwiseLoss[E Float](l PointLoss, y, t []E) float64 {
	t = t[:len(y)]
	sum := 0.0
	if l == MSE {
		for i, v := range y {
			d := v - t[i]
			sum += float64(E(d * d))
		}
		return sum
	}
	for i, v := range y {
		x := float64(v)
		sum += float64(E(max(x, 0) - float64(x*float64(t[i])) + math.Log1p(math.Exp(-math.Abs(x)))))
	}
	return sum
}

// PointwiseLossSum is the sum of the loss over all elements, chunk by chunk.
func PointwiseLossSum[E Float](l PointLoss, y, t []E) float64 {
	total := 0.0
	for len(y) > 0 {
		n := min(SumChunk, len(y))
		total += PointwiseLoss(l, y[:n], t[:n])
		y, t = y[n:], t[n:]
	}
	return total
}

// PointwiseLossGrad computes the gradient by y, times scale = dloss/divisor: MSE 2·(y-t)·scale, BCEWithLogits
// (sigmoid(y)-t)·scale; in float64, rounded once.
func PointwiseLossGrad[E Float](l PointLoss, dy, y, t []E, scale float64) {
	dy, t = dy[:len(y)], t[:len(y)]
	if l == MSE {
		for i, v := range y {
			dy[i] = E(2 * float64(v-t[i]) * scale)
		}
		return
	}
	for i, v := range y {
		dy[i] = E((sigmoid(float64(v)) - float64(t[i])) * scale)
	}
}

// CountCorrect counts the rows whose first maximum is at the label. A row with a NaN counts as wrong.
//
// x [M,C], labels [M].
func CountCorrect[E Float](x []E, labels []int32, C int) int {
	count := 0
	for i, label := range labels {
		row := x[i*C:][:C]
		best, nan := 0, false
		for j, v := range row {
			if v > row[best] {
				best = j
			}
			nan = nan || v != v
		}
		if best == int(label) && !nan {
			count++
		}
	}
	return count
}

// GradStats looks at one chunk of a raw gradient: whether any element is infinite or NaN, and the float64 sum in order of
// the squares of the unscaled elements g·inverse, each rounded to E.
func GradStats[E Float](g []E, inverse E) (bad bool, squares float64) {
	for _, v := range g {
		bad = bad || v-v != 0
		u := float64(v * inverse)
		squares += float64(u * u)
	}
	return bad, squares
}
