package data

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"halfstep/configs"
	"halfstep/philox"
)

// Even values against philox.Stream.Normal, odd ones against the sine of the same words, in float64. Both round to
// float32, so that a last-bit difference of float64 sine and cosine may show as one float32 step: 2^-23 of the value.
func TestNormalChunkIsTheStream(t *testing.T) {
	const n = 1000
	got := make([]float32, n)
	normalChunk(got, 7, randomTargets, 3)
	even := philox.NewStream(7, philox.Random, randomTargets, 3)
	odd := philox.NewStream(7, philox.Random, randomTargets, 3)
	worst := 0.0
	for i := 0; i < n; i += 2 {
		u, v := 1-odd.Float64(), odd.Float64()
		for k, want := range []float64{even.Normal(), math.Sqrt(-2*math.Log(u)) * math.Sin(2*math.Pi*v)} {
			worst = max(worst, math.Abs(float64(got[i+k])-want)/math.Abs(want))
		}
	}
	if worst > 1.0/(1<<23) {
		t.Errorf("relative error %g, want at most 2^-23", worst)
	}
	t.Logf("largest relative error %.3g", worst)
}

func TestRandomIsTheSameAtAnyThreadCount(t *testing.T) {
	cfg := configs.Data{Name: "random", Random: configs.Random{Samples: 1001, Features: 300, Targets: 7}}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one, err := Open(cfg, 11)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GOMAXPROCS(5)
	five, err := Open(cfg, 11)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(one.Train.Inputs, five.Train.Inputs) || !slices.Equal(one.Train.Targets, five.Train.Targets) {
		t.Error("one thread and five draw different values")
	}
	other, err := Open(cfg, 12)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(one.Train.Inputs, other.Train.Inputs) || slices.Equal(one.Train.Inputs[:7007], one.Train.Targets) {
		t.Error("values that neither seed nor purpose changes")
	}
	if one.Train.N != 1001 || len(one.Train.Inputs) != 1001*300 || len(one.Train.Targets) != 1001*7 || one.Test.N != 0 ||
		one.Features != 300 || one.Targets != 7 || len(one.TrainIndex) != 1001 {
		t.Errorf("%d samples, %d inputs, %d targets, %d test", one.Train.N, len(one.Train.Inputs), len(one.Train.Targets), one.Test.N)
	}
}

// Standard errors over n values: 1/sqrt(n) for mean and lag-1 correlation, sqrt(2/n) variance, sqrt(96/n) fourth moment;
// five of each. Lag 65536 compares neighbouring chunks.
func TestRandomMoments(t *testing.T) {
	const n = 1 << 20
	v := make([]float32, n)
	fillNormal(v, 3, randomInputs)
	var m1, m2, m4, lag, chunk float64
	for i, x := range v {
		x := float64(x)
		m1 += x / n
		m2 += x * x / n
		m4 += x * x * x * x / n
		lag += x * float64(v[(i+1)%n]) / n
		chunk += x * float64(v[(i+randomChunk)%n]) / n
	}
	se := 1 / math.Sqrt(n)
	for _, c := range []struct {
		what            string
		got, want, room float64
	}{
		{"mean", m1, 0, 5 * se},
		{"variance", m2, 1, 5 * math.Sqrt2 * se},
		{"fourth moment", m4, 3, 5 * math.Sqrt(96) * se},
		{"correlation of neighbours", lag, 0, 5 * se},
		{"correlation of chunks", chunk, 0, 5 * se},
	} {
		if math.Abs(c.got-c.want) > c.room {
			t.Errorf("%s %g, want %g within %g", c.what, c.got, c.want, c.room)
		}
		t.Logf("%s %.5f, want %g within %.5f", c.what, c.got, c.want, c.room)
	}
}

// The extreme words give finite values: no logarithm of zero.
func TestBoxMullerIsFinite(t *testing.T) {
	for _, a := range []uint32{0, 1, math.MaxUint32} {
		for _, b := range []uint32{0, 1 << 30, math.MaxUint32} {
			x, y := boxMuller(a, b)
			if math.IsNaN(float64(x+y)) || math.Abs(float64(x)) > 6.67 || math.Abs(float64(y)) > 6.67 {
				t.Errorf("words %#x, %#x give %g, %g", a, b, x, y)
			}
		}
	}
}

func TestRandomRefused(t *testing.T) {
	for _, c := range []struct {
		random configs.Random
		want   string
	}{
		{configs.Random{Samples: 0, Features: 1, Targets: 1}, "data.random.samples: 0, want at least 1"},
		{configs.Random{Samples: 1, Features: -2, Targets: 1}, "data.random.features: -2, want at least 1"},
		{configs.Random{Samples: 1, Features: 1, Targets: 0}, "data.random.targets: 0, want at least 1"},
		{
			configs.Random{Samples: math.MaxInt32, Features: 4096, Targets: 1},
			"data.random: 2147483647 samples of 4096 values, want at most 4294967296 values",
		},
	} {
		_, err := Open(configs.Data{Name: "random", Random: c.random}, 1)
		if config := (*ConfigError)(nil); !errors.As(err, &config) || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func BenchmarkFillNormal(b *testing.B) {
	v := make([]float32, 1<<22)
	b.SetBytes(int64(len(v)) * 4)
	for b.Loop() {
		fillNormal(v, 1, randomInputs)
	}
}
