package ref

import "halfstep/philox"

// Normalized is what each byte value becomes: (float32(byte)/255 - mean) / std, each operation rounded to float32.
func Normalized(mean, std float32) *[256]float32 {
	var t [256]float32
	for i := range t {
		t[i] = (float32(i)/255 - mean) / std
	}
	return &t
}

// GatherImages fills samples from to to-1 of x with normalised images (table is of Normalized). Sample i is image
// order[position+i], moved by up to shift pixels both ways; zero bytes come in. The move is by dy = w0 mod (2·shift+1) -
// shift rows down and dx likewise to the right, w0 and w1 being the first words of the Philox block (0, position+i, epoch,
// philox.Augment).
//
// images [N,H,W,C], x [B,H,W,C].
func GatherImages[E Float](x []E, images []uint8, order []int32, table *[256]float32, shift int, seed uint64, epoch, position uint32, H, W, C, from, to int) {
	elems := H * W * C
	for i := from; i < to; i++ {
		p := position + uint32(i)
		src, dst := images[int(order[p])*elems:][:elems], x[i*elems:][:elems]
		if shift == 0 {
			for j, b := range src {
				dst[j] = E(table[b])
			}
			continue
		}
		MovedImage(dst, src, table, shift, seed, epoch, p, H, W, C)
	}
}

// MovedImage fills dst with one image moved by the draw of its position in the epoch, as GatherImages says.
//
// src, dst [H,W,C].
func MovedImage[E Float](dst []E, src []uint8, table *[256]float32, shift int, seed uint64, epoch, position uint32, H, W, C int) {
	words := philox.Block(philox.Key(seed), [4]uint32{0, position, epoch, philox.Augment})
	side := uint32(2*shift + 1)
	moveImage(dst, src, table, int(words[0]%side)-shift, int(words[1]%side)-shift, H, W, C)
}

// moveImage copies src moved by dy rows down and dx columns to the right.
func moveImage[E Float](dst []E, src []uint8, table *[256]float32, dy, dx, H, W, C int) {
	for h := range H {
		for w := range W {
			out := dst[(h*W+w)*C:][:C]
			sh, sw := h-dy, w-dx
			if sh < 0 || sh >= H || sw < 0 || sw >= W {
				for c := range out {
					out[c] = E(table[0])
				}
				continue
			}
			for c, b := range src[(sh*W+sw)*C:][:C] {
				out[c] = E(table[b])
			}
		}
	}
}

// OneHot fills rows of y with zeros and a one at the label.
//
// y [M,classes], labels [M].
func OneHot[E Float](y []E, labels []int32, classes int) {
	clear(y[:len(labels)*classes])
	for i, l := range labels {
		y[i*classes+int(l)] = 1
	}
}
