// Package devices opens a device by its name in the configuration and tells which are usable.
package devices

import (
	"fmt"
	"strconv"
	"strings"

	"halfstep/device"
	"halfstep/device/cpu"
)

// Error is a device that cannot be used. A command that fails with it exits with code 4.
type Error struct {
	Name string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("device %s: %v", e.Name, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Options say how a device runs. Each counts on its own kind of device only. The zero value is what a configuration has by
// default.
type Options struct {
	Threads int  // CPU threads; 0: all
	NoGraph bool // CUDA: launch kernel by kernel instead of one captured graph a step
	TF32    bool // CUDA: float32 products on tensor cores with 10 bits of fraction, where HasTF32 holds
}

// Open opens cpu, gorgonia, cuda or cuda:N. auto is resolved by the caller, which can measure; it never stands for a device
// that is asked for by name.
func Open(name string, o Options) (device.Device, error) {
	var d device.Device
	var err error
	switch name {
	case "cpu":
		d, err = cpu.Open(cpu.Options{Threads: o.Threads})
	case Gorgonia:
		d, err = openGorgonia(o.Threads)
	default:
		d, err = openCUDA(name, o)
	}
	if err != nil {
		return nil, &Error{name, err}
	}
	return d, nil
}

// HasTF32 reports whether a device computes float32 products in tf32 where Options ask for it: a GPU of compute capability
// 8.0 or later.
func HasTF32(p device.Properties) bool {
	capability, err := strconv.Atoi(strings.TrimPrefix(p.ISA, "sm_"))
	return p.Kind == "cuda" && err == nil && capability >= 80
}

// Usable is a device of this machine, or why it cannot be used.
type Usable struct {
	Name       string            `json:"name"` // as in the configuration
	Properties device.Properties `json:"properties,omitzero"`
	Why        string            `json:"why,omitempty"` // why not; empty when it is usable
}

// List tells what is here.
func List() []Usable {
	var r []Usable
	for _, name := range []string{"cpu", "cuda"} {
		d, err := Open(name, Options{})
		if err != nil {
			r = append(r, Usable{Name: name, Why: err.(*Error).Err.Error()})
			continue
		}
		r = append(r, Usable{Name: name, Properties: d.Properties()})
		d.Close()
	}
	return r
}
