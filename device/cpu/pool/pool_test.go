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
