package report

import "math"

// axis maps values to a range of pixels.
type axis struct {
	min, max float64 // in log2 where log is set
	from, to float64
	log      bool
	base     float64 // of a logarithmic axis
	ticks    []float64
}

func (a *axis) at(v float64) float64 {
	if a.log {
		v = math.Log2(v)
	}
	v = min(max(v, a.min), a.max)
	return a.from + (v-a.min)/(a.max-a.min)*(a.to-a.from)
}

// newAxis covers the finite values of vs; a logarithmic one with this base only where they are positive and spread over
// more than a factor of ten, or where the base is 2.
func newAxis(vs []float64, from, to float64, base float64) *axis {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range vs {
		if finite(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if lo > hi {
		lo, hi = 0, 1
	}
	lo, hi = clamp(lo), clamp(hi)
	a := &axis{from: from, to: to}
	if base > 0 && lo > 0 && (base == 2 || hi/lo > 10) {
		a.log, a.base = true, base
		a.logTicks(lo, hi, base)
		return a
	}
	a.linearTicks(lo, hi)
	return a
}

// An axis spans numbers of at most extreme, and of at least 1/extreme apart from zero, which leaves room for differences and
// ticks in float64. What lies beyond is drawn at its end.
const extreme = 1e300

func clamp(v float64) float64 {
	switch {
	case v > 0:
		return min(max(v, 1/extreme), extreme)
	case v < 0:
		return max(min(v, -1/extreme), -extreme)
	}
	return 0
}

// leastSpan is the smallest span of a linear axis, relative to its larger end: below it, ticks would be lost in rounding.
const leastSpan = 1e-9

// linearTicks puts four to eight ticks at multiples of 1, 2 or 5 times a power of ten, and ends the axis at ticks.
func (a *axis) linearTicks(lo, hi float64) {
	if lo == hi {
		pad := max(math.Abs(lo)/10, 1e-3)
		lo, hi = lo-pad, hi+pad
	}
	if least := leastSpan * max(math.Abs(lo), math.Abs(hi)); hi-lo < least {
		lo, hi = lo-least, hi+least
	}
	step := math.Pow(10, math.Floor(math.Log10(hi-lo))-1)
	for _, m := range []float64{2, 5, 10, 20} {
		if (hi-lo)/(step*m) <= 6 {
			step *= m
			break
		}
	}
	first, last := math.Floor(lo/step), math.Ceil(hi/step)
	for i := first; i <= last; i++ {
		a.ticks = append(a.ticks, i*step)
	}
	a.min, a.max = first*step, last*step
}

// maxTicks is how many ticks a logarithmic axis has at most.
const maxTicks = 7

// logTicks ends the axis at its data and puts ticks at powers of the base within, for base 10 also at 2 and 5 times them
// where there is room.
func (a *axis) logTicks(lo, hi, base float64) {
	if hi/lo < 1.01 {
		lo, hi = lo/base, hi*base
	}
	a.min, a.max = math.Log2(lo), math.Log2(hi)
	fine := []float64{1}
	if base == 10 {
		fine = []float64{1, 2, 5}
	}
	unit := math.Log2(base)
	ticks := func(every float64, multiples []float64) (r []float64) {
		for i := math.Floor(a.min / unit); i <= a.max/unit; i += every {
			for _, m := range multiples {
				if t := m * math.Pow(base, i); t >= lo*(1-1e-9) && t <= hi*(1+1e-9) {
					r = append(r, t)
				}
			}
		}
		return r
	}
	a.ticks = ticks(1, fine)
	for every := 1.0; len(a.ticks) > maxTicks; every++ {
		a.ticks = ticks(every, fine[:1])
	}
	if len(a.ticks) < 2 {
		a.ticks = []float64{lo, hi}
	}
}

// wholeTicks keeps the ticks at whole numbers, for axes that count.
func (a *axis) wholeTicks() {
	kept := a.ticks[:0]
	for _, t := range a.ticks {
		if t == math.Trunc(t) {
			kept = append(kept, t)
		}
	}
	a.ticks = kept
}

// maxPoints is how many points of a curve are drawn.
const maxPoints = 800

// thin reduces a curve to its least and greatest value in each of maxPoints/2 equal pieces, so that no spike is lost.
func thin(p []point) []point {
	if len(p) <= maxPoints {
		return p
	}
	var r []point
	pieces := maxPoints / 2
	for i := range pieces {
		piece := p[i*len(p)/pieces : (i+1)*len(p)/pieces]
		lo, hi := 0, 0
		for j, q := range piece {
			if !finite(q.y) || !finite(piece[lo].y) {
				lo, hi = j, j
				if !finite(q.y) {
					break
				}
				continue
			}
			if q.y < piece[lo].y {
				lo = j
			}
			if q.y > piece[hi].y {
				hi = j
			}
		}
		r = append(r, piece[min(lo, hi)])
		if lo != hi {
			r = append(r, piece[max(lo, hi)])
		}
	}
	return r
}
