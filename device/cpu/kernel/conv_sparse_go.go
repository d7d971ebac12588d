package kernel

import "unsafe"

// The portable twins of the sparse backward pass. Lists hold what the assembly's hold; the order in them is that of the
// channels or pixels.

func i32At(p unsafe.Pointer, off int) *int32 { return (*int32)(unsafe.Add(p, off)) }

// convStageGo separates live gradients from dead ones, adds them to db, and lists them by position in the window.
func convStageGo(t *convStage, e rowType) {
	for p := range t.n {
		for o := range roundUp(t.c, 16) {
			at, d := 0, float32(0)
			if o < t.c {
				at = int(*(*uint8)(unsafe.Add(t.idx, p*t.idxPix+o)))
				d = loadElem(e, unsafe.Add(t.dy, p*t.dyPix), o)
			}
			if at >= 4 {
				d = 0
			}
			*f32At(t.grad, p*t.pix+4*o) = d + 0 // minus zero is no gradient either
			*i32At(t.off, p*t.pix+4*o) = t.xOff + int32(p)*t.xStep + t.windowOff[at]
			*f32At(t.db, 4*o) += d
		}
		if t.lists == 0 {
			continue
		}
		for q := range 4 {
			count := i32At(t.list, 0)
			*count = 0
			t.list = unsafe.Add(t.list, 4)
			for o := range t.c {
				d := *f32At(t.grad, p*t.pix+4*o)
				if int(*(*uint8)(unsafe.Add(t.idx, p*t.idxPix+o))) != q || d == 0 {
					continue
				}
				*i32At(t.list, 0) = t.wOff[o%16] + int32(o/16*16*sparseTaps*64)
				*f32At(t.list, t.delta) = d
				t.list = unsafe.Add(t.list, 4)
				*count++
			}
		}
	}
}

// convTransposeGo is dst[j][i] = src[i][j] for 16·rows rows i and 16·cols columns j.
func convTransposeGo(dst, src unsafe.Pointer, rows, cols, dstLine, line int) {
	for i := range 16 * rows {
		for j := range 16 * cols {
			*u32At(dst, j*dstLine+4*i) = *u32At(src, i*line+4*j)
		}
	}
}

// convSparseWGo is dw[o][r][k] += Σ grad[o][p]·x[off[o][p]+r·line+k] over the live gradients p of n output channels o.
func convSparseWGo(t *convSparseW) {
	rows, width := t.body/100, t.body%100*16
	for o := range t.n {
		for p := 0; p < t.pix; p += 4 {
			d := *f32At(t.grad, o*t.pix+p)
			if d == 0 {
				continue
			}
			x := unsafe.Add(t.x, *i32At(t.off, o*t.pix+p))
			for r := range rows {
				for k := range width {
					*f32At(t.dw, o*t.dwStep+4*(r*width+k)) += float32(d * *f32At(x, r*t.line+4*k))
				}
			}
		}
	}
}

// convSparseXGo is dx[2i+q/2+kh][2j+q%2+kw] += Σ grad·w[o][kh][kw] over pooled pixels (i, j), positions q and the live
// output channels o in their lists.
func convSparseXGo(t *convSparseX) {
	list, dx := t.list, t.dx
	for ; t.rows > 0; t.rows-- {
		for range t.cols {
			for q := range 4 {
				n := *i32At(list, 0)
				list = unsafe.Add(list, 4)
				for range n {
					w, d := unsafe.Add(t.w, *i32At(list, 0)), *f32At(list, t.delta)
					for tap := range sparseTaps {
						at := unsafe.Add(dx, (q/2+tap/3)*t.line+(q%2+tap%3)*t.pix)
						for c := range 16 {
							*f32At(at, 4*c) += float32(d * *f32At(w, 64*tap+4*c))
						}
					}
					list = unsafe.Add(list, 4)
				}
			}
			dx = unsafe.Add(dx, 2*t.pix)
		}
		dx = unsafe.Add(dx, t.jump)
	}
}
