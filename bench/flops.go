package bench

import "halfstep/program"

// instrFLOPs is the number of floating-point operations of one instruction, counted densely: two per multiply-add of
// convolutions and linear layers, nothing for the rest. What a kernel leaves out because it would multiply by zero counts.
func instrFLOPs(i *program.Instr) int64 {
	switch o := i.Op.(type) {
	case program.Conv2D: // x, w
		oh, ow := o.Out(i.In[0].Shape[1], i.In[0].Shape[2])
		return convFLOPs(i.In[0].Shape[0]*oh*ow, i.In[1])
	case program.Conv2DGradX: // w, dy -> dx
		return convFLOPs(pixels(i.In[1]), i.In[0])
	case program.Conv2DGradW: // x, dy -> dw
		return convFLOPs(pixels(i.In[1]), i.Out[0])
	case program.Conv2DBackward: // x, w, dy of the pooled shape where a pool is fused
		oh, ow := o.Out(i.In[0].Shape[1], i.In[0].Shape[2])
		f := convFLOPs(i.In[0].Shape[0]*oh*ow, i.In[1])
		if o.NeedX {
			f *= 2
		}
		return f
	case program.Linear: // x [B,K], w [K,N]
		return 2 * int64(i.In[0].Elems()) * int64(i.In[1].Shape[1])
	case program.LinearGradX: // dy [B,N], w [K,N]
		return 2 * int64(i.In[0].Elems()) * int64(i.In[1].Shape[0])
	case program.LinearGradW: // x [B,K], dy [B,N]
		return 2 * int64(i.In[0].Elems()) * int64(i.In[1].Shape[1])
	}
	return 0
}

// convFLOPs is one pass of a convolution over so many output pixels: each takes every weight once. w [KH,KW,C,OC].
func convFLOPs(pixels int, w *program.Value) int64 { return 2 * int64(pixels) * int64(w.Elems()) }

// pixels is the number of pixels of y [B,H,W,C].
func pixels(y *program.Value) int { return y.Shape[0] * y.Shape[1] * y.Shape[2] }

// programFLOPs sums up the instructions of a step.
func programFLOPs(p *program.Program) int64 {
	var total int64
	for _, i := range p.Instrs {
		total += instrFLOPs(i)
	}
	return total
}
