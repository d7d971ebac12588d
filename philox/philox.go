// Package philox is the counter-based random number generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random
// Numbers: As Easy as 1, 2, 3", 2011). A word depends on the key and the counter alone, so every device, thread count and
// resumed run draws the same numbers.
//
// The project's streams use the seed as key and (index, position, epoch, purpose) as counter.
package philox

import "math"

// The purposes that keep streams of one seed apart. Dropout layer i uses Dropout+i, parameter i uses Init+i.
const (
	Order   uint32 = 1
	Augment uint32 = 2
	Split   uint32 = 3
	Random  uint32 = 4
	Init    uint32 = 1 << 16
	Dropout uint32 = 1 << 17
)

const (
	mul0, mul1 = 0xD2511F53, 0xCD9E8D57
	wey0, wey1 = 0x9E3779B9, 0xBB67AE85
	rounds     = 10
)

// Block gives the four words of one counter.
func Block(key [2]uint32, ctr [4]uint32) [4]uint32 {
	for range rounds {
		p0, p1 := uint64(mul0)*uint64(ctr[0]), uint64(mul1)*uint64(ctr[2])
		ctr = [4]uint32{uint32(p1>>32) ^ ctr[1] ^ key[0], uint32(p1), uint32(p0>>32) ^ ctr[3] ^ key[1], uint32(p0)}
		key[0] += wey0
		key[1] += wey1
	}
	return ctr
}

// Key splits a seed into the two words of a key.
func Key(seed uint64) [2]uint32 { return [2]uint32{uint32(seed), uint32(seed >> 32)} }

// Stream draws words one after another: block (0, position, epoch, purpose), (1, position, epoch, purpose), ...
type Stream struct {
	key  [2]uint32
	ctr  [4]uint32
	word [4]uint32
	left int
}

// NewStream starts a stream.
func NewStream(seed uint64, purpose, epoch, position uint32) *Stream {
	return &Stream{key: Key(seed), ctr: [4]uint32{0, position, epoch, purpose}}
}

// Seek makes word n of the stream, from 0, the next one.
func (s *Stream) Seek(n uint64) {
	s.ctr[0], s.left = uint32(n/4), 0
	for range n % 4 {
		s.Uint32()
	}
}

// Uint32 is the next word.
func (s *Stream) Uint32() uint32 {
	if s.left == 0 {
		s.word = Block(s.key, s.ctr)
		s.ctr[0]++
		s.left = 4
	}
	s.left--
	return s.word[3-s.left]
}

// Float64 is uniform in [0, 1), with 32 random bits.
func (s *Stream) Float64() float64 { return float64(s.Uint32()) * (1.0 / (1 << 32)) }

// IntN is uniform in [0, n) for 0 < n < 2³², without bias.
func (s *Stream) IntN(n int) int {
	limit := uint64(1<<32) / uint64(n) * uint64(n)
	for {
		if w := uint64(s.Uint32()); w < limit {
			return int(w % uint64(n))
		}
	}
}

// Normal is normally distributed with mean 0 and deviation 1 (Box and Muller, one value a pair of words).
func (s *Stream) Normal() float64 {
	u, v := 1-s.Float64(), s.Float64()
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}

// Perm is a random permutation of 0..n-1 (Fisher and Yates, from the top).
func (s *Stream) Perm(n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i)
	}
	for i := n - 1; i > 0; i-- {
		j := s.IntN(i + 1)
		p[i], p[j] = p[j], p[i]
	}
	return p
}

// MaskWord is the word that decides about one element of a dropout mask. Within each group of 64 elements, word w of
// block b covers element 16·w + b, so that sixteen blocks side by side give sixteen elements side by side.
func MaskWord(key [2]uint32, purpose, epoch, position, element uint32) uint32 {
	block := element/64*16 + element%16
	return Block(key, [4]uint32{block, position, epoch, purpose})[element%64/16]
}
