package pool

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestEveryTaskRunsOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 8} {
		p := New(workers)
		for round := range 500 {
			n := round % 37
			counts := make([]atomic.Int32, n)
			p.For(n, func(w, i int) {
				if w < 0 || w >= workers {
					t.Errorf("worker %d of %d", w, workers)
				}
				counts[i].Add(1)
			})
			for i := range counts {
				if c := counts[i].Load(); c != 1 {
					t.Fatalf("%d workers, round %d: task %d ran %d times", workers, round, i, c)
				}
			}
			if round%100 == 0 {
				time.Sleep(2 * time.Millisecond) // let the workers fall asleep
			}
		}
		p.Close()
	}
}

func TestForAllocatesNothing(t *testing.T) {
	p := New(2)
	defer p.Close()
	f := func(worker, task int) {}
	if a := testing.AllocsPerRun(100, func() { p.For(10, f) }); a != 0 {
		t.Errorf("%g allocations a call", a)
	}
}

func BenchmarkFor(b *testing.B) {
	p := New(2)
	defer p.Close()
	f := func(worker, task int) {}
	for b.Loop() {
		p.For(2, f)
	}
}

// TestLateWakeUp: a wake-up for a round that the worker has done already must not make it count twice, which would let For
// return before another one is done.
func TestLateWakeUp(t *testing.T) {
	p := New(3)
	defer p.Close()
	for range 20 {
		var done atomic.Int32
		p.For(3, func(worker, task int) {
			switch {
			case worker == 0: // the caller, late with its wake-ups
				for deadline := time.Now().Add(20 * time.Millisecond); time.Now().Before(deadline); {
					for w := 1; w < 3; w++ {
						if p.asleep[w].CompareAndSwap(true, false) {
							p.wake[w] <- struct{}{}
						}
					}
				}
			case task == 2:
				time.Sleep(40 * time.Millisecond)
			}
			done.Add(1)
		})
		if n := done.Load(); n != 3 {
			t.Fatalf("For returned after %d of 3 tasks", n)
		}
	}
}
