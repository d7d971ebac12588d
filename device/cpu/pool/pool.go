// Package pool shares the tasks of one kernel among long-lived workers. A kernel cuts its work into tasks whose number
// does not depend on the workers, so results are the same for any number of them.
package pool

import (
	"runtime"
	"sync/atomic"
)

// spins is how often an idle worker looks for work before it sleeps: some tens of microseconds, longer than the serial code
// between two kernels of a step and short enough not to steal time from other processes.
const spins = 40000

// Pool runs tasks on a fixed number of workers, the caller being worker 0. One For at a time.
type Pool struct {
	workers int
	f       func(worker, task int)
	shares  []share
	pending atomic.Int32
	round   atomic.Uint32
	closed  atomic.Bool
	asleep  []atomic.Bool
	wake    []chan struct{}
}

// share is a worker's part of the tasks: neighbouring ones, the same in every loop of as many tasks, so that what one kernel
// leaves in a core's cache is there for the next. Who has finished takes from the others' shares.
type share struct {
	next atomic.Int64
	end  int64
	_    [48]byte // a cache line of its own
}

// New starts a pool of so many workers, at least one.
func New(workers int) *Pool {
	p := &Pool{workers: max(workers, 1)}
	p.shares = make([]share, p.workers)
	p.asleep = make([]atomic.Bool, p.workers)
	p.wake = make([]chan struct{}, p.workers)
	for w := 1; w < p.workers; w++ {
		p.wake[w] = make(chan struct{}, 1)
		go p.work(w)
	}
	return p
}

// Workers is the number of workers; worker numbers are below it.
func (p *Pool) Workers() int { return p.workers }

// For calls f for every task from 0 to n-1, in any order and on any worker, and returns when all are done. It allocates
// nothing. A single task runs on the caller without waking anybody.
func (p *Pool) For(n int, f func(worker, task int)) {
	if n <= 1 || p.workers == 1 {
		for i := range n {
			f(0, i)
		}
		return
	}
	p.f = f
	for w := range p.shares {
		p.shares[w].next.Store(int64(w * n / p.workers))
		p.shares[w].end = int64((w + 1) * n / p.workers)
	}
	p.pending.Store(int32(p.workers - 1))
	p.round.Add(1)
	for w := 1; w < p.workers; w++ {
		if p.asleep[w].CompareAndSwap(true, false) {
			p.wake[w] <- struct{}{}
		}
	}
	p.drain(0)
	for i := 0; p.pending.Load() != 0; i++ {
		if i > spins {
			runtime.Gosched()
		}
	}
}

// Close ends the workers. The pool must be idle.
func (p *Pool) Close() {
	if p.closed.Swap(true) {
		return
	}
	p.round.Add(1)
	for w := 1; w < p.workers; w++ {
		if p.asleep[w].CompareAndSwap(true, false) {
			p.wake[w] <- struct{}{}
		}
	}
}

// drain runs the worker's share, then what is left of the others'.
func (p *Pool) drain(worker int) {
	for k := range p.shares {
		s := &p.shares[(worker+k)%p.workers]
		for i := s.next.Add(1) - 1; i < s.end; i = s.next.Add(1) - 1 {
			p.f(worker, int(i))
		}
	}
}

func (p *Pool) work(w int) {
	seen := uint32(0)
	for {
		// A wake-up may come late, meant for a round that this worker has done already: only the round's number counts.
		for i := 0; p.round.Load() == seen; i++ {
			if i > spins {
				p.sleep(w, seen)
				i = 0
			}
		}
		seen = p.round.Load()
		if p.closed.Load() {
			return
		}
		p.drain(w)
		p.pending.Add(-1)
	}
}

// sleep waits for a round after seen, or less: For may be held up between a round's start and its wake-ups, long enough for
// the worker to find the round by itself, finish its share and fall asleep again, and then wake it for nothing.
func (p *Pool) sleep(w int, seen uint32) {
	p.asleep[w].Store(true)
	if p.round.Load() != seen && p.asleep[w].CompareAndSwap(true, false) {
		return // a round began in between and nobody has sent a wake-up
	}
	<-p.wake[w]
}
