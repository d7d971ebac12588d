package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"halfstep/half"
	"halfstep/model/op/ref"
	"halfstep/program"
)

// tensor is an array of some dtype for the kernels, between guard bytes, and the same values in float64 for package ref.
// Guards are NaNs of every dtype, so that a value read from them shows in the results.
type tensor struct {
	dtype program.DType
	ref   []float64
	buf   []byte
	from  int
}

const nanByte = 0xff

// newTensor makes n elements, filled with NaN, misaligned by one element.
func newTensor(d program.DType, n int) *tensor {
	size := d.Size()
	t := &tensor{dtype: d, ref: make([]float64, n), buf: make([]byte, 2*cacheLine+(n+1)*size)}
	for i := range t.buf {
		t.buf[i] = nanByte
	}
	t.from = int(-uintptr(unsafe.Pointer(&t.buf[0]))&(cacheLine-1)) + size
	return t
}

func (t *tensor) ptr() unsafe.Pointer { return unsafe.Pointer(&t.buf[t.from]) }

// set writes an element, which the dtype must represent exactly or that is rounded.
func (t *tensor) set(i int, v float64) {
	switch t.dtype {
	case program.Float16:
		*u16At(t.ptr(), 2*i) = half.ToFloat16(float32(v))
	case program.BFloat16:
		*u16At(t.ptr(), 2*i) = half.ToBFloat16(float32(v))
	case program.Uint8:
		t.buf[t.from+i] = uint8(v)
	default:
		*f32At(t.ptr(), 4*i) = float32(v)
	}
	t.ref[i] = t.get(i)
}

func (t *tensor) get(i int) float64 {
	if t.dtype == program.Uint8 {
		return float64(t.buf[t.from+i])
	}
	return float64(loadElem(rowTypeOf(t.dtype), t.ptr(), i))
}

func (t *tensor) fill(f func() float64) *tensor {
	for i := range t.ref {
		t.set(i, f())
	}
	return t
}

// checkGuards fails when a byte outside the elements has changed.
func (t *tensor) checkGuards(tb testing.TB, what string) {
	tb.Helper()
	end := t.from + len(t.ref)*t.dtype.Size()
	for i, b := range t.buf {
		if (i < t.from || i >= end) && b != nanByte {
			tb.Fatalf("%s: wrote %d bytes off an array of %d bytes", what, i-t.from, end-t.from)
		}
	}
}

// dirty is scratch full of NaNs behind a guard.
func dirty(bytes int) *tensor {
	t := newTensor(program.Uint8, bytes)
	for i := range t.ref {
		t.buf[t.from+i] = nanByte
	}
	return t
}

// roundTo rounds to a dtype, as the unfused chain does when it stores.
func roundTo(d program.DType, v float64) float64 {
	return float64(roundElem(rowTypeOf(d), float32(v)))
}

// convCase is one shape with what is fused into it.
type convCase struct {
	ConvShape
	bias, relu   bool
	pool         ref.Pool
	needX, maskX bool
}

func (c convCase) String() string {
	return fmt.Sprintf("%s/%dx%dx%d-%d/k%dx%d/s%d/p%d/pool%d.%d/bias=%t,relu=%t,needX=%t,maskX=%t", c.DType, c.H, c.W, c.C, c.OC, c.KH, c.KW,
		c.Stride, c.Pad, c.pool.Size, c.pool.Stride, c.bias, c.relu, c.needX, c.maskX)
}

// randomCase draws a shape.
func randomCase(r *rand.Rand, d program.DType) convCase {
	for {
		k := [...]int{1, 3, 3, 3, 5}[r.IntN(5)]
		c := convCase{
			ConvShape: ConvShape{
				Conv: ref.Conv{KH: k, KW: k, Stride: 1 + r.IntN(2), Pad: r.IntN(3)},
				H:    3 + r.IntN(27), W: 3 + r.IntN(27), C: 1 + r.IntN(70), OC: 1 + r.IntN(70), DType: d,
			},
			bias: r.IntN(2) == 0, relu: r.IntN(2) == 0, needX: r.IntN(4) > 0, maskX: r.IntN(2) == 0,
		}
		if r.IntN(3) == 0 {
			c.C, c.OC = 16*(1+r.IntN(4)), 16*(1+r.IntN(4))
		}
		if r.IntN(4) == 0 {
			c.C = 1
		}
		if r.IntN(8) == 0 {
			c.KW = 1 + r.IntN(4)
		}
		c.pool = [...]ref.Pool{{}, {Size: 2, Stride: 2}, {Size: 2, Stride: 2}, {Size: 3, Stride: 3}, {Size: 3, Stride: 2}, {Size: 2, Stride: 3}}[r.IntN(6)]
		c.maskX = c.maskX && c.needX
		if c.check() != nil {
			continue
		}
		oh, ow := c.Out(c.H, c.W)
		if c.pool.Size == 0 || checkPool(c.pool, oh, ow) == nil {
			return c
		}
	}
}

// convCases are the shapes of the reference network, some for the sparse backward pass, and n random ones.
func convCases(seed uint64, n int, d program.DType) []convCase {
	r := rand.New(rand.NewPCG(seed, uint64(d)))
	k3 := ref.Conv{KH: 3, KW: 3, Stride: 1}
	cases := []convCase{
		{ConvShape: ConvShape{Conv: k3, H: 28, W: 28, C: 1, OC: 32, DType: d}, bias: true, relu: true},
		{
			ConvShape: ConvShape{Conv: k3, H: 26, W: 26, C: 32, OC: 64, DType: d}, bias: true, relu: true,
			pool: ref.Pool{Size: 2, Stride: 2}, needX: true, maskX: true,
		},
	}
	for i, ch := range []int{16, 32, 48, 64, 80, 144} {
		s := ConvShape{Conv: k3, H: 8 + r.IntN(12), W: 8 + r.IntN(12), C: ch, OC: 1 + r.IntN(70), DType: d}
		s.Pad = i % 3
		cases = append(cases, convCase{ConvShape: s, bias: i < 4, relu: i > 0, pool: ref.Pool{Size: 2, Stride: 2}, needX: i != 2, maskX: i == 1 || i > 3})
	}
	for range n {
		cases = append(cases, randomCase(r, d))
	}
	return cases
}

// forwardRef is the unfused chain in float64, rounding where the chain stores: sums, then ReLU and the pool.
func (c convCase) forwardRef(x, w, b []float64) (y []float64, idx []uint8, sums []float64) {
	oh, ow := c.Out(c.H, c.W)
	sums = make([]float64, oh*ow*c.OC)
	if !c.bias {
		b = nil
	}
	ref.Conv2D(c.Conv, sums, x, w, b, c.H, c.W, c.C, c.OC, 0, oh)
	y = make([]float64, len(sums))
	for i, s := range sums {
		y[i] = roundTo(c.DType, s)
		if c.relu {
			y[i] = max(y[i], 0)
		}
	}
	if c.pool.Size == 0 {
		return y, nil, sums
	}
	ph, pw := c.pool.Out(oh, ow)
	p := make([]float64, ph*pw*c.OC)
	idx = make([]uint8, len(p))
	ref.MaxPool2D(c.pool, p, idx, y, oh, ow, c.OC, 0, 1)
	for i, v := range p {
		if c.relu && !(v > 0) {
			idx[i] = uint8(c.pool.Size * c.pool.Size)
		}
	}
	return p, idx, sums
}

// forward runs the kernel on one image.
func (c convCase) forward(t *testing.T, l Level, x, w, b *tensor) (y, idx *tensor) {
	f, err := NewConvForward(l, c.ConvShape, c.bias, c.relu, c.pool)
	if err != nil {
		t.Fatal(err)
	}
	oh, ow := c.Out(c.H, c.W)
	if c.pool.Size > 0 {
		oh, ow = c.pool.Out(oh, ow)
	}
	y = newTensor(c.DType, oh*ow*c.OC)
	packed, scratch := dirty(f.PackedBytes()), dirty(f.ScratchBytes())
	f.Pack(packed.ptr(), w.ptr())
	var bp, ip unsafe.Pointer
	if c.bias {
		bp = b.ptr()
	}
	if c.pool.Size > 0 {
		idx = newTensor(program.Uint8, oh*ow*c.OC)
		ip = idx.ptr()
	}
	f.Image(x.ptr(), packed.ptr(), bp, y.ptr(), ip, scratch.ptr())
	for _, g := range []*tensor{packed, scratch, y} {
		g.checkGuards(t, c.String())
	}
	if idx != nil {
		idx.checkGuards(t, c.String())
	}
	return y, idx
}

// backwardRef is the unfused chain in float64.
func (c convCase) backwardRef(x, w, dy []float64, idx []uint8, y []float64) (dw, db, dx []float64) {
	oh, ow := c.Out(c.H, c.W)
	d := make([]float64, oh*ow*c.OC)
	if c.pool.Size > 0 {
		live := append([]float64(nil), dy...)
		at := append([]uint8(nil), idx...)
		for i, q := range idx {
			if int(q) == c.pool.Size*c.pool.Size {
				live[i], at[i] = 0, 0
			}
		}
		ref.MaxPool2DGrad(c.pool, d, at, live, oh, ow, c.OC, 0, 1)
	} else {
		copy(d, dy)
		if c.relu {
			ref.ActivateGrad(ref.ReLU, d, y, dy)
		}
	}
	dw, db, dx = make([]float64, c.KH*c.KW*c.C*c.OC), make([]float64, c.OC), make([]float64, c.H*c.W*c.C)
	ref.Conv2DGradW(c.Conv, dw, x, d, 1, c.H, c.W, c.C, c.OC, 0, c.KH*c.KW*c.C)
	ref.BiasGrad(db, d, c.OC, 0, c.OC)
	ref.Conv2DGradX(c.Conv, dx, w, d, c.H, c.W, c.C, c.OC, 0, c.H)
	for i, v := range x {
		if c.maskX && !(v > 0) {
			dx[i] = 0
		}
	}
	return dw, db, dx
}

// convGrads are the results of the backward kernel over some images.
type convGrads struct{ dw, db *tensor }

func (c convCase) plan(t *testing.T, l Level) *ConvBackward {
	b, err := NewConvBackward(l, c.ConvShape, program.Conv2DBackward{Conv: c.Conv, Pool: c.pool, ReLU: c.relu, Bias: c.bias, NeedX: c.needX, MaskX: c.maskX})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// backwardInputs are one image's operands.
type backwardInputs struct{ x, dy, idxOrY *tensor }

func (c convCase) backwardInputs(r *rand.Rand, val func() float64) backwardInputs {
	oh, ow := c.Out(c.H, c.W)
	if c.pool.Size > 0 {
		oh, ow = c.pool.Out(oh, ow)
	}
	in := backwardInputs{x: newTensor(c.DType, c.H*c.W*c.C).fill(val), dy: newTensor(c.DType, oh*ow*c.OC).fill(val)}
	switch dead := 0; {
	case c.pool.Size > 0:
		if c.relu {
			dead = 1
		}
		in.idxOrY = newTensor(program.Uint8, oh*ow*c.OC).fill(func() float64 { return float64(r.IntN(c.pool.Size*c.pool.Size + dead)) })
	case c.relu:
		in.idxOrY = newTensor(c.DType, oh*ow*c.OC).fill(func() float64 { return max(val(), 0) })
	}
	return in
}

// backward runs images through accumulators of two each and returns dw, db and each image's dx.
func (c convCase) backward(t *testing.T, l Level, w *tensor, images []backwardInputs) (g convGrads, dx []*tensor) {
	b := c.plan(t, l)
	packed, scratch := dirty(b.PackedBytes()), dirty(b.ScratchBytes())
	if b.PackedBytes() > 0 {
		b.Pack(packed.ptr(), w.ptr())
	}
	nacc := (len(images) + 1) / 2
	acc := newTensor(program.Float32, nacc*b.AccBytes()/4).fill(func() float64 { return 0 })
	for i, in := range images {
		x := newTensor(c.DType, c.H*c.W*c.C)
		var other, dp unsafe.Pointer
		if in.idxOrY != nil {
			other = in.idxOrY.ptr()
		}
		if c.needX {
			dp = x.ptr()
		}
		b.Image(in.x.ptr(), packed.ptr(), in.dy.ptr(), other, dp, unsafe.Add(acc.ptr(), i/2*b.AccBytes()), scratch.ptr())
		x.checkGuards(t, c.String())
		dx = append(dx, x)
	}
	g.dw, g.db = newTensor(c.DType, c.KH*c.KW*c.C*c.OC), newTensor(program.Float32, c.OC)
	b.Finish(g.dw.ptr(), g.db.ptr(), acc.ptr(), nacc)
	for _, k := range []*tensor{packed, scratch, acc, g.dw, g.db} {
		k.checkGuards(t, c.String())
	}
	return g, dx
}

// operands gives idx or y as package ref wants them.
func (in backwardInputs) operands(c convCase) (idx []uint8, y []float64) {
	switch {
	case c.pool.Size > 0:
		for _, v := range in.idxOrY.ref {
			idx = append(idx, uint8(v))
		}
	case c.relu:
		y = in.idxOrY.ref
	}
	return idx, y
}

// gradients are sums of dw and db over images, and dx of each.
type gradients struct {
	dw, db []float64
	dx     [][]float64
}

// gradients gives the chain's results over images.
func (c convCase) gradients(w []float64, images []backwardInputs) gradients {
	g := gradients{dw: make([]float64, len(w)), db: make([]float64, c.OC)}
	for _, in := range images {
		idx, y := in.operands(c)
		dw, db, dx := c.backwardRef(in.x.ref, w, in.dy.ref, idx, y)
		ref.Add(g.dw, g.dw, dw)
		ref.Add(g.db, g.db, db)
		g.dx = append(g.dx, dx)
	}
	return g
}

// magnitudes is gradients of absolute values.
func (c convCase) magnitudes(w []float64, images []backwardInputs) gradients {
	var a []backwardInputs
	for _, in := range images {
		x, dy := *in.x, *in.dy
		x.ref, dy.ref = abs(x.ref), abs(dy.ref)
		a = append(a, backwardInputs{&x, &dy, in.idxOrY})
	}
	c.maskX = false
	return c.gradients(abs(w), a)
}
