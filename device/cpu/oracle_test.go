package cpu_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"halfstep/configs"
	"halfstep/device"
	"halfstep/device/conformance"
	"halfstep/device/cpu/kernel"
	"halfstep/model"
	"halfstep/program"
)

// oracleBatch is the batch size of the comparison with Gorgonia's TapeMachine.
const oracleBatch = 3

// TestPortableEqualsTapeMachine lowers the net of every shipped config and runs it, before autocast and fusion, on the
// portable level. Loss, logits and gradients must equal those of Gorgonia's TapeMachine on the same graph bit for bit.
func TestPortableEqualsTapeMachine(t *testing.T) {
	for _, name := range configs.Names() {
		for _, train := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/train=%t", name, train), func(t *testing.T) {
				c, err := configs.Load(name, nil)
				if err != nil {
					t.Fatal(err)
				}
				compareWithOracle(t, specOf(c.Config, train))
			})
		}
	}
}

// TestRandomEqualsTapeMachine does the same for the conformance suite's random networks, which have every kind of layer.
func TestRandomEqualsTapeMachine(t *testing.T) {
	for seed := range uint64(40) {
		compareWithOracle(t, conformance.RandomSpec(seed))
	}
}

// specOf is the config's net at a small batch. Layers of the thousands wide net are made narrow, which keeps its shape.
func specOf(c configs.Config, train bool) model.Spec {
	s := model.Spec{Layers: c.Model.Layers, Loss: c.Loss, Batch: oracleBatch, Train: train, Seed: c.Seed, Input: []int{28, 28, 1}, Classes: 10}
	if c.Data.Name == "random" {
		s.Input, s.Classes, s.Targets = []int{c.Data.Random.Features}, 0, c.Data.Random.Targets
	}
	const wide, narrow = 4096, 72
	if s.Input[0] == wide {
		s.Input[0], s.Targets = narrow, narrow
		for i := range s.Layers {
			if s.Layers[i].Units == wide {
				s.Layers[i].Units = narrow
			}
		}
	}
	return s
}

// compareWithOracle runs one pass both ways on random parameters and data.
func compareWithOracle(t *testing.T, s model.Spec) {
	m, err := model.Build(s)
	if err != nil {
		t.Fatal(err)
	}
	o, err := model.NewOracle[float32](m)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	p := newPass(t, m)
	r := rand.New(rand.NewPCG(s.Seed, 1))
	normal := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	x := normal(m.Input.Shape().TotalSize())
	must(t, o.Bind(m.Input, x))
	must(t, device.Write(p.store, "x", x))
	if s.Loss.Name == "cross_entropy" {
		labels := make([]int32, s.Batch)
		for i := range labels {
			labels[i] = int32(r.IntN(s.Classes))
		}
		must(t, o.BindInts(m.Target, labels))
		must(t, device.Write(p.store, "target", labels))
	} else {
		target := normal(m.Target.Shape().TotalSize())
		must(t, o.Bind(m.Target, target))
		must(t, device.Write(p.store, "target", target))
	}
	counters := make([]int32, program.NumCounters)
	counters[program.CounterEpoch], counters[program.CounterPosition] = 3, 64
	must(t, device.Write(p.store, program.CountersName, counters))
	if m.Counters != nil {
		must(t, o.BindInts(m.Counters, counters))
	}
	for _, mp := range m.Params {
		v := model.Init(mp, s.Seed)
		must(t, o.Bind(mp.Node, v))
		must(t, device.Write(p.store, mp.Name, v))
	}
	if !m.Train {
		for _, n := range m.BatchNorms {
			c := n.Mean.Shape().TotalSize()
			mean, variance := normal(c), normal(c)
			for i := range variance {
				variance[i] *= variance[i]
			}
			must(t, o.Bind(n.Mean, mean))
			must(t, o.Bind(n.Var, variance))
			must(t, device.Write(p.store, n.RunningMean, mean))
			must(t, device.Write(p.store, n.RunningVar, variance))
		}
	}
	want, err := o.Run()
	must(t, err)
	must(t, p.exec.Run(context.Background(), 1))
	p.equal(t, "loss", []float32{want.Loss})
	p.equal(t, "logits", want.Logits)
	trained := 0
	for _, mp := range m.Params {
		if mp.Trainable && m.Grads != nil {
			p.equal(t, "grad/"+mp.Name, want.Grads[trained])
			trained++
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass is a model's lowered program on the portable level, with copies of its results in the store.
type pass struct {
	store device.Store
	exec  device.Executable
}

func newPass(t *testing.T, m *model.Model) pass {
	t.Helper()
	p := &program.Program{Name: "pass"}
	targetType := program.Float32
	if m.Target.Dtype().Name() == "int32" {
		targetType = program.Int32
	}
	l, err := program.Lower(p, m, program.Inputs{
		X:        p.NewPersistent("x", program.RoleData, program.Float32, m.Input.Shape()...),
		Target:   p.NewPersistent("target", program.RoleData, targetType, m.Target.Shape()...),
		Counters: p.NewPersistent(program.CountersName, program.RoleState, program.Int32, program.NumCounters),
	})
	must(t, err)
	keep := func(name string, v *program.Value) {
		r := p.NewPersistent("result/"+name, program.RoleMetric, program.Float32, v.Shape...)
		p.Emit(program.Metrics, "", program.Cast{}, []*program.Value{v}, []*program.Value{r}, nil)
	}
	keep("loss", l.Loss)
	keep("logits", l.Logits)
	for _, g := range l.Grads {
		keep("grad/"+g.Param.Name, g.Grad)
	}
	must(t, p.Verify())
	dev := opener(kernel.Portable, 2)(t)
	must(t, p.Plan(dev.Workspace))
	s, err := dev.NewStore(p.Persistent())
	must(t, err)
	a, err := dev.NewArena(p.Peak)
	must(t, err)
	e, err := dev.Compile(p, s, a)
	must(t, err)
	return pass{s, e}
}

// equal compares bits.
func (p pass) equal(t *testing.T, name string, want []float32) {
	t.Helper()
	got, err := device.Read[float32](p.store, "result/"+name, len(want))
	must(t, err)
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) {
			t.Fatalf("%s[%d] is %v, the TapeMachine gives %v", name, i, got[i], w)
		}
	}
}
