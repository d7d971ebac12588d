// Package devices opens a device by its name in the configuration and tells which are usable.
package devices

import (
	"fmt"

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

// Open opens cpu, gorgonia, cuda or cuda:N. threads counts for the CPU; 0 means all. auto is resolved by the caller, which can
// measure; it never stands for a device that is asked for by name.
func Open(name string, threads int) (device.Device, error) {
	var d device.Device
	var err error
	switch name {
	case "cpu":
		d, err = cpu.Open(cpu.Options{Threads: threads})
	case Gorgonia:
		d, err = openGorgonia(threads)
	default:
		d, err = openCUDA(name)
	}
	if err != nil {
		return nil, &Error{name, err}
	}
	return d, nil
}

// Usable is a device of this machine, or why it cannot be used.
type Usable struct {
	Name       string // as in the configuration
	Properties device.Properties
	Why        string // empty when it is usable
}

// List tells what is here.
func List() []Usable {
	var r []Usable
	for _, name := range []string{"cpu", "cuda"} {
		d, err := Open(name, 0)
		if err != nil {
			r = append(r, Usable{Name: name, Why: err.(*Error).Err.Error()})
			continue
		}
		r = append(r, Usable{Name: name, Properties: d.Properties()})
		d.Close()
	}
	return r
}
