package ref_test

import (
	"fmt"
	"math"
	"testing"

	"halfstep/golden"
	"halfstep/model/op/ref"
)

// opsFile is testdata/ops.json: PyTorch's float64 results for float32 inputs, rounded to float32.
type opsFile struct {
	Cases []opCase `json:"cases"`
}

type opCase struct {
	Op     string `json:"op"`
	Config struct {
		Kernel, Stride, Padding int
		Bias                    bool
		Eps, Momentum           float32
		Data                    string
	} `json:"config"`
	Inputs     map[string]golden.Tensor `json:"inputs"`
	Upstream   golden.Tensor            `json:"upstream_gradient"`
	Output     golden.Tensor            `json:"output"`
	InputGrads map[string]golden.Tensor `json:"input_gradients"`
	MeanStart  golden.Tensor            `json:"running_mean_at_start"`
	VarStart   golden.Tensor            `json:"running_var_at_start"`
	Steps      []normStep               `json:"steps"`
}

type normStep struct {
	Training   bool                     `json:"training"`
	X          golden.Tensor            `json:"x"`
	Upstream   golden.Tensor            `json:"upstream_gradient"`
	Output     golden.Tensor            `json:"output"`
	InputGrads map[string]golden.Tensor `json:"input_gradients"`
	MeanAfter  golden.Tensor            `json:"running_mean_after"`
	VarAfter   golden.Tensor            `json:"running_var_after"`
}

// nhwc is a tensor in our layout: images NHWC, convolution weights [KH,KW,C,OC], linear weights [K,N], rows and vectors as
// they are.
func nhwc(t golden.Tensor) []float32 {
	if len(t.Shape) != 4 {
		return t.Float32s()
	}
	return golden.Permute(t.Float32s(), t.Shape, 0, 2, 3, 1)
}

func weight(t golden.Tensor) []float32 {
	if len(t.Shape) == 4 {
		return golden.Permute(t.Float32s(), t.Shape, 2, 3, 1, 0)
	}
	return golden.Permute(t.Float32s(), t.Shape, 1, 0)
}

// near compares with the file's advice, absolute plus relative. Its floor: one float32 rounding of the file's numbers is
// relative 6e-8, and float32 sums of up to 300 terms of size 1 are off by about 1e-6.
func near(t *testing.T, what string, got, want []float32, abs, rel float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	worst := 0.0
	for i, w := range want {
		d := math.Abs(float64(got[i]) - float64(w))
		worst = max(worst, d)
		if !(d <= abs+rel*math.Abs(float64(w))) {
			t.Errorf("%s: element %d is %v, want %v", what, i, got[i], w)
			return
		}
	}
	t.Logf("%s: largest difference %.1e", what, worst)
}

func loadOps(t *testing.T) []opCase {
	t.Helper()
	var f opsFile
	if err := golden.Load("testdata/ops.json", &f); err != nil {
		t.Fatal(err)
	}
	return f.Cases
}

// TestOpsAgainstPyTorch checks outputs and gradients of every operation. Advised tolerance: 1e-5 + 1e-5·|want|.
func TestOpsAgainstPyTorch(t *testing.T) {
	for i, c := range loadOps(t) {
		if c.Op == "batchnorm" {
			continue
		}
		t.Run(fmt.Sprintf("%d_%s", i, c.Op), func(t *testing.T) {
			y, grads := runOp(t, c)
			near(t, "output", y, nhwc(c.Output), 1e-5, 1e-5)
			for name, g := range grads {
				want := c.InputGrads[name]
				if name == "weight" {
					near(t, name, g, weight(want), 1e-5, 1e-5)
				} else {
					near(t, name, g, nhwc(want), 1e-5, 1e-5)
				}
			}
			if len(grads) != len(c.InputGrads) {
				t.Errorf("%d gradients checked of %d", len(grads), len(c.InputGrads))
			}
		})
	}
}

// runOp computes output and gradients of a case, in our layout.
func runOp(t *testing.T, c opCase) (y []float32, grads map[string][]float32) {
	t.Helper()
	xt := c.Inputs["x"]
	x, dy := nhwc(xt), nhwc(c.Upstream)
	y, dx := make([]float32, c.Output.Elems()), make([]float32, xt.Elems())
	grads = map[string][]float32{"x": dx}
	s := xt.Shape
	pool := ref.Pool{Size: c.Config.Kernel, Stride: c.Config.Stride}
	switch c.Op {
	case "conv2d":
		return runConv(c, x, dy, grads)
	case "linear":
		return runLinear(c, x, dy, grads)
	case "maxpool2d":
		idx := make([]uint8, len(y))
		ref.MaxPool2D(pool, y, idx, x, s[2], s[3], s[1], 0, s[0])
		ref.MaxPool2DGrad(pool, dx, idx, dy, s[2], s[3], s[1], 0, s[0])
	case "avgpool2d":
		ref.AvgPool2D(pool, y, x, s[2], s[3], s[1], 0, s[0])
		ref.AvgPool2DGrad(pool, dx, dy, s[2], s[3], s[1], 0, s[0])
	case "softmax": // over PyTorch's axis 1, which is our last
		ref.Softmax(y, x, s[1])
		ref.SoftmaxGrad(dx, y, dy, s[1])
	default:
		kind, ok := map[string]ref.Activation{"relu": ref.ReLU, "sigmoid": ref.Sigmoid, "tanh": ref.Tanh, "gelu": ref.GELU, "gelu_tanh": ref.GELUTanh}[c.Op]
		if !ok {
			t.Fatalf("no test for operation %q", c.Op)
		}
		ref.Activate(kind, y, x)
		saved := x
		if kind.SavesOutput() {
			saved = y
		}
		ref.ActivateGrad(kind, dx, saved, dy)
	}
	return y, grads
}

func runConv(c opCase, x, dy []float32, grads map[string][]float32) ([]float32, map[string][]float32) {
	s, ws := c.Inputs["x"].Shape, c.Inputs["weight"].Shape
	B, C, H, W, OC := s[0], s[1], s[2], s[3], ws[0]
	a := ref.Conv{KH: ws[2], KW: ws[3], Stride: c.Config.Stride, Pad: c.Config.Padding}
	OH, _ := a.Out(H, W)
	w := weight(c.Inputs["weight"])
	var b []float32
	if c.Config.Bias {
		b = c.Inputs["bias"].Float32s()
		grads["bias"] = make([]float32, OC)
		ref.BiasGrad(grads["bias"], dy, OC, 0, OC)
	}
	y, dw := make([]float32, len(dy)), make([]float32, len(w))
	ref.Conv2D(a, y, x, w, b, H, W, C, OC, 0, B*OH)
	ref.Conv2DGradX(a, grads["x"], w, dy, H, W, C, OC, 0, B*H)
	ref.Conv2DGradW(a, dw, x, dy, B, H, W, C, OC, 0, a.KH*a.KW*C)
	grads["weight"] = dw
	return y, grads
}

func runLinear(c opCase, x, dy []float32, grads map[string][]float32) ([]float32, map[string][]float32) {
	N, K := c.Inputs["weight"].Shape[0], c.Inputs["weight"].Shape[1]
	w := weight(c.Inputs["weight"])
	var b []float32
	if c.Config.Bias {
		b = c.Inputs["bias"].Float32s()
		grads["bias"] = make([]float32, N)
		ref.BiasGrad(grads["bias"], dy, N, 0, N)
	}
	y, dw := make([]float32, len(dy)), make([]float32, len(w))
	ref.Linear(y, x, w, b, K, N)
	ref.LinearGradX(grads["x"], dy, w, K, N)
	ref.LinearGradW(dw, x, dy, K, N, 0, K)
	grads["weight"] = dw
	return y, grads
}

// TestBatchNormAgainstPyTorch runs three training steps and one of evaluation on the same running statistics. Advised
// tolerance: 5e-5 absolute.
func TestBatchNormAgainstPyTorch(t *testing.T) {
	for _, c := range loadOps(t) {
		if c.Op != "batchnorm" {
			continue
		}
		gamma, beta := c.Inputs["weight"].Float32s(), c.Inputs["bias"].Float32s()
		runMean, runVar := c.MeanStart.Float32s(), c.VarStart.Float32s()
		C, eps := len(gamma), c.Config.Eps
		for i, s := range c.Steps {
			x, dy := nhwc(s.X), nhwc(s.Upstream)
			n := len(x) / C
			mean, variance := make([]float32, C), make([]float32, C)
			ref.BatchStats(mean, variance, x, C, 0, C)
			if s.Training {
				ref.UpdateRunning(runMean, runVar, mean, variance, c.Config.Momentum, n)
			} else {
				copy(mean, runMean)
				copy(variance, runVar)
			}
			y, dx, dgamma, dbeta := make([]float32, len(x)), make([]float32, len(x)), make([]float32, C), make([]float32, C)
			ref.BatchNorm(y, x, gamma, beta, mean, variance, eps)
			what := fmt.Sprintf("%v step %d ", s.X.Shape, i)
			near(t, what+"output", y, nhwc(s.Output), 5e-5, 0)
			near(t, what+"running mean", runMean, s.MeanAfter.Float32s(), 5e-5, 0)
			near(t, what+"running variance", runVar, s.VarAfter.Float32s(), 5e-5, 0)
			if !s.Training {
				continue
			}
			ref.BatchNormGradGamma(dgamma, x, mean, variance, dy, eps, 0, C)
			ref.BiasGrad(dbeta, dy, C, 0, C)
			ref.BatchNormGradX(dx, x, gamma, mean, variance, dy, dgamma, dbeta, eps, n)
			near(t, what+"dx", dx, nhwc(s.InputGrads["x"]), 5e-5, 0)
			near(t, what+"dgamma", dgamma, s.InputGrads["weight"].Float32s(), 5e-5, 0)
			near(t, what+"dbeta", dbeta, s.InputGrads["bias"].Float32s(), 5e-5, 0)
		}
	}
}

// lossCase is one case of testdata/losses.json.
type lossCase struct {
	Loss       string        `json:"loss"`
	Data       string        `json:"data"`
	Reduction  string        `json:"reduction"`
	Smoothing  float32       `json:"label_smoothing"`
	Logits     golden.Tensor `json:"logits"`
	Labels     []int32       `json:"target_classes"`
	Prediction golden.Tensor `json:"prediction"`
	Target     golden.Tensor `json:"target"`
	Probs      golden.Tensor `json:"target_probabilities"`
	Value      float64       `json:"value"`
	GradLogits golden.Tensor `json:"gradient_of_logits"`
	GradPred   golden.Tensor `json:"gradient_of_prediction"`
}

// TestLossesAgainstPyTorch uses the advised tolerances: values 1e-6 + 1e-5·|want|, gradients 1e-6 + 1e-5·|want|; that
// covers logits of ±1e4, where everything must stay finite.
func TestLossesAgainstPyTorch(t *testing.T) {
	var f struct {
		Cases []lossCase `json:"cases"`
	}
	if err := golden.Load("testdata/losses.json", &f); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range f.Cases {
		var value float64
		var grad, want []float32
		switch c.Loss {
		case "cross_entropy":
			value, grad = crossEntropy(c)
			want = c.GradLogits.Float32s()
		case "mse":
			value, grad = pointwise(ref.MSE, c, c.Prediction, c.Target)
			want = c.GradPred.Float32s()
		case "bce_with_logits":
			value, grad = pointwise(ref.BCEWithLogits, c, c.Logits, c.Probs)
			want = c.GradLogits.Float32s()
		case "log_softmax": // no operation of its own
			continue
		default:
			t.Fatalf("no test for loss %q", c.Loss)
		}
		checked++
		what := fmt.Sprintf("%s %s %s smoothing %v", c.Loss, c.Data, c.Reduction, c.Smoothing)
		if d := math.Abs(value - c.Value); !(d <= 1e-6+1e-5*math.Abs(c.Value)) {
			t.Errorf("%s: %v, want %v", what, value, c.Value)
		} else {
			t.Logf("%s: relative difference %.1e", what, d/math.Abs(c.Value))
		}
		near(t, what+": gradient", grad, want, 1e-6, 1e-5)
	}
	if checked == 0 {
		t.Error("nothing checked")
	}
}

func crossEntropy(c lossCase) (float64, []float32) {
	x := c.Logits.Float32s()
	B, C := c.Logits.Shape[0], c.Logits.Shape[1]
	rows, grad := make([]float64, B), make([]float32, len(x))
	ref.CrossEntropy(rows, x, c.Labels, C, c.Smoothing)
	value, dloss := ref.Sum64(rows), float32(B)
	if c.Reduction == "mean" {
		value, dloss = value/float64(B), 1
	}
	ref.CrossEntropyGrad(grad, x, c.Labels, dloss, B, C, c.Smoothing)
	return value, grad
}

func pointwise(l ref.PointLoss, c lossCase, y, target golden.Tensor) (float64, []float32) {
	v, t := y.Float32s(), target.Float32s()
	r := map[string]ref.Reduction{"mean": ref.Mean, "sum": ref.Sum}[c.Reduction]
	divisor := float64(r.Divisor(len(v), y.Shape[0]))
	grad := make([]float32, len(v))
	ref.PointwiseLossGrad(l, grad, v, t, 1/divisor)
	return ref.PointwiseLossSum(l, v, t) / divisor, grad
}
