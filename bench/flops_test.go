package bench

import (
	"testing"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device/devices"
	"halfstep/model/op/ref"
	"halfstep/program"
	"halfstep/trainer"
)

func value(shape ...int) *program.Value { return &program.Value{Shape: shape} }

// TestInstrFLOPs counts by hand: two per multiply-add.
func TestInstrFLOPs(t *testing.T) {
	conv := ref.Conv{KH: 3, KW: 3, Stride: 1} // 8x8 -> 6x6
	x, w, y, pooled := value(2, 8, 8, 4), value(3, 3, 4, 16), value(2, 6, 6, 16), value(2, 3, 3, 16)
	const pass = 2 * (2 * 6 * 6) * (3 * 3 * 4 * 16)
	pool := ref.Pool{Size: 2, Stride: 2}
	lx, lw, ly := value(8, 100), value(100, 30), value(8, 30)
	const product = 2 * 8 * 100 * 30
	for _, c := range []struct {
		op      program.Op
		in, out []*program.Value
		want    int64
	}{
		{program.Conv2D{Conv: conv}, []*program.Value{x, w}, []*program.Value{y}, pass},
		{program.Conv2D{Conv: conv, ReLU: true, Pool: pool}, []*program.Value{x, w}, []*program.Value{pooled, pooled}, pass},
		{program.Conv2DGradX{Conv: conv}, []*program.Value{w, y}, []*program.Value{x}, pass},
		{program.Conv2DGradW{Conv: conv}, []*program.Value{x, y}, []*program.Value{w}, pass},
		{program.Conv2DBackward{Conv: conv}, []*program.Value{x, w, y}, []*program.Value{w}, pass},
		{program.Conv2DBackward{Conv: conv, Pool: pool, NeedX: true}, []*program.Value{x, w, pooled, pooled}, []*program.Value{w, x}, 2 * pass},
		{program.Linear{}, []*program.Value{lx, lw}, []*program.Value{ly}, product},
		{program.LinearGradX{}, []*program.Value{ly, lw}, []*program.Value{lx}, product},
		{program.LinearGradW{}, []*program.Value{lx, ly}, []*program.Value{lw}, product},
		{program.Activation{}, []*program.Value{lx}, []*program.Value{lx}, 0},
	} {
		if got := instrFLOPs(&program.Instr{Op: c.op, In: c.in, Out: c.out}); got != c.want {
			t.Errorf("%T: %d FLOPs, want %d", c.op, got, c.want)
		}
	}
}

// TestStepFLOPs: the reference CNN at batch 512, counted by hand, and the trainer's own count from the layers.
func TestStepFLOPs(t *testing.T) {
	const (
		batch   = 512
		conv1   = 2 * batch * 26 * 26 * 32 * 3 * 3 * 1
		conv2   = 2 * batch * 24 * 24 * 64 * 3 * 3 * 32
		linear1 = 2 * batch * 9216 * 128
		linear2 = 2 * batch * 128 * 10
		want    = 2*conv1 + 3*(conv2+linear1+linear2) // no gradient of the images
	)
	for _, name := range []string{"cnn", "cnn_amp"} {
		r, err := configs.Load(name, []string{"device=cpu"})
		if err != nil {
			t.Fatal(err)
		}
		s, err := trainer.Prepare(r, trainer.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got := programFLOPs(s.Trainer().Program())
		if got != want || got != s.Trainer().FLOPs() {
			t.Errorf("%s: %d FLOPs a step, by hand %d, by layers %d", name, got, int64(want), s.Trainer().FLOPs())
		}
		t.Logf("%s: %.2f GFLOP a step", name, float64(got)/1e9)
	}
}

// TestUntrainedLayer: no FLOPs for the gradient of a weight that stays as it is.
func TestUntrainedLayer(t *testing.T) {
	size := MLPSize{4, 6, 5, 3}
	c, err := mlpSetting(size)
	if err != nil {
		t.Fatal(err)
	}
	set, err := data.Open(c.Data, c.Seed)
	if err != nil {
		t.Fatal(err)
	}
	d, err := devices.Open("cpu", devices.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tr, err := trainer.New(c, set, d, trainer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	// Forward through all three, dx of the second and third, dw of the first and second.
	const want = 2*4*(6*5+5*3+3*3) + 2*4*(5*3+3*3) + 2*4*(6*5+5*3)
	if got := programFLOPs(tr.Program()); got != want {
		t.Errorf("%d FLOPs a step, want %d\n%v", got, want, tr.Program())
	}
}
