package kernel

import "unsafe"

// packForward lays out w [KH,KW,C,OC] as [block][KH][run][channels], the padding of the last block zero. In pairs, an
// element is two consecutive weights of a run.
func packForward(c *correlation, packed, w unsafe.Pointer, from rowType) {
	clearBytes(packed, c.packedBytes())
	line := c.out.n * from.bytes() // of one weight's output channels
	for b := range c.out.count() {
		width := c.out.vectors(b) * c.out.lanes
		src := unsafe.Add(w, c.out.first(b)*from.bytes())
		t := convRows{dst: c.weights(packed, b), src: src, n: c.kh * c.run, c: c.out.channels(b), srcPix: line, dstPix: 4 * width}
		if !c.bf16 {
			c.level.convRows(&t, from, rowF32, false)
			continue
		}
		for i := range t.n {
			lo := unsafe.Add(t.src, 2*i*line)
			c.level.convPairs(unsafe.Add(t.dst, i*t.dstPix), lo, unsafe.Add(lo, line), t.c)
		}
	}
}

// packChunk is how many elements packBackward converts at a time.
const packChunk = 256

// packBackward lays out w [KH,KW,C,OC] as [block][KH][KW·OC][channels], turned by half a turn: the channels are those of
// x, an element of a run is one output channel (in pairs two), and OC is padded to ocp with zeros.
func packBackward(c *correlation, s ConvShape, packed, w unsafe.Pointer, from rowType, ocp int) {
	clearBytes(packed, c.packedBytes())
	var buf [packChunk]float32
	for i := range s.KH * s.KW * s.C {
		tap, ch := s.KH*s.KW-1-i/s.C, i%s.C
		b := ch / (2 * c.out.lanes)
		width := c.out.vectors(b) * c.out.lanes
		dst := unsafe.Add(c.weights(packed, b), 4*(ch-c.out.first(b)))
		for o := 0; o < s.OC; o += packChunk {
			v := buf[:min(packChunk, s.OC-o)]
			t := convRows{dst: unsafe.Pointer(&buf), src: unsafe.Add(w, (i*s.OC+o)*from.bytes()), n: 1, c: len(v)}
			c.level.convRows(&t, from, rowF32, false)
			for j, x := range v {
				k := tap*ocp + o + j
				if c.bf16 {
					storeElem(rowBF16, dst, k/2*width*2+k%2, x)
				} else {
					*f32At(dst, 4*k*width) = x
				}
			}
		}
	}
}
