package conformance

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"halfstep/device"
	"halfstep/program"
)

// contract checks what package device promises of stores, arenas, compilation and runs.
func contract(t *testing.T, dev device.Device) {
	t.Run("properties", func(t *testing.T) {
		if p := dev.Properties(); p.Kind == "" || p.Name == "" || p.ISA == "" || p.Cores < 1 {
			t.Errorf("%+v: want kind, name, instruction set and cores", p)
		}
	})
	t.Run("store", func(t *testing.T) { storeContract(t, dev) })
	t.Run("memory", func(t *testing.T) { memoryContract(t, dev) })
	t.Run("compile", func(t *testing.T) { compileContract(t, dev) })
	t.Run("run", func(t *testing.T) { runContract(t, dev) })
}

// twoValues are a persistent float32 [3,5] and a uint8 [7].
func twoValues() []*program.Value {
	p := &program.Program{}
	p.NewPersistent("a", program.RoleParam, program.Float32, 3, 5)
	p.NewPersistent("b", program.RoleData, program.Uint8, 7)
	return p.Values
}

// check fails the test when err is not nil.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refuse wants an error that names something.
func refuse(t *testing.T, what string, err error, name string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("%s: error %v, want one that names %q", what, err, name)
	}
}

func storeContract(t *testing.T, dev device.Device) {
	vs := twoValues()
	s, err := dev.NewStore(vs)
	check(t, err)
	defer s.Close()
	got := bytes.Repeat([]byte{1}, 60)
	check(t, s.Read("a", got))
	if !bytes.Equal(got, make([]byte, 60)) {
		t.Error("a new store is not zero")
	}
	want := []byte("seven b")
	check(t, s.Write("b", want))
	refuse(t, "a value that is not there", s.Read("c", got), "c")
	refuse(t, "a value that is not there", s.Write("c", got), "c")
	refuse(t, "a wrong size", s.Read("b", got), "b")
	refuse(t, "a wrong size", s.Write("b", got), "b")

	p := &program.Program{}
	p.NewPersistent("b", program.RoleData, program.Uint8, 7)
	p.NewPersistent("c", program.RoleData, program.Int32)
	check(t, s.Add(p.Values))
	got = got[:7]
	if check(t, s.Read("b", got)); !bytes.Equal(got, want) {
		t.Errorf("after Add b is %q, want %q", got, want)
	}
	check(t, s.Read("c", got[:4]))
	other := &program.Program{}
	other.NewPersistent("b", program.RoleData, program.Uint8, 8)
	refuse(t, "another shape", s.Add(other.Values), "b")
}

func memoryContract(t *testing.T, dev device.Device) {
	before := dev.Memory()
	s, err := dev.NewStore(twoValues())
	check(t, err)
	a, err := dev.NewArena(1000)
	check(t, err)
	if a.Size() < 1000 {
		t.Errorf("the arena has %d bytes, want 1000", a.Size())
	}
	during := dev.Memory()
	if got := during.Allocated - before.Allocated; got != 67+1000 {
		t.Errorf("a store of 67 bytes and an arena of 1000 allocate %d", got)
	}
	if during.Peak < during.Allocated || during.Reserved < during.Allocated {
		t.Errorf("%+v: peak and reserved below what is allocated", during)
	}
	check(t, a.Close())
	check(t, s.Close())
	if after := dev.Memory(); after.Allocated != before.Allocated || after.Peak < during.Allocated {
		t.Errorf("after closing both %+v, want %d allocated and a peak of %d", after, before.Allocated, during.Allocated)
	}
	dev.ResetPeak()
	if m := dev.Memory(); m.Peak != m.Allocated {
		t.Errorf("after ResetPeak %+v: want the peak at what is allocated", m)
	}
}

// unknown is an operation that no device has.
type unknown struct{}

func (unknown) Name() string                                { return "unknown_operation" }
func (unknown) Check(in, out, inout []*program.Value) error { return nil }

func compileContract(t *testing.T, dev device.Device) {
	p := &program.Program{Name: "contract"}
	x := p.NewPersistent("x", program.RoleData, program.Float32, 100)
	s, err := dev.NewStore(p.Persistent())
	check(t, err)
	defer s.Close()
	empty, err := dev.NewArena(0)
	check(t, err)
	defer empty.Close()
	compile := func(p *program.Program) error {
		check(t, p.Plan(dev.Workspace))
		_, err := dev.Compile(p, s, empty)
		return err
	}
	p.Emit(program.Forward, "", unknown{}, nil, nil, []*program.Value{x})
	refuse(t, "an operation without a kernel", compile(p), "unknown_operation")

	p = &program.Program{Name: "contract"}
	x = p.NewPersistent("x", program.RoleData, program.Float32, 100)
	y := p.NewValue("y", program.RoleMetric, program.Float32, 100)
	p.Emit(program.Forward, "", program.Cast{}, []*program.Value{x}, []*program.Value{y}, nil)
	refuse(t, "an arena that is too small", compile(p), "arena")

	p = &program.Program{Name: "contract"}
	p.Emit(program.Forward, "", program.Zero{}, nil, nil, []*program.Value{p.NewPersistent("absent", program.RoleData, program.Float32, 100)})
	refuse(t, "a value that is not in the store", compile(p), "absent")
}

func runContract(t *testing.T, dev device.Device) {
	p := &program.Program{Name: "contract"}
	c := p.NewPersistent(program.CountersName, program.RoleState, program.Int32, program.NumCounters)
	for range 2 {
		p.Emit(program.Metrics, "", program.Advance{Samples: 5}, nil, nil, []*program.Value{c})
	}
	s, err := dev.NewStore(p.Persistent())
	check(t, err)
	defer s.Close()
	a, err := dev.NewArena(0)
	check(t, err)
	defer a.Close()
	e, err := dev.Compile(p, s, a)
	check(t, err)
	position := func() int32 {
		v, err := device.Read[int32](s, program.CountersName, program.NumCounters)
		check(t, err)
		return v[program.CounterPosition]
	}
	check(t, e.Run(context.Background(), 3))
	if got := position(); got != 30 {
		t.Errorf("after 3 steps of twice 5 samples the position is %d, want 30", got)
	}
	p2 := &program.Program{Name: "contract tail"}
	c2 := p2.NewPersistent(program.CountersName, program.RoleState, program.Int32, program.NumCounters)
	p2.Emit(program.Metrics, "", program.Advance{Samples: -30}, nil, nil, []*program.Value{c2})
	e2, err := dev.Compile(p2, s, a)
	check(t, err)
	for _, e := range []device.Executable{e2, e, e2, e, e, e} { // two programs take turns on one store and one arena
		check(t, e.Run(context.Background(), 1))
	}
	if got := position(); got != 10 {
		t.Errorf("after two programs took turns the position is %d, want 10", got)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Run(ended, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("run in a context that has ended: error %v, want %v", err, context.Canceled)
	}
	if got := position(); got != 10 {
		t.Errorf("a run in a context that has ended moved the position to %d", got)
	}
	ns, err := e.Profile(context.Background())
	check(t, err)
	if len(ns) != len(p.Instrs) || slices.Min(ns) < 0 {
		t.Errorf("profile %v, want the time of each of %d instructions", ns, len(p.Instrs))
	}
	if got := position(); got != 20 {
		t.Errorf("after a profiled step the position is %d, want 20", got)
	}
}
