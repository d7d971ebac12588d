// Package ref holds the slow, readable loops that define what every operation computes. Gorgonia runs them through
// model/op, the CPU device's portable level runs them on its workers, and every fast kernel is tested against them.
//
// Layouts: images [B,H,W,C] (NHWC), convolution weights [KH,KW,C,OC], linear weights [K,N] (y = x·W + b). Sums run in
// index order with the bias as first term; no multiply-add is contracted, so results are the same on every machine.
package ref

// Conv is the shape of a 2-D cross-correlation with square stride and zero padding.
type Conv struct {
	KH, KW, Stride, Pad int
}

// Out gives the output size for an h by w input; 0 where the kernel is larger than the padded input.
func (c Conv) Out(h, w int) (oh, ow int) {
	return windows(h+2*c.Pad, c.KH, c.Stride), windows(w+2*c.Pad, c.KW, c.Stride)
}

// windows is the number of windows of a size that fit in n.
func windows(n, size, stride int) int {
	if n < size {
		return 0
	}
	return (n-size)/stride + 1
}

// Pool is the shape of a 2-D pooling window. An odd last row or column is dropped (floor mode).
type Pool struct {
	Size, Stride int
}

// Out gives the output size for an h by w input; 0 where the window is larger than the input.
func (p Pool) Out(h, w int) (oh, ow int) {
	return windows(h, p.Size, p.Stride), windows(w, p.Size, p.Stride)
}

// Activation is an elementwise nonlinearity.
type Activation uint8

// The activations. GELU is the erf form, GELUTanh the tanh approximation.
const (
	ReLU Activation = iota
	Sigmoid
	Tanh
	GELU
	GELUTanh
)

var activationNames = [...]string{"relu", "sigmoid", "tanh", "gelu", "gelu_tanh"}

func (a Activation) String() string { return activationNames[a] }

// SavesOutput reports whether the derivative is computed from the output (relu, sigmoid, tanh) or the input (gelu).
func (a Activation) SavesOutput() bool { return a <= Tanh }

// Reduction says how a loss is summed up.
type Reduction uint8

// Mean divides by the number of elements, Sum by nothing, BatchMean by the number of samples.
const (
	Mean Reduction = iota
	Sum
	BatchMean
)

var reductionNames = [...]string{"mean", "sum", "batch_mean"}

func (r Reduction) String() string { return reductionNames[r] }
