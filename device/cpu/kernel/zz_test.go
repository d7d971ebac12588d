package kernel
import ("testing";"time";"halfstep/model/op/ref";"halfstep/program";"fmt";"math/rand/v2")
func best(n int, f func()) time.Duration { b:=time.Hour; for range n { s:=time.Now(); f(); b=min(b,time.Since(s)) }; return b }
func TestZZ(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, l := range []Level{AVX2,AVX512,AVX512BF16} {
	for _, d := range []program.DType{program.Float32, program.BFloat16} {
	for _, k := range [][7]int{{26,32,64,3,0,1},{14,64,128,3,1,1},{14,128,256,3,1,1},{7,256,512,3,1,1},{28,1,6,5,2,1},{14,6,16,5,0,1},{28,16,16,3,1,1},{28,32,64,3,1,2}} {
	c := convCase{ConvShape: ConvShape{Conv: ref.Conv{KH:k[3],KW:k[3],Stride:k[5],Pad:k[4]}, H: k[0], W: k[0], C: k[1], OC: k[2], DType: d}, bias: true, needX: true}
	al := func(n int) *tensor { x := newTensor(d,n); x.from -= d.Size(); x.fill(r.NormFloat64); return x}
	x,w := al(c.H*c.W*c.C), al(c.KH*c.KW*c.C*c.OC)
	oh,ow:=c.Out(c.H,c.W)
	y := al(oh*ow*c.OC)
	dx := al(c.H*c.W*c.C)
	bias := newTensor(program.Float32, c.OC)
	f,_ := NewConvForward(l, c.ConvShape, true,false,c.pool)
	fp,fs := dirty(f.PackedBytes()), dirty(f.ScratchBytes()); f.Pack(fp.ptr(), w.ptr())
	b := c.plan(t, l)
	sb:=dirty(b.ScratchBytes()); 
	acc:=newTensor(program.Float32, b.AccBytes()/4); acc.from-=4
	bp:=dirty(b.PackedBytes()); b.Pack(bp.ptr(), w.ptr())
	t1 := best(100, func(){ f.Image(x.ptr(), fp.ptr(), bias.ptr(), y.ptr(), nil, fs.ptr())})
	t2 := best(50, func(){ b.Image(x.ptr(), bp.ptr(), y.ptr(), nil, dx.ptr(), acc.ptr(), sb.ptr())})
	fmt.Printf("%v %v %v: fwd %.0f GF/s, bwd %.0f\n", l, d, k, 2*c.macs()/float64(t1.Nanoseconds()), 4*c.macs()/float64(t2.Nanoseconds()))
	}}}
}
