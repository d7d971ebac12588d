package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"halfstep/model/op/ref"
)

// exactActivation is f(x) and f'(x) by package math, in forms that lose nothing to cancellation.
func exactActivation(kind ref.Activation, x float64) (y, slope float64) {
	switch kind {
	case ref.Sigmoid:
		y = 1 / (1 + math.Exp(-x))
		return y, y * (1 - y)
	case ref.Tanh:
		y = math.Tanh(x)
		return y, 1 - y*y
	case ref.GELU:
		cdf := 0.5 * math.Erfc(-x/math.Sqrt2)
		return x * cdf, cdf + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	}
	a := 2 * math.Sqrt(2/math.Pi)
	s := 1 / (1 + math.Exp(-a*(x+0.044715*x*x*x)))
	return x * s, s + x*s*(1-s)*a*(1+3*0.044715*x*x)
}

// ulp is the distance of float32 numbers around x.
func ulp(x float64) float64 {
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-24, -149))
}

// activationInputs are the special numbers, but the infinities, and numbers of all magnitudes that matter.
func activationInputs(r *rand.Rand) []float32 {
	var x []float32
	for _, b := range special {
		if f := math.Float32frombits(b); !math.IsInf(float64(f), 0) {
			x = append(x, f)
		}
	}
	for range 200000 {
		x = append(x, float32(r.Float64()*40-20), float32(r.NormFloat64()), float32(math.Exp2(r.Float64()*40-30))*float32(2*r.IntN(2)-1))
	}
	for i := range 3000 {
		x = append(x, float32(i-1500)/12)
	}
	return x
}

// activationLimit is the largest error allowed of f at x, in ulps of f(x). The parts of sigmoid and tanh (exp within 1, a sum and a
// division of half an ulp each) add up to 2 and more; gelu's tail is a polynomial of ten terms. In the tanh form an
// error of 1 to 2 ulps of w, exp's argument, becomes one of w times as many.
func activationLimit(kind ref.Activation, x float64) float64 {
	switch kind {
	case ref.Sigmoid, ref.Tanh:
		return 3
	case ref.GELU:
		return 12
	}
	return 4 + 2.5*math.Abs(1.6*(x+0.044715*x*x*x))
}

// The gradients of gelu are compared in ulps of 1, their largest value being 1.13.
const gradLimit = 4

func TestActivationsAgainstMath(t *testing.T) {
	x := activationInputs(rand.New(rand.NewPCG(21, 22)))
	y, dx, dy := make([]float32, len(x)), make([]float32, len(x)), make([]float32, len(x))
	for i := range dy {
		dy[i] = 1
	}
	forLevels(t, func(t *testing.T, v *Vec) {
		for _, kind := range []ref.Activation{ref.Sigmoid, ref.Tanh, ref.GELU, ref.GELUTanh} {
			v.Activate(kind, y, x)
			clear(dx)
			if !kind.SavesOutput() {
				v.ActivateGrad(kind, dx, x, dy)
			}
			worst, worstNear, worstGrad := 0.0, 0.0, 0.0
			for i, in := range x {
				want, slope := exactActivation(kind, float64(in))
				if in != in {
					if y[i] == y[i] {
						t.Fatalf("%v of NaN is %v", kind, y[i])
					}
					continue
				}
				// 1+erf and 1+tanh in float64, which the portable level computes, cancel below zero.
				lost := math.Abs(float64(in)) * 0x1p-53
				d := max(0, math.Abs(float64(y[i])-want)-lost) / ulp(want)
				if limit := activationLimit(kind, float64(in)); !(d <= limit) {
					t.Fatalf("%v(%v) = %v, want %v: %.2f ulp off, at most %.2f", kind, in, y[i], want, d, limit)
				}
				worst = max(worst, d)
				if in > -3 {
					worstNear = max(worstNear, d)
				}
				if kind.SavesOutput() {
					continue
				}
				d = math.Abs(float64(dx[i])-slope) / ulp(1)
				if !(d <= gradLimit) {
					t.Fatalf("%v'(%v) = %v, want %v", kind, in, dx[i], slope)
				}
				worstGrad = max(worstGrad, d)
			}
			t.Logf("%v: at most %.2f ulp off, above -3 %.2f; gradient %.2f ulp of 1", kind, worst, worstNear, worstGrad)
		}
	})
}

// The derivatives from the output are a few operations, the same as the reference's.
func TestActivationGradsAgainstReference(t *testing.T) {
	forLevels(t, func(t *testing.T, v *Vec) {
		r := rand.New(rand.NewPCG(23, 24))
		y, dy, dx, want := make([]float32, 1003), make([]float32, 1003), make([]float32, 1003), make([]float32, 1003)
		for _, kind := range []ref.Activation{ref.Sigmoid, ref.Tanh} {
			fill(y, r, randomFloat32)
			fill(dy, r, randomFloat32)
			v.ActivateGrad(kind, dx, y, dy)
			ref.ActivateGrad(kind, want, y, dy)
			equalBits(t, kind.String()+" gradient", dx, want)
		}
	})
}

// An element's result is the same wherever it stands, and nothing beyond the ends is written.
func TestActivationsOfEveryLength(t *testing.T) {
	forLevels(t, func(t *testing.T, v *Vec) {
		r := rand.New(rand.NewPCG(25, 26))
		all, grads := normals(r, make([]float32, 256)), normals(r, make([]float32, 256))
		want, wantGrad := make([]float32, 256), make([]float32, 256)
		for _, kind := range []ref.Activation{ref.Sigmoid, ref.Tanh, ref.GELU, ref.GELUTanh} {
			v.Activate(kind, want, all)
			v.ActivateGrad(kind, wantGrad, all, grads)
			shapes(4, func(n, offset int) {
				y := newGuarded[float32](n, offset)
				v.Activate(kind, y.data, all[:n])
				equalBits(t, kind.String(), y.data, want[:n])
				v.ActivateGrad(kind, y.data, all[:n], grads[:n])
				equalBits(t, kind.String()+" gradient", y.data, wantGrad[:n])
				y.check(t, kind.String())
			})
		}
	})
}

// TestExp: e to the x within one unit in the last place where it is a normal number, the ends, and softmax in place.
func TestExp(t *testing.T) {
	forLevels(t, func(t *testing.T, v *Vec) {
		if v.Level == Portable {
			return // has ref.Softmax
		}
		r := rand.New(rand.NewPCG(5, 6))
		x := []float32{0, float32(math.Copysign(0, -1)), 88.7, -87.3, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1e30, -1e30}
		for range 100001 {
			x = append(x, float32(r.Float64()*174-87))
		}
		y := make([]float32, len(x))
		v.exp(y, x)
		worst := 0.0
		for i, a := range x {
			want := math.Exp(float64(a))
			switch {
			case math.IsNaN(want) != math.IsNaN(float64(y[i])), want > math.MaxFloat32 && !math.IsInf(float64(y[i]), 1), want < 1e-46 && y[i] != 0:
				t.Errorf("exp(%g) = %g, want %g", a, y[i], want)
			case want > 1e-37 && want < math.MaxFloat32:
				worst = max(worst, math.Abs(float64(y[i])-want)/ulp(want))
			}
		}
		t.Logf("%.2f ulp", worst)
		if worst > 1 {
			t.Errorf("off by %.2f ulp, want at most 1", worst)
		}
		in := []float32{1, 2, 3, -1e4, 5, 5}
		v.Softmax(in, in, 3)
		want := make([]float32, 6)
		ref.Softmax(want, []float32{1, 2, 3, -1e4, 5, 5}, 3)
		for i := range want {
			if math.Abs(float64(in[i]-want[i])) > 4*math.Ldexp(1, -24) {
				t.Errorf("softmax %v, want %v", in, want)
			}
		}
	})
}
