// Package device is the contract between a compiled training step and what runs it.
package device

import (
	"context"

	"halfstep/program"
)

// Device runs programs.
type Device interface {
	Properties() Properties
	// Fusions lists what this device runs as one instruction.
	Fusions() []program.Rule
	// Workspace is the scratch in bytes that the kernel of this instruction wants; program.Plan allocates it.
	Workspace(i *program.Instr) int64
	// NewStore makes room for values that outlast a step, zeroed.
	NewStore(persistent []*program.Value) (Store, error)
	NewArena(bytes int64) (Arena, error)
	// Compile resolves every instruction to a kernel. An instruction without one is an error that names it.
	Compile(p *program.Program, s Store, scratch Arena) (Executable, error)
	Memory() Memory
	// ResetPeak sets the measured peak to what is allocated now.
	ResetPeak()
	Close() error
}

// Store holds persistent values by name. Read and Write copy whole values as bytes, little endian.
type Store interface {
	// Add makes room for further values; those already there must have the same shape and dtype.
	Add(persistent []*program.Value) error
	Read(name string, dst []byte) error
	Write(name string, src []byte) error
	Close() error
}

// Arena is scratch memory for one program at a time.
type Arena interface {
	Size() int64
	Close() error
}

// Executable is a compiled program.
type Executable interface {
	// Run runs the program so many times. It stops between two steps when the context ends.
	Run(ctx context.Context, steps int) error
	// Profile runs one step and gives the time of each instruction in nanoseconds, in order.
	Profile(ctx context.Context) ([]int64, error)
	// Trace runs one step instruction by instruction, for the search of the first value that is not finite. After each
	// instruction it calls visit with a function that reads what a value holds now, as float32; nil where its type is not a
	// float. When visit returns false, the rest of the step does not run. A device that submits a step as a whole runs the
	// kernels one by one here and waits for each; one that cannot returns errors.ErrUnsupported.
	Trace(ctx context.Context, visit func(i *program.Instr, read func(*program.Value) []float32) bool) error
}

// Properties say what a device is.
type Properties struct {
	Kind    string `json:"kind"` // "cpu", "cuda"
	Name    string `json:"name"` // "AMD EPYC"
	ISA     string `json:"isa"`  // "avx512bf16", "sm_90"
	Cores   int    `json:"cores"`
	Threads int    `json:"threads"`
	Memory  int64  `json:"memory_bytes"` // 0 when unknown
}

// Memory is what a device measured.
type Memory struct {
	Allocated int64 // bytes in stores and arenas now
	Reserved  int64 // bytes taken from the system for them
	Peak      int64 // largest Allocated since ResetPeak
	Free      int64 // the driver's own figures, 0 where there is no driver
	Total     int64
}
