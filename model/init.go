package model

import (
	"fmt"
	"math"

	"halfstep/philox"
)

// Init draws a parameter's first values from the stream philox.Init+Index of the seed: PyTorch's distributions (torch.nn.init;
// the default is uniform in ±1/sqrt(fan_in) for weights and biases). Elements are drawn in PyTorch's order and then
// permuted, so that the same seed gives the same network whatever the layout inside, and a PyTorch script can draw it too.
func Init(p Param, seed uint64) []float32 {
	s := philox.NewStream(seed, philox.Init+uint32(p.Index), 0, 0)
	v := make([]float32, p.Elems())
	fanIn, fanOut := float64(p.FanIn), float64(p.FanOut)
	switch p.Init.Name {
	case "zeros":
		return v
	case "ones":
		for i := range v {
			v[i] = 1
		}
		return v
	case "normal":
		normal(s, v, float64(p.Init.Mean), float64(p.Init.Std))
	case "uniform":
		uniform(s, v, float64(p.Init.Low), float64(p.Init.High))
	case "kaiming_normal":
		normal(s, v, 0, math.Sqrt(2/fanIn))
	case "kaiming_uniform":
		symmetric(s, v, math.Sqrt(6/fanIn))
	case "xavier_normal":
		normal(s, v, 0, math.Sqrt(2/(fanIn+fanOut)))
	case "xavier_uniform":
		symmetric(s, v, math.Sqrt(6/(fanIn+fanOut)))
	default:
		symmetric(s, v, 1/math.Sqrt(fanIn))
	}
	return FromTorch(p, v)
}

// checkInit refuses unknown names, and fans for a bias, which has none of its own.
func checkInit(p Param) error {
	switch p.Init.Name {
	case "", "default", "normal", "uniform", "zeros", "ones":
		return nil
	case "kaiming_normal", "kaiming_uniform", "xavier_normal", "xavier_uniform":
		if len(p.Shape) > 1 {
			return nil
		}
		return fmt.Errorf("bias_init %s is for weights: a bias has no fan; want default, normal, uniform or zeros", p.Init.Name)
	}
	return fmt.Errorf("%s: unknown init %q", p.Name, p.Init.Name)
}

func normal(s *philox.Stream, v []float32, mean, std float64) {
	for i := range v {
		v[i] = float32(mean + float64(std*s.Normal()))
	}
}

func uniform(s *philox.Stream, v []float32, low, high float64) {
	for i := range v {
		v[i] = float32(low + float64((high-low)*s.Float64()))
	}
}

func symmetric(s *philox.Stream, v []float32, bound float64) { uniform(s, v, -bound, bound) }
