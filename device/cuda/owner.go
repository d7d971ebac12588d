//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"errors"
	"runtime"
)

// errClosed is the answer to a call on a closed device.
var errClosed = errors.New("cuda: the device is closed")

// owner is the goroutine that makes every driver call. The driver keeps the current context per OS thread, so the
// goroutine is locked to its thread.
type owner struct {
	calls chan call
	done  chan struct{}
}

type call struct {
	f   func() error
	err chan error
}

func newOwner() *owner {
	o := &owner{calls: make(chan call), done: make(chan struct{})}
	go o.loop()
	return o
}

func (o *owner) loop() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its context with it
	for {
		select {
		case c := <-o.calls:
			c.err <- c.f()
		case <-o.done:
			return
		}
	}
}

// do runs f on the device's thread and waits for it.
func (o *owner) do(f func() error) error {
	c := call{f, make(chan error, 1)}
	select {
	case o.calls <- c:
		return <-c.err
	case <-o.done:
		return errClosed
	}
}

// stop ends the goroutine; later calls fail.
func (o *owner) stop() { close(o.done) }
