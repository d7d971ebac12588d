package kernel

import (
	"halfstep/model/op/ref"
	"halfstep/philox"
)

// DropoutStream is what a dropout layer's masks depend on besides epoch and position.
type DropoutStream struct {
	key       [2]uint32
	keys      [20]uint32 // the rounds' keys, in pairs
	purpose   uint32
	threshold uint32
}

// NewDropoutStream makes the stream of one layer: purpose is philox.Dropout plus the layer's number, 0 <= rate < 1.
func NewDropoutStream(seed uint64, purpose uint32, rate float32) *DropoutStream {
	d := &DropoutStream{key: philox.Key(seed), purpose: purpose, threshold: ref.DropoutThreshold(rate)}
	k := d.key
	for i := 0; i < len(d.keys); i += 2 {
		d.keys[i], d.keys[i+1] = k[0], k[1]
		k[0] += 0x9E3779B9 // the Weyl sequence of Philox
		k[1] += 0xBB67AE85
	}
	return d
}

// DropoutMask sets the mask of one sample, the one at this position of the epoch: mask[i] is 1 where philox.MaskWord of
// element i is at least rate·2³², else 0.
func (v *Vec) DropoutMask(mask []uint8, d *DropoutStream, epoch, position uint32) {
	v.dropoutMask(mask, d, 0, epoch, position)
}

// dropoutMaskGo is DropoutMask for the elements from first on, a multiple of 64. It is the twin of dropoutMaskAVX512 and
// dropoutMaskAVX2.
func dropoutMaskGo(mask []uint8, d *DropoutStream, first int, epoch, position uint32) {
	for i := 0; i < len(mask); i += 64 {
		group := mask[i:min(i+64, len(mask))]
		for b := range min(16, len(group)) {
			words := philox.Block(d.key, [4]uint32{uint32((first+i)/4 + b), position, epoch, d.purpose})
			for w, e := 0, b; w < 4 && e < len(group); w, e = w+1, e+16 {
				group[e] = 0
				if words[w] >= d.threshold {
					group[e] = 1
				}
			}
		}
	}
}
