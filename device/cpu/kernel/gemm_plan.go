package kernel

// gemmPlan is how a product is cut up.
type gemmPlan struct {
	mc, nc, kc           int // rows and columns of a block of C, and how much of K is packed at a time
	blockRows, blockCols int // number of blocks
	inPlaceA, inPlaceB   bool
}

// A packed block of B leaves room in a second-level cache of 1 MiB for tiles of A and what passes through. A packed row of A
// is short enough for a tile of A to stay in the first level.
const (
	gemmBlockB = 512 << 10 // bytes of a packed block of B
	gemmRowA   = 2 << 10   // bytes of a packed row of A
	gemmSums   = 1 << 20   // bytes of sums that wait for the next part of K
	gemmRowB   = 4 << 10   // bytes of a row of B that is read where it is: a longer one is on another page than the next
	gemmTilesA = 8         // tiles of A packed at a time: whole cache lines of transposed A
)

// newGEMMPlan chooses the blocks that an estimate finds fastest.
func newGEMMPlan(s GEMMShape, r *gemmRoutines, workers int) gemmPlan {
	// A few rows do not pay for packing B, which the tile routine can read where it is.
	p := gemmPlan{kc: s.K, inPlaceB: r.inPlace && !s.TransB && s.M <= 2*r.rows && s.N*s.B.Size() <= gemmRowB}
	// With one panel of B each row of A is used once. Rows at multiples of 4096 bytes would share few sets of the first-level
	// cache.
	p.inPlaceA = r.inPlace && s.N <= r.cols && (s.TransA || s.K*s.A.Size()%4096 != 0)
	if limit := gemmRowA / r.packed * r.perStep; s.K > limit {
		p.kc = ceilDiv(ceilDiv(s.K, ceilDiv(s.K, limit)), packSlack) * packSlack
	}
	best, least := p, 0.0
	tiles, panels := ceilDiv(s.M, r.rows), ceilDiv(s.N, r.cols)
	for mt := tiles; mt > 0; mt = fewer(tiles, mt) {
		for np := panels; np > 0; np = fewer(panels, np) {
			p.mc, p.nc = mt*r.rows, np*r.cols
			p.blockRows, p.blockCols = ceilDiv(tiles, mt), ceilDiv(panels, np)
			if np > 1 && !p.inPlaceB && p.nc*p.kc/r.perStep*r.packed > gemmBlockB ||
				mt*np > 1 && p.kc < s.K && p.mc*p.nc*r.sum > gemmSums {
				continue
			}
			if t := p.cycles(s, r, workers); least == 0 || t < least {
				best, least = p, t
			}
		}
	}
	return best
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// fewer is the size of the next smaller parts that cut n differently than parts of the given size; 0 after 1.
func fewer(n, part int) int {
	if part == 1 {
		return 0
	}
	return min(ceilDiv(n, ceilDiv(n, part)+1), part-1)
}

// cycles estimates the time of a product in cycles of a tile's arithmetic. The constants were fitted on one machine; a wrong
// one costs time only.
func (p *gemmPlan) cycles(s GEMMShape, r *gemmRoutines, workers int) float64 {
	const (
		wake       = 20000 // starting the workers
		perTask    = 1000
		perPacked  = 0.3  // an element of A or B
		transposed = 1.5  // as much longer packing transposed B takes
		perTile    = 250  // a tile, beside its products
		imbalance  = 0.05 // of a task: waiting for the slowest worker
	)
	packA, packB := float64(p.mc)*float64(s.K)*perPacked, float64(p.nc)*float64(s.K)*perPacked
	if s.TransB {
		packB *= transposed
	}
	if p.inPlaceB {
		packB = 0
	}
	if p.inPlaceA {
		packA = 0
	}
	tiles := float64(p.mc/r.rows) * float64(p.nc/r.cols)
	products := float64(s.K) / float64(r.perStep) * float64(r.rows)
	task := perTask + packA + packB + tiles*(products+perTile*float64(ceilDiv(s.K, p.kc)))
	tasks := p.blockRows * p.blockCols
	if tasks == 1 {
		return task
	}
	return wake + task*(float64(ceilDiv(tasks, workers))+imbalance)
}
