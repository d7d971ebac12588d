//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"context"
	"errors"
	"fmt"

	"halfstep/device"
	"halfstep/device/cuda/driver"
	"halfstep/half"
	"halfstep/program"
)

// executable is a compiled program: the launches of each instruction, and the graph that has them all.
type executable struct {
	d       *Device
	program *program.Program
	builder *builder // where values lie
	instrs  [][]launch
	graph   *driver.Graph // nil with Options.NoGraph
}

// capture records one step as a graph, on the device's thread.
func (e *executable) capture() error {
	s := e.d.stream
	if err := s.BeginCapture(); err != nil {
		return err
	}
	queued := e.queue()
	g, err := s.EndCapture() // also after an error: it ends the stream's capture
	if err := errors.Join(queued, err); err != nil {
		return err
	}
	e.graph = &g
	e.builder.arena.graphs = append(e.builder.arena.graphs, g)
	return nil
}

// queue launches one step kernel by kernel.
func (e *executable) queue() error {
	for _, ls := range e.instrs {
		if err := e.d.launchAll(ls); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) launchAll(ls []launch) error {
	for _, l := range ls {
		if err := d.stream.Launch(l.f, l.grid, l.threads, l.args); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

// ahead is the most steps that are queued before the host looks at the context again.
const ahead = 32

// Run implements device.Executable.
func (e *executable) Run(ctx context.Context, steps int) error {
	for steps > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(steps, ahead)
		if err := e.d.owner.do(func() error { return e.steps(n) }); err != nil {
			return fmt.Errorf("cuda: run %s: %w", e.program.Name, err)
		}
		steps -= n
	}
	return nil
}

// steps runs so many steps and waits for them, on the device's thread.
func (e *executable) steps(n int) error {
	for range n {
		var err error
		if e.graph != nil {
			err = e.d.stream.LaunchGraph(*e.graph)
		} else {
			err = e.queue()
		}
		if err != nil {
			return err
		}
	}
	return e.d.stream.Synchronize()
}

// Profile implements device.Executable. The step runs kernel by kernel with an event after each instruction. Optimizer
// steps that were merged count as the first of them.
func (e *executable) Profile(ctx context.Context) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ns := make([]int64, len(e.instrs))
	if err := e.d.owner.do(func() error { return e.profile(ns) }); err != nil {
		return nil, fmt.Errorf("cuda: profile %s: %w", e.program.Name, err)
	}
	return ns, nil
}

func (e *executable) profile(ns []int64) (err error) {
	events := make([]driver.Event, 0, len(ns)+1)
	defer func() {
		for k := range events {
			err = errors.Join(err, events[k].Close())
		}
	}()
	mark := func() error {
		ev, err := driver.NewEvent()
		if err != nil {
			return err
		}
		events = append(events, ev)
		return ev.Record(e.d.stream)
	}
	if err := mark(); err != nil {
		return err
	}
	for _, ls := range e.instrs {
		if err := errors.Join(e.d.launchAll(ls), mark()); err != nil {
			return err
		}
	}
	if err := e.d.stream.Synchronize(); err != nil {
		return err
	}
	for k := range ns {
		if ns[k], err = events[k+1].Since(events[k]); err != nil {
			return err
		}
	}
	return nil
}

// Trace implements device.Executable.
func (e *executable) Trace(ctx context.Context, visit func(i *program.Instr, read func(*program.Value) []float32) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var failed error
	read := func(v *program.Value) []float32 {
		x, err := e.read(v)
		failed = errors.Join(failed, err)
		return x
	}
	for n, ls := range e.instrs {
		err := e.d.owner.do(func() error { return errors.Join(e.d.launchAll(ls), e.d.stream.Synchronize()) })
		if err != nil {
			return fmt.Errorf("cuda: trace %s: %w", e.program.Name, err)
		}
		if !visit(e.program.Instrs[n], read) || failed != nil {
			break
		}
	}
	return failed
}

// read is a copy of a value's elements as float32; nil when its type is not a float.
func (e *executable) read(v *program.Value) ([]float32, error) {
	if !v.DType.Float() && v.DType != program.Float64 {
		return nil, nil
	}
	b := make([]byte, v.Elems()*v.DType.Size())
	if len(b) > 0 {
		if err := e.d.owner.do(func() error { return e.d.download(e.builder.ptr(v), b) }); err != nil {
			return nil, fmt.Errorf("cuda: read %s: %w", v.Name, err)
		}
	}
	x := make([]float32, v.Elems())
	switch v.DType {
	case program.Float16:
		half.DecodeFloat16(x, device.View[uint16](b))
	case program.BFloat16:
		half.DecodeBFloat16(x, device.View[uint16](b))
	case program.Float64:
		for k, f := range device.View[float64](b) {
			x[k] = float32(f)
		}
	default:
		copy(x, device.View[float32](b))
	}
	return x, nil
}

var _ device.Executable = (*executable)(nil)
