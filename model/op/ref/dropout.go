package ref

import (
	"math"

	"halfstep/philox"
)

// DropoutThreshold is the smallest Philox word that keeps an element: Rate·2³², rounded up.
func DropoutThreshold(rate float32) uint32 { return uint32(math.Ceil(float64(rate) * (1 << 32))) }

// DropoutScale is the factor of the elements that are kept: 1/(1-rate), rounded to float32 once.
func DropoutScale(rate float32) float32 { return float32(1 / (1 - float64(rate))) }

// DropoutMask draws samples from to to-1 of mask: an element is 1 when its word, philox.MaskWord of the stream
// philox.Dropout+layer at the sample's position in the epoch, is at least DropoutThreshold, else 0. The batch's first
// sample is at position. It computes whole blocks: four mask words from each.
//
// mask [B,elems].
func DropoutMask(mask []uint8, rate float32, seed uint64, layer int, epoch, position uint32, elems, from, to int) {
	key, purpose, threshold := philox.Key(seed), philox.Dropout+uint32(layer), DropoutThreshold(rate)
	for s := from; s < to; s++ {
		row := mask[s*elems:][:elems]
		for group := 0; group < elems; group += 64 {
			for b := range min(16, elems-group) {
				words := philox.Block(key, [4]uint32{uint32(group/4 + b), position + uint32(s), epoch, purpose})
				for w, e := 0, group+b; w < 4 && e < elems; w, e = w+1, e+16 {
					row[e] = 0
					if words[w] >= threshold {
						row[e] = 1
					}
				}
			}
		}
	}
}

// ApplyMask computes y = x·DropoutScale(rate) where mask is not 0, else 0.
func ApplyMask[E Float](y, x []E, mask []uint8, rate float32) {
	y, mask = y[:len(x)], mask[:len(x)]
	scale := E(DropoutScale(rate))
	for i, v := range x {
		if mask[i] == 0 {
			y[i] = 0
		} else {
			y[i] = v * scale
		}
	}
}
