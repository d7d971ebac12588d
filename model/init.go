package model

import (
	"fmt"
	"math"

	"halfstep/philox"
)

// Init draws a parameter's first values from the stream philox.Init+Index of the seed: PyTorch's distributions (torch.nn.init;
// the default is uniform in ±1/sqrt(fan_in) for weights and biases). Elements are drawn in PyTorch's order and then
// permuted, so that the same seed gives the same network whatever the layout inside, and a PyTorch script can draw it too.
// Values are the same at any number of processors: each goroutine starts where the one before it ends in the stream.
func Init(p Param, seed uint64) []float32 {
	v := make([]float32, p.Elems())
	fill, words := filler(p)
	inChunks(len(v), func(from, to int) {
		s := philox.NewStream(seed, philox.Init+uint32(p.Index), 0, 0)
		s.Seek(uint64(from) * words)
		fill(s, v[from:to])
	})
	return FromTorch(p, v)
}

// filler gives the function that draws a parameter's values one after another, and how many words of the stream each takes.
func filler(p Param) (fill func(*philox.Stream, []float32), words uint64) {
	fanIn, fanOut := float64(p.FanIn), float64(p.FanOut)
	switch p.Init.Name {
	case "zeros":
		return constant(0)
	case "ones":
		return constant(1)
	case "normal":
		return normal(float64(p.Init.Mean), float64(p.Init.Std))
	case "uniform":
		return uniform(float64(p.Init.Low), float64(p.Init.High))
	case "kaiming_normal":
		return normal(0, math.Sqrt(2/fanIn))
	case "kaiming_uniform":
		return symmetric(math.Sqrt(6 / fanIn))
	case "xavier_normal":
		return normal(0, math.Sqrt(2/(fanIn+fanOut)))
	case "xavier_uniform":
		return symmetric(math.Sqrt(6 / (fanIn + fanOut)))
	}
	return symmetric(1 / math.Sqrt(fanIn))
}

func constant(c float32) (fill func(*philox.Stream, []float32), words uint64) {
	return func(_ *philox.Stream, v []float32) {
		for i := range v {
			v[i] = c
		}
	}, 0
}

func normal(mean, std float64) (fill func(*philox.Stream, []float32), words uint64) {
	return func(s *philox.Stream, v []float32) {
		for i := range v {
			v[i] = float32(mean + float64(std*s.Normal()))
		}
	}, 2
}

func uniform(low, high float64) (fill func(*philox.Stream, []float32), words uint64) {
	return func(s *philox.Stream, v []float32) {
		for i := range v {
			v[i] = float32(low + float64((high-low)*s.Float64()))
		}
	}, 1
}

func symmetric(bound float64) (fill func(*philox.Stream, []float32), words uint64) {
	return uniform(-bound, bound)
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
