// Package program is the training step as a flat list of instructions over typed values. It knows no device: package
// model builds the float32 graph, Lower turns it into a Program, package amp retypes it, Fuse merges what a device runs
// as one, Plan gives every value an address, and package device compiles the result.
package program

import "fmt"

// DType is the element type of a Value.
type DType uint8

// The element types. Float16 is IEEE 754 binary16; BFloat16 is the upper half of a float32.
const (
	Float32 DType = iota
	Float16
	BFloat16
	Float64
	Uint8
	Int32
)

var (
	dtypeNames = [...]string{"float32", "float16", "bfloat16", "float64", "uint8", "int32"}
	dtypeSizes = [...]int{4, 2, 2, 8, 1, 4}
)

func (d DType) String() string { return dtypeNames[d] }

// Size is the number of bytes of one element.
func (d DType) Size() int { return dtypeSizes[d] }

// Half reports whether d is one of the 16-bit floating-point types.
func (d DType) Half() bool { return d == Float16 || d == BFloat16 }

// Float reports whether d is a type that a layer may compute in: float32, float16 or bfloat16.
func (d DType) Float() bool { return d == Float32 || d.Half() }

// ParseDType accepts the names of the config file and their usual short forms (fp32, fp16, bf16).
func ParseDType(s string) (DType, error) {
	switch s {
	case "float32", "fp32":
		return Float32, nil
	case "float16", "fp16", "half":
		return Float16, nil
	case "bfloat16", "bf16":
		return BFloat16, nil
	case "float64", "fp64":
		return Float64, nil
	}
	return 0, fmt.Errorf("unknown dtype %q: want float32, float16 or bfloat16", s)
}

// Role is the memory report's category of a Value.
type Role uint8

// The roles. RoleData is what the input phase reads: images, labels, order, learning-rate table.
const (
	RoleData Role = iota
	RoleParam
	RoleHalfCopy
	RoleGrad
	RoleState
	RoleActivation
	RoleWorkspace
	RoleMetric
	NumRoles
)

var roleNames = [...]string{"data", "parameters", "half_copies", "gradients", "optimizer_state", "activations", "workspace", "metrics"}

func (r Role) String() string { return roleNames[r] }

// Value is one tensor of the program.
type Value struct {
	ID    int
	Name  string // "conv2/weight", "conv2/y"; unique in a program
	Shape []int  // NHWC for images; nil is a scalar
	DType DType
	Role  Role
	// Persistent values live in a device.Store, are found there by name and outlast a step; all others live in the
	// scratch arena at Offset.
	Persistent bool
	// Alias is set when the value is another view of the same memory (a reshape): it has the same bytes.
	Alias  *Value
	Offset int64
	Bytes  int64
}

// Elems is the number of elements.
func (v *Value) Elems() int {
	n := 1
	for _, d := range v.Shape {
		n *= d
	}
	return n
}

// Root follows aliases to the value that owns the memory.
func (v *Value) Root() *Value {
	for v.Alias != nil {
		v = v.Alias
	}
	return v
}

func (v *Value) String() string { return fmt.Sprintf("%s:%s%v", v.Name, v.DType, v.Shape) }

// Phase groups instructions for timing and for the listing.
type Phase uint8

// The phases of a step, in order.
const (
	Input Phase = iota
	Forward
	Backward
	Update
	Metrics
)

var phaseNames = [...]string{"input", "forward", "backward", "update", "metrics"}

func (p Phase) String() string { return phaseNames[p] }

// Op is what an instruction does. Implementations are plain structs of attributes.
type Op interface {
	Name() string
	// Check verifies number, shapes and dtypes of the operands.
	Check(in, out, inout []*Value) error
}

// Instr is one instruction: Out is written whole, In is read, InOut is read and written.
type Instr struct {
	Op    Op
	In    []*Value
	Out   []*Value
	InOut []*Value
	Work  *Value // scratch asked for by the device, allocated by Plan for this instruction alone; nil when none
	Phase Phase
	Layer string // "conv2"; empty outside the layers
}

// Program is a list of instructions over values. Instructions run in order.
type Program struct {
	Name   string // "train", "train-tail", "evaluate"
	Values []*Value
	Instrs []*Instr
	// Peak is the size of the scratch arena in bytes, and PeakByRole what it holds at its fullest; set by Plan.
	Peak       int64
	PeakByRole [NumRoles]int64
}

// NewValue appends a value that lives in the scratch arena.
func (p *Program) NewValue(name string, role Role, d DType, shape ...int) *Value {
	v := &Value{ID: len(p.Values), Name: name, Role: role, DType: d, Shape: append([]int(nil), shape...)}
	v.Bytes = int64(v.Elems()) * int64(d.Size())
	p.Values = append(p.Values, v)
	return v
}

// NewPersistent appends a value that lives in the store, or returns the one of that name.
func (p *Program) NewPersistent(name string, role Role, d DType, shape ...int) *Value {
	if v := p.Lookup(name); v != nil {
		return v
	}
	v := p.NewValue(name, role, d, shape...)
	v.Persistent = true
	return v
}

// SetDType retypes v and its size.
func (v *Value) SetDType(d DType) {
	v.DType = d
	v.Bytes = int64(v.Elems()) * int64(d.Size())
}

// Lookup finds a value by name; nil when there is none.
func (p *Program) Lookup(name string) *Value {
	for _, v := range p.Values {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// Emit appends an instruction.
func (p *Program) Emit(phase Phase, layer string, op Op, in, out, inout []*Value) *Instr {
	i := &Instr{Op: op, In: in, Out: out, InOut: inout, Phase: phase, Layer: layer}
	p.Instrs = append(p.Instrs, i)
	return i
}

// Persistent lists the values that live in the store, in order of creation.
func (p *Program) Persistent() []*Value {
	var r []*Value
	for _, v := range p.Values {
		if v.Persistent {
			r = append(r, v)
		}
	}
	return r
}
