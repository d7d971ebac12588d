package kernel
import ("testing";"time";"halfstep/model/op/ref";"halfstep/program";"unsafe";"fmt")
func best(n int, f func()) time.Duration { b:=time.Hour; for range n { s:=time.Now(); f(); b=min(b,time.Since(s)) }; return b }
func TestZZ(t *testing.T) {
	c := convCase{ConvShape: ConvShape{Conv: ref.Conv{KH:3,KW:3,Stride:1}, H: 26, W: 26, C: 32, OC: 64, DType: program.Float32}, bias: true, relu: true,
			pool: ref.Pool{Size: 2, Stride: 2}, needX: true, maskX: true}
	f,_ := NewConvForward(AVX512, c.ConvShape, true,true,c.pool)
	x := newTensor(program.Float32, 26*26*32).fill(func() float64 {return 1})
	w := newTensor(program.Float32, 9*32*64).fill(func() float64 {return 1})
	p:=dirty(f.PackedBytes()); f.Pack(p.ptr(), w.ptr())
	sc:=dirty(f.ScratchBytes()); clearBytes(sc.ptr(), len(sc.ref))
	for _, m := range []int{12,13} {
	tl := convTile{x: align(x.ptr()), w: align(p.ptr()), bias: align(sc.ptr()), y: unsafe.Add(align(sc.ptr()),1024), xPix:128, xJump: 26*128-96*4, yPix:128, kh:3, run:96, m:m}
	d := best(2000, func(){ for range 10 { AVX512.convTile(2,false,&tl) } })
	fmt.Println("tile", m, d/10, "GF/s", 2*float64(m)*288*32*10/float64(d.Nanoseconds()))
	}
	b := c.plan(t, AVX512)
	sb:=dirty(b.ScratchBytes()); clearBytes(sb.ptr(), len(sb.ref))
	acc:=newTensor(program.Float32, b.AccBytes()/4)
	bp:=dirty(b.PackedBytes()); b.Pack(bp.ptr(), w.ptr())
	dy := newTensor(program.Float32, 144*64).fill(func() float64 {return 1})
	idx := newTensor(program.Uint8, 144*64).fill(func() float64 {return 1})
	dx := newTensor(program.Float32, 26*26*32)
	var d unsafe.Pointer
	s := align(sb.ptr())
	fmt.Println("grad.load", best(200, func(){ d = b.grad.load(dy.ptr(), idx.ptr(), s)}))
	fmt.Println("grad.sum", best(200, func(){ b.grad.sum(d, acc.ptr())}))
	fmt.Println("gradW", best(200, func(){ b.gradW(x.ptr(), d, acc.ptr(), s)}))
	fmt.Println("dx", best(200, func(){ b.dx.image(d, align(bp.ptr()), x.ptr(), dx.ptr(), s)}))
	y := newTensor(program.Float32, 144*64)
	fmt.Println("fwd", best(200, func(){ f.Image(x.ptr(), p.ptr(), w.ptr(), y.ptr(), idx.ptr(), sc.ptr())}), "ideal@266", 2*576*288*64/266)
	f.pool=ref.Pool{}
	cp:=convPool{src: align(sc.ptr()), y: y.ptr(), idx: idx.ptr(), pix: 128, row: 24*128, step: 256, n:12, c:32, size:2, yPix:256, idxPix:64, dead:4, relu: ^uint32(0)}
	fmt.Println("pool image", 24*best(2000, func(){ AVX512.convPool(&cp, rowF32)}))
	fmt.Println("pool image f16", 24*best(2000, func(){ AVX512.convPool(&cp, rowF16)}))
	fmt.Println("pool image bf16", 24*best(2000, func(){ AVX512BF16.convPool(&cp, rowBF16)}))
}
