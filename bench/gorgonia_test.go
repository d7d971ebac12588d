package bench

import (
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// BenchmarkGorgoniaTapeMachine is one forward and backward pass of the reference CNN at batch 512 with Gorgonia's own
// operations (Conv2d, MaxPool2D, Mul, SoftMax) on its TapeMachine: what users of Gorgonia have today. Compare with
// `train bench step --config cnn`, which also updates the weights.
func BenchmarkGorgoniaTapeMachine(b *testing.B) {
	const batch = 512
	g := G.NewGraph()
	random := func(name string, shape ...int) *G.Node {
		v := make([]float32, tensor.Shape(shape).TotalSize())
		for i := range v {
			v[i] = float32(rand.NormFloat64() * 0.05)
		}
		t := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(v))
		return G.NewTensor(g, tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(name), G.WithValue(t))
	}
	x, y := random("x", batch, 1, 28, 28), random("y", batch, 10)
	w1, w2 := random("w1", 32, 1, 3, 3), random("w2", 64, 32, 3, 3)
	w3, w4 := random("w3", 9216, 128), random("w4", 128, 10)

	one := tensor.Shape{3, 3}
	h := G.Must(G.Rectify(G.Must(G.Conv2d(x, w1, one, []int{0, 0}, []int{1, 1}, []int{1, 1}))))
	h = G.Must(G.Rectify(G.Must(G.Conv2d(h, w2, one, []int{0, 0}, []int{1, 1}, []int{1, 1}))))
	h = G.Must(G.MaxPool2D(h, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	h = G.Must(G.Reshape(h, tensor.Shape{batch, 9216}))
	h = G.Must(G.Rectify(G.Must(G.Mul(h, w3))))
	h = G.Must(G.SoftMax(G.Must(G.Mul(h, w4))))
	loss := G.Must(G.Neg(G.Must(G.Mean(G.Must(G.HadamardProd(G.Must(G.Log(h)), y))))))
	if _, err := G.Grad(loss, w1, w2, w3, w4); err != nil {
		b.Fatal(err)
	}
	vm := G.NewTapeMachine(g)
	defer vm.Close()
	for b.Loop() {
		if err := vm.RunAll(); err != nil {
			b.Fatal(err)
		}
		vm.Reset()
	}
}
