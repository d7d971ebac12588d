package ref_test

import (
	"math"
	"slices"
	"testing"

	"halfstep/model/op/ref"
	"halfstep/philox"
)

// TestDropoutMask compares the block-wise mask with its definition, philox.MaskWord of each element, at sizes around the
// 64 elements of a group, and its mean with the rate: five standard deviations of a binomial count.
func TestDropoutMask(t *testing.T) {
	const seed, layer, epoch, position = 77, 3, 5, 1000
	for _, elems := range []int{1, 15, 16, 17, 63, 64, 65, 144, 200} {
		for _, rate := range []float32{0.25, 0.4, 0.5, 1e-4} {
			const B = 5
			mask := make([]uint8, B*elems)
			for i := range mask {
				mask[i] = 9
			}
			ref.DropoutMask(mask, rate, seed, layer, epoch, position, elems, 2, B)
			ref.DropoutMask(mask, rate, seed, layer, epoch, position, elems, 0, 2)
			for i, m := range mask {
				word := philox.MaskWord(philox.Key(seed), philox.Dropout+layer, epoch, position+uint32(i/elems), uint32(i%elems))
				if keep := float64(word) >= float64(rate)*(1<<32); (m == 1) != keep || m > 1 {
					t.Fatalf("%d elements, rate %v: mask[%d] is %d, its word %#x", elems, rate, i, m, word)
				}
			}
		}
	}
	const n, rate = 1 << 18, 0.4
	mask := make([]uint8, n)
	ref.DropoutMask(mask, rate, seed, layer, epoch, position, n/64, 0, 64)
	kept := 0
	for _, m := range mask {
		kept += int(m)
	}
	mean, deviation := n*(1-rate), math.Sqrt(n*rate*(1-rate))
	t.Logf("kept %d of %d, expected %.0f ± %.0f", kept, n, mean, deviation)
	if math.Abs(float64(kept)-mean) > 5*deviation {
		t.Errorf("kept %d of %d, want about %.0f", kept, n, mean)
	}
}

func TestApplyMask(t *testing.T) {
	y := make([]float32, 3)
	ref.ApplyMask(y, []float32{3, 3, float32(math.NaN())}, []uint8{1, 0, 0}, 0.4)
	if want := 3 / float32(0.6); math.Abs(float64(y[0]-want)) > 1e-6 || y[1] != 0 || y[2] != 0 {
		t.Errorf("%v, want [%v 0 0]", y, want)
	}
}

// TestGatherImages checks order, position and normalisation in closed form, then that a shifted image is the plain one
// moved as the stream says, with zero bytes coming in, and that the moves are spread over all of them.
func TestGatherImages(t *testing.T) {
	const N, H, W, C, B, shift, seed, epoch, position = 7, 5, 4, 2, 3, 2, 11, 4, 2
	images := make([]uint8, N*H*W*C)
	for i := range images {
		images[i] = uint8(i*37%255 + 1)
	}
	order := []int32{6, 5, 4, 3, 2, 1, 0}
	table := ref.Normalized(0.1307, 0.3081)
	x, moved := make([]float32, B*H*W*C), make([]float32, B*H*W*C)
	ref.GatherImages(x, images, order, table, 0, seed, epoch, position, H, W, C, 0, B)
	ref.GatherImages(moved, images, order, table, shift, seed, epoch, position, H, W, C, 1, B)
	ref.GatherImages(moved, images, order, table, shift, seed, epoch, position, H, W, C, 0, 1)
	for i := range B {
		image := images[int(order[position+i])*H*W*C:][:H*W*C]
		words := philox.Block(philox.Key(seed), [4]uint32{0, uint32(position + i), epoch, philox.Augment})
		dy, dx := int(words[0]%5)-shift, int(words[1]%5)-shift
		for j, b := range image {
			if want := (float32(b)/255 - 0.1307) / 0.3081; x[i*H*W*C+j] != want {
				t.Fatalf("image %d element %d is %v, want %v", i, j, x[i*H*W*C+j], want)
			}
			h, w, c := j/(W*C), j/C%W, j%C
			want := float32(-0.1307) / 0.3081
			if sh, sw := h-dy, w-dx; sh >= 0 && sh < H && sw >= 0 && sw < W {
				want = x[i*H*W*C+(sh*W+sw)*C+c]
			}
			if moved[i*H*W*C+j] != want {
				t.Fatalf("image %d moved by %d,%d: element (%d,%d,%d) is %v, want %v", i, dy, dx, h, w, c, moved[i*H*W*C+j], want)
			}
		}
	}
}

func TestOneHot(t *testing.T) {
	y := []float32{9, 9, 9, 9, 9, 9}
	ref.OneHot(y, []int32{2, 0}, 3)
	if want := []float32{0, 0, 1, 1, 0, 0}; !slices.Equal(y, want) {
		t.Errorf("%v, want %v", y, want)
	}
}

func TestCountCorrect(t *testing.T) {
	nan := float32(math.NaN())
	x := []float32{
		1, 3, 2, // label 1: right
		3, 3, 2, // tie, label 0: the first maximum is right
		3, 3, 2, // tie, label 1: wrong
		5, nan, 2, // NaN: wrong
		nan, 1, 2, // NaN at the label: wrong
	}
	if got := ref.CountCorrect(x, []int32{1, 0, 1, 0, 0}, 3); got != 2 {
		t.Errorf("%d correct, want 2", got)
	}
}

func TestGradStats(t *testing.T) {
	if bad, s := ref.GradStats([]float32{3, -4}, 0.5); bad || s != 6.25 {
		t.Errorf("[3 -4]/2: %v, %v, want false, 6.25", bad, s)
	}
	for _, v := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		if bad, _ := ref.GradStats([]float32{1, float32(v), 1}, 1); !bad {
			t.Errorf("%v is not found", v)
		}
	}
}

// TestSum64Chunks: the partial sums have a fixed shape. Adding 2^-54 to 1 changes nothing within a chunk; the second
// chunk's partial is added whole.
func TestSum64Chunks(t *testing.T) {
	const root = 1.0 / (1 << 27)
	v, roots, zero := make([]float64, 2*ref.SumChunk), make([]float64, 2*ref.SumChunk), make([]float64, 2*ref.SumChunk)
	for i := range v {
		v[i], roots[i] = root*root, root
	}
	v[0], roots[0] = 1, 1
	const want = 1 + ref.SumChunk*root*root
	if got := ref.Sum64(v); got != want {
		t.Errorf("Sum64: %v, want %v", got, want)
	}
	if got := ref.PointwiseLossSum(ref.MSE, roots, zero); got != want {
		t.Errorf("mse: %v, want %v", got, want)
	}
}
