package ref

// Conv2D computes rows from to to-1 of the B·OH rows of y: each y[n,oh,ow,oc] is b[oc] (0 when b is nil) plus
// x[n,oh·s-p+kh,ow·s-p+kw,c]·w[kh,kw,c,oc] for (kh,kw,c) in order, padding left out.
//
// x [B,H,W,C], w [KH,KW,C,OC], b [OC] or nil, y [B,OH,OW,OC].
func Conv2D[E Float](a Conv, y, x, w, b []E, H, W, C, OC, from, to int) {
	OH, OW := a.Out(H, W)
	for r := from; r < to; r++ {
		n, oh := r/OH, r%OH
		for ow := range OW {
			out := y[(r*OW+ow)*OC:][:OC]
			setBias(out, b)
			ih, iw := oh*a.Stride-a.Pad, ow*a.Stride-a.Pad
			kw0, kw1 := clip(iw, a.KW, W)
			if kw0 >= kw1 {
				continue
			}
			for kh := max(0, -ih); kh < min(a.KH, H-ih); kh++ {
				// the window's part of one image row lies side by side in x, and its weights in w
				run := x[((n*H+ih+kh)*W+iw+kw0)*C:][:(kw1-kw0)*C]
				addProducts(out, run, 1, w[(kh*a.KW+kw0)*C*OC:(kh*a.KW+kw1)*C*OC])
			}
		}
	}
}

// clip is the part [k0, k1) of a window of size k starting at i that lies in 0..n-1.
func clip(i, k, n int) (k0, k1 int) { return max(0, -i), min(k, n-i) }

// Conv2DGradX computes rows from to to-1 of the B·H rows of dx: each dx[n,h,w,c] sums dy[n,oh,ow,oc]·w[kh,kw,c,oc] for
// (kh,kw,oc) in order over the windows that cover it.
//
// w [KH,KW,C,OC], dy [B,OH,OW,OC], dx [B,H,W,C].
func Conv2DGradX[E Float](a Conv, dx, w, dy []E, H, W, C, OC, from, to int) {
	OH, OW := a.Out(H, W)
	for r := from; r < to; r++ {
		n, ih := r/H, r%H
		for iw := range W {
			out := dx[(r*W+iw)*C:][:C]
			clear(out)
			for kh := range a.KH {
				oh, ok := window(ih, kh, a, OH)
				if !ok {
					continue
				}
				for kw := range a.KW {
					if ow, ok := window(iw, kw, a, OW); ok {
						addDots(out, dy[((n*OH+oh)*OW+ow)*OC:][:OC], w[(kh*a.KW+kw)*C*OC:][:C*OC])
					}
				}
			}
		}
	}
}

// window is the output position whose window has input position i at its offset k.
func window(i, k int, a Conv, outs int) (int, bool) {
	d := i + a.Pad - k
	o := d / a.Stride
	return o, d >= 0 && d%a.Stride == 0 && o < outs
}

// Conv2DGradW computes rows from to to-1 of the KH·KW·C rows of dw: each dw[kh,kw,c,oc] sums
// x[n,oh·s-p+kh,ow·s-p+kw,c]·dy[n,oh,ow,oc] for (n,oh,ow) in order.
//
// x [B,H,W,C], dy [B,OH,OW,OC], dw [KH,KW,C,OC].
func Conv2DGradW[E Float](a Conv, dw, x, dy []E, B, H, W, C, OC, from, to int) {
	OH, OW := a.Out(H, W)
	clear(dw[from*OC : to*OC])
	for n := range B { // images outside: one image's dy stays in cache while all rows use it
		for r := from; r < to; r++ {
			kh, kw, c := r/(a.KW*C), r/C%a.KW, r%C
			ow0, ow1 := steps(kw, a, W, OW)
			if ow0 >= ow1 {
				continue
			}
			oh0, oh1 := steps(kh, a, H, OH)
			row := dw[r*OC:][:OC]
			for oh := oh0; oh < oh1; oh++ {
				ih, iw := oh*a.Stride-a.Pad+kh, ow0*a.Stride-a.Pad+kw
				from := ((n*OH+oh)*OW + ow0) * OC
				addProducts(row, x[((n*H+ih)*W+iw)*C+c:], a.Stride*C, dy[from:from+(ow1-ow0)*OC])
			}
		}
	}
}

// steps is the range [o0, o1) of output positions whose window has its offset k inside an input of size n.
func steps(k int, a Conv, n, outs int) (o0, o1 int) {
	d := a.Pad - k // o·stride - d must lie in 0..n-1
	o0 = max(0, ceilDiv(d, a.Stride))
	o1 = min(outs, floorDiv(n-1+d, a.Stride)+1)
	return o0, o1
}

func ceilDiv(a, b int) int { return -floorDiv(-a, b) }

func floorDiv(a, b int) int {
	q := a / b
	if a%b != 0 && a < 0 {
		q--
	}
	return q
}
