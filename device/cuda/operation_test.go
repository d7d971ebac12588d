//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"context"
	"testing"

	"halfstep/device"
	"halfstep/half"
	"halfstep/program"
)

// runBoth runs one operation on two devices on the same numbers.
func runBoth(t *testing.T, d, host device.Device, op program.Op, dtype program.DType, in [][]int, out []int, number func() float32) (got, want []float32) {
	t.Helper()
	data := make([][]float32, len(in))
	for k, shape := range in {
		n := 1
		for _, s := range shape {
			n *= s
		}
		data[k] = make([]float32, n)
		for i := range data[k] {
			data[k][i] = number()
		}
	}
	return runOp(t, d, op, dtype, in, out, data), runOp(t, host, op, dtype, in, out, data)
}

func runOp(t *testing.T, d device.Device, op program.Op, dtype program.DType, in [][]int, out []int, data [][]float32) []float32 {
	t.Helper()
	p := &program.Program{Name: "op"}
	names := []string{"a", "b"}
	var operands []*program.Value
	for k, shape := range in {
		operands = append(operands, p.NewPersistent(names[k], program.RoleData, dtype, shape...))
	}
	y := p.NewPersistent("y", program.RoleMetric, dtype, out...)
	p.Emit(program.Forward, "", op, operands, []*program.Value{y}, nil)
	if err := p.Verify(); err != nil {
		t.Fatal(err)
	}
	if err := p.Plan(d.Workspace); err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStore(p.Persistent())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := d.NewArena(p.Peak)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	e, err := d.Compile(p, s, a)
	if err != nil {
		t.Fatal(err)
	}
	for k := range in {
		if err := write(s, names[k], dtype, data[k]); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Run(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	r, err := read(s, "y", dtype, y.Elems())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// write rounds numbers to a type.
func write(s device.Store, name string, dtype program.DType, x []float32) error {
	h := make([]uint16, len(x))
	switch dtype {
	case program.Float16:
		half.EncodeFloat16(h, x)
	case program.BFloat16:
		half.EncodeBFloat16(h, x)
	default:
		return device.Write(s, name, x)
	}
	return device.Write(s, name, h)
}

func read(s device.Store, name string, dtype program.DType, n int) ([]float32, error) {
	if dtype == program.Float32 {
		return device.Read[float32](s, name, n)
	}
	h, err := device.Read[uint16](s, name, n)
	x := make([]float32, len(h))
	if dtype == program.Float16 {
		half.DecodeFloat16(x, h)
	} else {
		half.DecodeBFloat16(x, h)
	}
	return x, err
}
