package ref

// MaxPool2D computes images from to to-1 of y, the maximum of each window, and of idx (unless nil), its row-major position in
// the window. The first of equal maxima wins; NaN wins over all, as in PyTorch.
//
// x [B,H,W,C], y, idx [B,PH,PW,C]; Size at most 15, so that positions and one more value fit a byte.
func MaxPool2D[E Float](a Pool, y []E, idx []uint8, x []E, H, W, C, from, to int) {
	PH, PW := a.Out(H, W)
	for o := from * PH * PW; o < to*PH*PW; o++ {
		first := a.corner(o, PH, PW, H, W)
		out := y[o*C:][:C]
		copy(out, x[first*C:][:C])
		var arg []uint8
		if idx != nil {
			arg = idx[o*C:][:C]
			clear(arg)
		}
		for k := 1; k < a.Size*a.Size; k++ {
			row := x[(first+k/a.Size*W+k%a.Size)*C:][:C]
			for c, v := range row {
				if v > out[c] || v != v {
					out[c] = v
					if arg != nil {
						arg[c] = uint8(k)
					}
				}
			}
		}
	}
}

// corner is the first pixel, counted over all images, of window o, counted likewise.
func (p Pool) corner(o, PH, PW, H, W int) int {
	n, ph, pw := o/(PH*PW), o/PW%PH, o%PW
	return (n*H+ph*p.Stride)*W + pw*p.Stride
}

// MaxPool2DGrad computes images from to to-1 of dx: each dy is added where its window's maximum was, windows in order.
//
// idx, dy [B,PH,PW,C], dx [B,H,W,C].
func MaxPool2DGrad[E Float](a Pool, dx []E, idx []uint8, dy []E, H, W, C, from, to int) {
	PH, PW := a.Out(H, W)
	clear(dx[from*H*W*C : to*H*W*C])
	for o := from * PH * PW; o < to*PH*PW; o++ {
		first := a.corner(o, PH, PW, H, W)
		arg := idx[o*C:][:C]
		for c, g := range dy[o*C:][:C] {
			k := int(arg[c])
			dx[(first+k/a.Size*W+k%a.Size)*C+c] += g
		}
	}
}

// AvgPool2D computes images from to to-1 of y: the sum of each window in row-major order, divided by its size.
//
// x [B,H,W,C], y [B,PH,PW,C].
func AvgPool2D[E Float](a Pool, y, x []E, H, W, C, from, to int) {
	PH, PW := a.Out(H, W)
	for o := from * PH * PW; o < to*PH*PW; o++ {
		first := a.corner(o, PH, PW, H, W)
		out := y[o*C:][:C]
		copy(out, x[first*C:][:C])
		for k := 1; k < a.Size*a.Size; k++ {
			for c, v := range x[(first+k/a.Size*W+k%a.Size)*C:][:C] {
				out[c] += v
			}
		}
		for c := range out {
			out[c] /= E(a.Size * a.Size)
		}
	}
}

// AvgPool2DGrad computes images from to to-1 of dx: each dy divided by the window's size is added to all of its window,
// windows in order.
//
// dy [B,PH,PW,C], dx [B,H,W,C].
func AvgPool2DGrad[E Float](a Pool, dx, dy []E, H, W, C, from, to int) {
	PH, PW := a.Out(H, W)
	clear(dx[from*H*W*C : to*H*W*C])
	for o := from * PH * PW; o < to*PH*PW; o++ {
		first := a.corner(o, PH, PW, H, W)
		g := dy[o*C:][:C]
		for k := range a.Size * a.Size {
			out := dx[(first+k/a.Size*W+k%a.Size)*C:][:C]
			for c, v := range g {
				out[c] += v / E(a.Size*a.Size)
			}
		}
	}
}
