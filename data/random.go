package data

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"halfstep/configs"
	"halfstep/philox"
)

// randomChunk is how many values one stream position gives. It is part of the numbers' definition: changing it changes
// them.
const randomChunk = 1 << 16

// The stream's epoch tells inputs from targets.
const (
	randomInputs  uint32 = 0
	randomTargets uint32 = 1
)

// maxRandom bounds each of inputs and targets, 16 GB of float32.
const maxRandom = 1 << 32

// randomSet draws inputs and targets from the standard normal distribution. There is no test split.
func randomSet(cfg configs.Random, seed uint64) (*Set, error) {
	for _, c := range []struct {
		key string
		n   int
	}{{"samples", cfg.Samples}, {"features", cfg.Features}, {"targets", cfg.Targets}} {
		if c.n < 1 || c.n > math.MaxInt32 {
			return nil, &ConfigError{Key: "data.random." + c.key, Message: fmt.Sprintf("%d, want at least 1", c.n)}
		}
	}
	if widest := max(cfg.Features, cfg.Targets); cfg.Samples > maxRandom/widest {
		return nil, &ConfigError{Key: "data.random", Message: fmt.Sprintf("%d samples of %d values, want at most %d values", cfg.Samples, widest, maxRandom)}
	}
	set := &Set{Name: "random", Features: cfg.Features, Targets: cfg.Targets}
	set.Train = Split{
		N:       cfg.Samples,
		Inputs:  make([]float32, cfg.Samples*cfg.Features),
		Targets: make([]float32, cfg.Samples*cfg.Targets),
	}
	fillNormal(set.Train.Inputs, seed, randomInputs)
	fillNormal(set.Train.Targets, seed, randomTargets)
	return set, nil
}

// fillNormal fills dst chunk by chunk on all processors. Each chunk has its own stream position, so the values are the
// same at any thread count.
func fillNormal(dst []float32, seed uint64, epoch uint32) {
	chunks := (len(dst) + randomChunk - 1) / randomChunk
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), chunks) {
		wg.Go(func() {
			for {
				c := int(next.Add(1)) - 1
				if c >= chunks {
					return
				}
				normalChunk(dst[c*randomChunk:min((c+1)*randomChunk, len(dst))], seed, epoch, uint32(c))
			}
		})
	}
	wg.Wait()
}

// normalChunk fills one chunk by the Box-Muller transform, both values of each pair of words: the even ones are what
// philox.Stream.Normal gives one after another, the slow way.
func normalChunk(dst []float32, seed uint64, epoch, chunk uint32) {
	key := philox.Key(seed)
	for i := 0; i < len(dst); i += 4 {
		w := philox.Block(key, [4]uint32{uint32(i / 4), chunk, epoch, philox.Random})
		var v [4]float32
		v[0], v[1] = boxMuller(w[0], w[1])
		v[2], v[3] = boxMuller(w[2], w[3])
		copy(dst[i:], v[:])
	}
}

// boxMuller turns two random words into two independent standard normal values (Box and Muller, 1958).
func boxMuller(a, b uint32) (float32, float32) {
	const unit = 1.0 / (1 << 32)
	r := math.Sqrt(-2 * math.Log(1-float64(a)*unit)) // 1-u lies in (0,1]: the logarithm is finite
	sin, cos := math.Sincos(2 * math.Pi * (float64(b) * unit))
	return float32(r * cos), float32(r * sin)
}
