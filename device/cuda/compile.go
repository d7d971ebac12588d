//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"halfstep/device"
	"halfstep/device/cuda/driver"
	"halfstep/program"
)

// errNoKernel says that the device cannot run an operation with these operands.
var errNoKernel = errors.New("no kernel")

// launch is one kernel with its arguments, which lie at fixed addresses.
type launch struct {
	name    string
	f       driver.Function // once resolved
	grid    [3]int
	threads int
	args    unsafe.Pointer
}

// builder turns the instructions of a program into launches, on the device's thread.
type builder struct {
	d        *Device
	store    *store
	arena    *arena
	launches []launch // of the instruction that is being built
	work     ptr      // what is left of its workspace
	err      error    // the first of the instruction
}

// build adds an instruction's launches.
type build func(b *builder, i *program.Instr)

// tableEntry is one row of the kernel table.
type tableEntry struct {
	op    reflect.Type
	build build
}

// on makes the row of an operation's type.
func on[O program.Op](f func(b *builder, i *program.Instr, op O)) tableEntry {
	return tableEntry{reflect.TypeFor[O](), func(b *builder, i *program.Instr) { f(b, i, i.Op.(O)) }}
}

// tableOf indexes rows by type.
func tableOf(rows ...tableEntry) map[reflect.Type]build {
	t := map[reflect.Type]build{}
	for _, r := range rows {
		t[r.op] = r.build
	}
	return t
}

// maxElems keeps indices within 32 bits, with room for the last block.
const maxElems = 1 << 30

// ptr is the address of a value; 0 of no value.
func (b *builder) ptr(v *program.Value) ptr {
	if v == nil {
		return 0
	}
	v = v.Root()
	if v.Elems() > maxElems {
		b.failf("%s has %d elements, at most %d: %w", v.Name, v.Elems(), maxElems, errNoKernel)
	}
	if v.Persistent {
		return b.store.entries[v.Name].ptr
	}
	return b.arena.ptr + ptr(v.Offset)
}

func (b *builder) failf(format string, a ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, a...)
	}
}

// take gives the next part of the instruction's workspace.
func (b *builder) take(bytes int64) ptr {
	p := b.work
	b.work += ptr(alignUp(bytes))
	return p
}

// alignUp rounds up to the alignment of vector loads.
func alignUp(n int64) int64 { return (n + 63) &^ 63 }

// threads of a block of an elementwise kernel, and the elements it takes.
const (
	threads    = 256
	blockElems = 4 * threads
)

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// add appends a launch.
func add[A any](b *builder, name string, grid [3]int, threads int, args A) {
	if grid[0] == 0 || grid[1] == 0 || grid[2] == 0 {
		return // nothing to do
	}
	if grid[1] > 65535 || grid[2] > 65535 {
		b.failf("%s: a grid of %v blocks is too large: %w", name, grid, errNoKernel)
		return
	}
	if err := b.d.kernels.check(name, int(unsafe.Sizeof(args))); err != nil {
		b.failf("%w", err)
		return
	}
	b.launches = append(b.launches, launch{name: name, grid: grid, threads: threads, args: unsafe.Pointer(&args)})
}

// ready gives the launches, which can run.
func (b *builder) ready() ([]launch, error) {
	if b.err != nil {
		return nil, b.err
	}
	return b.launches, b.d.kernels.resolve(b.launches)
}

// elementwise appends a launch over n elements.
func elementwise[A any](b *builder, name string, n int, args A) {
	add(b, name, [3]int{ceilDiv(n, blockElems), 1, 1}, threads, args)
}

// scalar appends a launch of one thread.
func scalar[A any](b *builder, name string, args A) { add(b, name, [3]int{1, 1, 1}, 1, args) }

// suffix is how kernel names tell an element type.
func suffix(d program.DType) string {
	switch d {
	case program.Float16:
		return "_f16"
	case program.BFloat16:
		return "_bf16"
	}
	return "_f32"
}

// Compile implements device.Device.
func (d *Device) Compile(p *program.Program, s device.Store, scratch device.Arena) (device.Executable, error) {
	st, ok := s.(*store)
	if !ok || st.d != d {
		return nil, fmt.Errorf("cuda: compile %s: the store belongs to another device", p.Name)
	}
	ar, ok := scratch.(*arena)
	if !ok || ar.d != d || ar.bytes < p.Peak {
		return nil, fmt.Errorf("cuda: compile %s: the arena has %d bytes, the program needs %d", p.Name, scratch.Size(), p.Peak)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, v := range p.Persistent() {
		if st.entries[v.Name] == nil {
			return nil, fmt.Errorf("cuda: compile %s: %s is not in the store", p.Name, v.Name)
		}
	}
	e := &executable{d: d, program: p, builder: &builder{d: d, store: st, arena: ar}}
	err := d.owner.do(func() error {
		if err := e.builder.program(p, e); err != nil {
			return err
		}
		if err := d.kernels.resolve(e.instrs...); err != nil {
			return err
		}
		if d.opts.NoGraph {
			return nil
		}
		return e.capture()
	})
	if err != nil {
		return nil, fmt.Errorf("cuda: compile %s: %w", p.Name, err)
	}
	return e, nil
}

// program builds all instructions. Those that are merged count as the first of them.
func (b *builder) program(p *program.Program, e *executable) error {
	for n := 0; n < len(p.Instrs); {
		i := p.Instrs[n]
		f := table[reflect.TypeOf(i.Op)]
		if f == nil {
			return fmt.Errorf("instruction %d (%s): %w", n, i.Op.Name(), errNoKernel)
		}
		b.launches, b.work = nil, b.ptr(i.Work)
		merged := b.merge(p.Instrs[n:])
		if merged == 0 {
			f(b, i)
		}
		if b.err != nil {
			return fmt.Errorf("instruction %d (%s %s): %w", n, i.Layer, i.Op.Name(), b.err)
		}
		e.instrs = append(e.instrs, b.launches)
		n++
		for range merged - 1 {
			e.instrs = append(e.instrs, nil)
			n++
		}
	}
	return nil
}

// upload puts a table into device memory that lives as long as the arena, with room for more behind it.
func upload[E any](b *builder, rows []E, extra int64) ptr {
	bytes := int64(len(rows)) * int64(unsafe.Sizeof(rows[0]))
	p, err := driver.Alloc(alignUp(bytes) + extra)
	if err != nil {
		b.failf("table: %w", err)
		return 0
	}
	b.arena.tables = append(b.arena.tables, p)
	if err := b.d.upload(p, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(rows))), bytes)); err != nil {
		b.failf("table: %w", err)
	}
	return p
}
