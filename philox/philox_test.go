package philox

import "testing"

// The known answers of the generator's authors (Random123, kat_vectors, philox4x32 10).
func TestKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		key       [2]uint32
		ctr, want [4]uint32
	}{
		{[2]uint32{}, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			[2]uint32{0xffffffff, 0xffffffff},
			[4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{
			[2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		if got := Block(c.key, c.ctr); got != c.want {
			t.Errorf("key %x counter %x: %x, want %x", c.key, c.ctr, got, c.want)
		}
	}
}

// After Seek(n) a stream goes on as one whose first n words were drawn.
func TestSeek(t *testing.T) {
	one := NewStream(9, Init, 2, 3)
	for n := range uint64(40) {
		want := one.Uint32()
		two := NewStream(9, Init, 2, 3)
		two.Uint32()
		two.Seek(n)
		if got := two.Uint32(); got != want {
			t.Errorf("word %d: %#x, want %#x", n, got, want)
		}
	}
}

func TestPermIsAPermutation(t *testing.T) {
	seen := make([]bool, 1000)
	for _, i := range NewStream(42, Order, 3, 0).Perm(1000) {
		if seen[i] {
			t.Fatalf("%d twice", i)
		}
		seen[i] = true
	}
}

func TestNormalMoments(t *testing.T) {
	s := NewStream(1, Random, 0, 0)
	const n = 200000
	var sum, sq float64
	for range n {
		v := s.Normal()
		sum, sq = sum+v, sq+v*v
	}
	mean, variance := sum/n, sq/n-sum/n*sum/n
	// Standard errors: 1/sqrt(n) = 0.0022 for the mean, sqrt(2/n) = 0.0032 for the variance; five of each.
	if mean < -0.011 || mean > 0.011 || variance < 1-0.016 || variance > 1+0.016 {
		t.Errorf("mean %g, variance %g", mean, variance)
	}
	t.Logf("mean %g, variance %g", mean, variance)
}
