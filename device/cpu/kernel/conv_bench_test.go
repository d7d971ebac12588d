package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"halfstep/model/op/ref"
	"halfstep/program"
)

// The convolutions of the reference network (28x28x1 -> 26x26x32 -> 24x24x64 -> 12x12x64), one image at a time on one
// core: go test -run - -bench Conv ./device/cpu/kernel.
const (
	benchBatch = 128
	benchBlock = 8
)

func benchShapes(d program.DType) []convCase {
	k3 := ref.Conv{KH: 3, KW: 3, Stride: 1}
	return []convCase{
		{ConvShape: ConvShape{Conv: k3, H: 28, W: 28, C: 1, OC: 32, DType: d}, bias: true},
		{
			ConvShape: ConvShape{Conv: k3, H: 26, W: 26, C: 32, OC: 64, DType: d}, bias: true, relu: true,
			pool: ref.Pool{Size: 2, Stride: 2}, needX: true, maskX: true,
		},
	}
}

// macs is the number of multiply-adds of one image.
func (c convCase) macs() float64 {
	oh, ow := c.Out(c.H, c.W)
	return float64(oh*ow*c.KH*c.KW) * float64(c.C*c.OC)
}

// batchTime runs f on all images again and again and reports the rate, and the time of 512 images on one core as the best
// block of images gives it, which other processes disturb least.
func batchTime(b *testing.B, macs float64, f func(image int)) {
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		for i := 0; i < benchBatch; i += benchBlock {
			start := time.Now()
			for j := range benchBlock {
				f(i + j)
			}
			best = min(best, time.Since(start))
		}
	}
	seconds := best.Seconds() / benchBlock
	b.ReportMetric(512*1e3*seconds, "best-ms/512")
	b.ReportMetric(2*macs/seconds/1e9, "best-GFLOP/s")
}

// operand is a batch of some tensor.
type operand struct {
	t    *tensor
	size int // bytes of one image
}

func newOperand(d program.DType, image int, f func() float64) operand {
	o := operand{t: newTensor(d, benchBatch*image), size: image * d.Size()}
	o.t.from -= d.Size() // to a cache line, as buffers of the device are
	for i := range benchBatch * image {
		v := 0.0
		if f != nil {
			v = f()
		}
		o.t.set(i, v)
	}
	o.t.ref = nil
	return o
}

func (o operand) image(i int) unsafe.Pointer { return unsafe.Add(o.t.ptr(), i*o.size) }

func benchLevels(b *testing.B, f func(b *testing.B, l Level, c convCase)) {
	for _, l := range Levels() {
		if l == Portable {
			continue
		}
		for _, d := range []program.DType{program.Float32, program.Float16, program.BFloat16} {
			for i, c := range benchShapes(d) {
				b.Run(fmt.Sprintf("%s/%s/conv%d", l, d, i+1), func(b *testing.B) { f(b, l, c) })
			}
		}
	}
}

func BenchmarkConvForward(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	benchLevels(b, func(b *testing.B, l Level, c convCase) {
		f, err := NewConvForward(l, c.ConvShape, c.bias, true, c.pool)
		if err != nil {
			b.Fatal(err)
		}
		out := f.ph * f.pw * c.OC
		x, y := newOperand(c.DType, c.H*c.W*c.C, r.Float64), newOperand(c.DType, out, nil)
		idx := newOperand(program.Uint8, out, nil)
		w := newTensor(c.DType, c.KH*c.KW*c.C*c.OC).fill(r.NormFloat64)
		bias := newTensor(program.Float32, c.OC).fill(r.NormFloat64)
		packed := dirty(f.PackedBytes())
		scratch := dirty(f.ScratchBytes())
		f.Pack(packed.ptr(), w.ptr())
		batchTime(b, c.macs(), func(i int) {
			f.Image(x.image(i), packed.ptr(), bias.ptr(), y.image(i), idx.image(i), scratch.ptr())
		})
	})
}

func BenchmarkConvBackward(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	benchLevels(b, func(b *testing.B, l Level, c convCase) {
		p, err := NewConvBackward(l, c.ConvShape, program.Conv2DBackward{Conv: c.Conv, Pool: c.pool, ReLU: c.relu, Bias: c.bias, NeedX: c.needX, MaskX: c.maskX})
		if err != nil {
			b.Fatal(err)
		}
		oh, ow := c.Out(c.H, c.W)
		if c.pool.Size > 0 {
			oh, ow = c.pool.Out(oh, ow)
		}
		x, dy := newOperand(c.DType, c.H*c.W*c.C, r.NormFloat64), newOperand(c.DType, oh*ow*c.OC, r.NormFloat64)
		dx := newOperand(c.DType, c.H*c.W*c.C, nil)
		idx := newOperand(program.Uint8, oh*ow*c.OC, func() float64 { return float64(r.IntN(5)) })
		w := newTensor(c.DType, c.KH*c.KW*c.C*c.OC).fill(r.NormFloat64)
		acc, packed, scratch := dirty(p.AccBytes()), dirty(p.PackedBytes()), dirty(p.ScratchBytes())
		clearBytes(acc.ptr(), len(acc.ref))
		passes := 1.0
		if c.needX {
			passes = 2
			p.Pack(packed.ptr(), w.ptr())
		}
		batchTime(b, passes*c.macs(), func(i int) {
			p.Image(x.image(i), packed.ptr(), dy.image(i), idx.image(i), dx.image(i), acc.ptr(), scratch.ptr())
		})
	})
}
