package cpu

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"halfstep/device"
	"halfstep/device/cpu/kernel"
	"halfstep/device/cpu/pool"
	"halfstep/program"
)

// errNoKernel says that the device cannot run an operation with these operands.
var errNoKernel = errors.New("no kernel")

// build resolves one instruction to the function that runs it.
type build func(b *builder, i *program.Instr) (func(), error)

// builder is what building a kernel needs.
type builder struct {
	pool    *pool.Pool
	vec     *kernel.Vec
	level   kernel.Level
	store   *store
	arena   []byte
	scratch []*workerScratch
}

// tableEntry is one row of the kernel table.
type tableEntry struct {
	op    reflect.Type
	build build
}

// on makes the row of an operation's type.
func on[O program.Op](f func(b *builder, i *program.Instr, op O) (func(), error)) tableEntry {
	return tableEntry{reflect.TypeFor[O](), func(b *builder, i *program.Instr) (func(), error) { return f(b, i, i.Op.(O)) }}
}

// tableOf indexes rows by type.
func tableOf(rows ...tableEntry) map[reflect.Type]build {
	t := map[reflect.Type]build{}
	for _, r := range rows {
		t[r.op] = r.build
	}
	return t
}

// bytes is the memory of a value.
func (b *builder) bytes(v *program.Value) []byte {
	v = v.Root()
	if v.Persistent {
		return b.store.entries[v.Name].bytes
	}
	return b.arena[v.Offset : v.Offset+v.Bytes : v.Offset+v.Bytes]
}

func (b *builder) f32(v *program.Value) []float32 { return device.View[float32](b.bytes(v)) }
func (b *builder) i32(v *program.Value) []int32   { return device.View[int32](b.bytes(v)) }
func (b *builder) u8(v *program.Value) []uint8    { return b.bytes(v) }

// ptr is the address of a value; nil of no value.
func (b *builder) ptr(v *program.Value) unsafe.Pointer {
	if v == nil {
		return nil
	}
	return unsafe.Pointer(unsafe.SliceData(b.bytes(v)))
}

// Compile implements device.Device.
func (d *Device) Compile(p *program.Program, s device.Store, scratch device.Arena) (device.Executable, error) {
	st, ok := s.(*store)
	if !ok {
		return nil, fmt.Errorf("cpu: compile %s: the store belongs to another device", p.Name)
	}
	ar, ok := scratch.(*arena)
	if !ok || ar.Size() < p.Peak {
		return nil, fmt.Errorf("cpu: compile %s: the arena has %d bytes, the program needs %d", p.Name, scratch.Size(), p.Peak)
	}
	for _, v := range p.Persistent() {
		if st.entries[v.Name] == nil {
			return nil, fmt.Errorf("cpu: compile %s: %s is not in the store", p.Name, v.Name)
		}
	}
	b := &builder{pool: d.pool, vec: d.vec, level: d.level, store: st, arena: ar.bytes, scratch: newScratch(d.pool.Workers())}
	e := &executable{program: p, builder: b}
	for n, i := range p.Instrs {
		f := table[reflect.TypeOf(i.Op)]
		if f == nil {
			return nil, fmt.Errorf("cpu: compile %s: instruction %d (%s): %w", p.Name, n, i.Op.Name(), errNoKernel)
		}
		k, err := f(b, i)
		if err != nil {
			return nil, fmt.Errorf("cpu: compile %s: instruction %d (%s %s): %w", p.Name, n, i.Layer, i.Op.Name(), err)
		}
		e.kernels = append(e.kernels, k)
	}
	return e, nil
}

type executable struct {
	kernels []func()
	program *program.Program
	builder *builder // knows where values are
}

// Run implements device.Executable.
func (e *executable) Run(ctx context.Context, steps int) error {
	for range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, k := range e.kernels {
			k()
		}
	}
	return nil
}

// Profile implements device.Executable.
func (e *executable) Profile(ctx context.Context) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ns := make([]int64, len(e.kernels))
	for n, k := range e.kernels {
		start := time.Now()
		k()
		ns[n] = time.Since(start).Nanoseconds()
	}
	return ns, nil
}
