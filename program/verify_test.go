package program

import (
	"strings"
	"testing"

	"halfstep/model/op/ref"
)

// chain is a small valid program: y = relu(x), z = y + y, loss = mean((z-x)²), with x in the store.
type chain struct {
	p             *Program
	x, y, z, loss *Value
	relu, add     *Instr
	mse           *Instr
}

func newChain() chain {
	c := chain{p: &Program{Name: "chain"}}
	c.x = c.p.NewPersistent("x", RoleData, Float32, 2, 3)
	c.y = c.p.NewValue("y", RoleActivation, Float32, 2, 3)
	c.z = c.p.NewValue("z", RoleActivation, Float32, 2, 3)
	c.loss = c.p.NewValue("loss", RoleMetric, Float32)
	c.relu = c.p.Emit(Forward, "relu1", Activation{ref.ReLU}, []*Value{c.x}, []*Value{c.y}, nil)
	c.add = c.p.Emit(Forward, "add1", Add{}, []*Value{c.y, c.y}, []*Value{c.z}, nil)
	c.mse = c.p.Emit(Forward, "loss", PointwiseLoss{}, []*Value{c.z, c.x}, []*Value{c.loss}, nil)
	return c
}

func TestVerify(t *testing.T) {
	for _, e := range []struct {
		fault  string
		damage func(c chain)
		want   string // part of the error; empty: no error
	}{
		{"none", func(chain) {}, ""},
		{"read before written", func(c chain) { c.p.Instrs[0], c.p.Instrs[1] = c.p.Instrs[1], c.p.Instrs[0] }, "reads y before it is written"},
		{"updated before written", func(c chain) {
			c.p.Emit(Update, "", Zero{}, nil, nil, []*Value{c.p.NewValue("w", RoleActivation, Float32)})
		}, "reads w before it is written"},
		{"written twice", func(c chain) { c.p.Emit(Forward, "", c.relu.Op, c.relu.In, c.relu.Out, nil) }, "writes y a second time"},
		{"shape", func(c chain) { c.y.Shape = []int{3, 2} }, "instruction 0 (relu1 relu): relu: y has shape [3 2], want [2 3]"},
		{"dtype", func(c chain) { c.z.SetDType(Float16) }, "instruction 1 (add1 add): add: z is float16, want [float32]"},
		{"operands missing", func(c chain) { c.add.In = c.add.In[:1] }, "1 inputs, want 2 to 2"},
		{"operand too many", func(c chain) { c.add.InOut = []*Value{c.x} }, "1 in-out operands, want 0 to 0"},
		{"result never read", func(c chain) { c.mse.In[0] = c.x }, "z is written and never read"},
		{"two of one name", func(c chain) { c.z.Name = "y" }, "two values are called y"},
		{"a store value written twice is fine", func(c chain) {
			w := c.p.NewPersistent("w", RoleState, Float32, 2, 3)
			for range 2 {
				c.p.Emit(Forward, "", Cast{}, []*Value{c.x}, []*Value{w}, nil)
			}
		}, ""},
		{"an unread second result is fine", func(c chain) { // a dropout's mask where nothing before it is trained
			counters := c.p.NewPersistent(CountersName, RoleState, Int32, NumCounters)
			d := c.p.NewValue("d", RoleActivation, Float32, 2, 3)
			mask := c.p.NewValue("mask", RoleActivation, Uint8, 2, 3)
			c.p.Instrs = c.p.Instrs[:2]
			c.p.Emit(Forward, "dropout1", Dropout{}, []*Value{c.z, counters}, []*Value{d, mask}, nil)
			c.p.Emit(Forward, "loss", PointwiseLoss{}, []*Value{d, c.x}, []*Value{c.loss}, nil)
		}, ""},
	} {
		t.Run(e.fault, func(t *testing.T) {
			c := newChain()
			e.damage(c)
			err := c.p.Verify()
			if (err == nil) != (e.want == "") || err != nil && !strings.Contains(err.Error(), e.want) {
				t.Errorf("error %v, want one with %q", err, e.want)
			}
		})
	}
}

// TestPrune drops an instruction that nobody needs with the one that only it read, and keeps what is wanted.
func TestPrune(t *testing.T) {
	c := newChain()
	extra := c.p.NewValue("extra", RoleActivation, Float32, 2, 3)
	more := c.p.NewValue("more", RoleActivation, Float32, 2, 3)
	c.p.Emit(Forward, "", Activation{ref.Tanh}, []*Value{c.y}, []*Value{extra}, nil)
	c.p.Emit(Forward, "", Add{}, []*Value{extra, c.z}, []*Value{more}, nil)
	c.p.NewPersistent("w", RoleParam, Float32, 4) // stays: the update may need it
	c.p.Prune()
	if len(c.p.Instrs) != 3 || c.p.Lookup("extra") != nil || c.p.Lookup("more") != nil || c.p.Lookup("w") == nil {
		t.Errorf("left over:\n%v%v", c.p, c.p.Values)
	}
	if err := c.p.Verify(); err != nil {
		t.Error(err)
	}
}
