package trainer

import (
	"context"
	"math"
	"os"
	"sync"
	"testing"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/device/cpu"
	"halfstep/device/cpu/kernel"
	"halfstep/runs"
)

// load resolves a configuration from YAML with overrides.
func load(t *testing.T, yaml string, overrides ...string) *configs.Resolved {
	t.Helper()
	path := t.TempDir() + "/test.yaml"
	if err := os.WriteFile(path, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := configs.Load(path, append([]string{"runs_dir=" + t.TempDir()}, overrides...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mnist is the real MNIST, from the GoMNIST module; read once.
var mnist = sync.OnceValues(func() (*data.Set, error) {
	return data.Open(configs.Data{Name: "mnist"}, 0)
})

// images is a set of the first n training images of MNIST, tested on as many more of the test images as asked for.
func images(t *testing.T, n, test int) *data.Set {
	t.Helper()
	full, err := mnist()
	if err != nil {
		t.Fatal(err)
	}
	s := *full
	first := func(p data.Split, n int) data.Split {
		return data.Split{N: n, Images: p.Images[:n*s.Height*s.Width], Labels: p.Labels[:n]}
	}
	s.Train, s.Test = first(full.Train, n), first(full.Test, test)
	s.TrainIndex, s.ValIndex = identity(n), nil
	return &s
}

// hold moves the last n training images to validation.
func hold(s *data.Set, n int) *data.Set {
	cut := len(s.TrainIndex) - n
	s.TrainIndex, s.ValIndex = s.TrainIndex[:cut], s.TrainIndex[cut:]
	return s
}

// open opens the CPU at a level, or at the best one where it is nil.
func open(t *testing.T, level *kernel.Level, threads int) device.Device {
	t.Helper()
	d, err := cpu.Open(cpu.Options{Level: level, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// recorder keeps what a trainer reports.
type recorder struct {
	events []runs.Event
	saved  []*runs.Checkpoint // all but best ones
	best   []*runs.Checkpoint
}

func (r *recorder) options() Options {
	return Options{
		Emit: func(e runs.Event) { r.events = append(r.events, e) },
		Save: func(_, step int, c *runs.Checkpoint, best bool) error {
			c.Step = step
			if best {
				r.best = append(r.best, c)
			} else {
				r.saved = append(r.saved, c)
			}
			return nil
		},
	}
}

// of gives the recorded events of one kind.
func of[E runs.Event](r *recorder) []E {
	var list []E
	for _, e := range r.events {
		if e, ok := e.(E); ok {
			list = append(list, e)
		}
	}
	return list
}

func newTrainer(t *testing.T, c configs.Config, set *data.Set, d device.Device, o Options) *Trainer {
	t.Helper()
	tr, err := New(c, set, d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

// fit trains a configuration to its end.
func fit(t *testing.T, c configs.Config, set *data.Set, d device.Device) (*Trainer, *recorder, *Result) {
	t.Helper()
	r := &recorder{}
	tr := newTrainer(t, c, set, d, r.options())
	result, err := tr.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return tr, r, result
}

// floats views a checkpoint's tensor.
func floats(t *testing.T, c *runs.Checkpoint, name string) []float32 {
	t.Helper()
	x := c.Lookup(name)
	if x == nil {
		t.Fatalf("no tensor %s", name)
	}
	v := make([]float32, len(x.Data)/4)
	copy(device.Bytes(v), x.Data)
	return v
}

func checkpoint(t *testing.T, tr *Trainer) *runs.Checkpoint {
	t.Helper()
	c, err := tr.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sameBits reports whether two numbers are the same, NaN included.
func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
