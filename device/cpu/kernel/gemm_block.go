package kernel

import (
	"unsafe"

	"halfstep/program"
)

// gemmBlock is a task in progress: rows m0 to m0+m-1 and columns n0 to n0+n-1 of C, k0 to k0+k-1 of the sums.
type gemmBlock struct {
	*GEMM
	m0, n0, k0 int
	m, n, k    int
	scratch    unsafe.Pointer
}

// packA packs the block of A.
func (b *gemmBlock) packA() {
	s, r := &b.shape, &b.r
	size := s.A.Size()
	if s.TransA { // A is [K,M]
		r.packCols(b.scratch, unsafe.Add(b.a, (b.k0*s.M+b.m0)*size), b.layout.panelA, s.M*size, b.k, b.m)
		return
	}
	r.packRows(b.scratch, unsafe.Add(b.a, (b.m0*s.K+b.k0)*size), b.layout.rowA, s.K*size, b.k, b.m)
}

// panel runs the tiles of one panel: columns j to j+cols-1 of the block.
func (b *gemmBlock) panel(j int) {
	s, r, l := &b.shape, &b.r, &b.layout
	cols := min(r.cols, b.n-j)
	steps := (b.k + r.perStep - 1) / r.perStep
	panel, stride := b.packB(b.n0+j, cols)
	bias := unsafe.Add(b.scratch, l.bias)
	if b.k0 == 0 {
		b.loadBias(bias, b.n0+j, cols)
	}
	stepA := r.rows * r.packed
	if !s.TransA {
		stepA = l.rowA
	}
	tiles := b.tiles(b.m)
	for i := range tiles {
		rows := min(r.rows, b.m-i*r.rows)
		height := (rows + r.heights - 1) / r.heights
		a := unsafe.Add(b.scratch, i*l.panelA)
		if !s.TransA {
			a = unsafe.Add(b.scratch, i*r.rows*l.rowA)
		}
		acc := unsafe.Add(b.scratch, l.acc+(j/r.cols*tiles+i)*l.tileAll)
		init, initStride := acc, l.tileRow
		if b.k0 == 0 {
			init, initStride = bias, 0
		}
		if b.k0+b.k < s.K {
			r.tile[height-1](steps, a, stepA, panel, stride, cols, init, initStride, acc, l.tileRow)
			continue
		}
		size := s.C.Size()
		offset := ((b.m0+i*r.rows)*s.N + b.n0 + j) * size
		c := unsafe.Add(b.c, offset)
		if r.direct && cols == r.cols && rows == height*r.heights {
			r.tile[height-1](steps, a, stepA, panel, stride, cols, init, initStride, c, s.N*size)
			continue
		}
		tile := unsafe.Add(b.scratch, l.tile)
		r.tile[height-1](steps, a, stepA, panel, stride, cols, init, initStride, tile, l.tileRow)
		var mask unsafe.Pointer
		if s.MaskReLU {
			mask = unsafe.Add(b.e.Mask, offset)
		}
		r.store(c, s.N*size, tile, rows, cols, mask)
	}
}

// packB packs columns n to n+cols-1 of B and gives the panel and the distance of its rows.
func (b *gemmBlock) packB(n, cols int) (panel unsafe.Pointer, stride int) {
	s, r := &b.shape, &b.r
	size := s.B.Size()
	panel = unsafe.Add(b.scratch, b.layout.b)
	stride = r.cols * r.packed
	switch {
	case s.TransB: // B is [N,K]
		r.packTransposed(panel, unsafe.Add(b.b, (n*s.K+b.k0)*size), stride, s.K*size, b.k, cols)
	case b.inPlaceB:
		return unsafe.Add(b.b, (b.k0*s.N+n)*size), s.N * size
	default:
		r.packPanel(panel, unsafe.Add(b.b, (b.k0*s.N+n)*size), stride, s.N*size, b.k, cols)
	}
	return panel, stride
}

// loadBias copies columns n to n+cols-1 of the bias, or zeros, to a row of a tile.
func (b *gemmBlock) loadBias(row unsafe.Pointer, n, cols int) {
	clear(unsafe.Slice((*byte)(row), b.layout.tileRow))
	if b.shape.Bias {
		copy(unsafe.Slice((*float32)(row), cols), unsafe.Slice((*float32)(b.e.Bias), b.shape.N)[n:])
	}
}

// gemmBlocks is how a product is cut up.
type gemmBlocks struct {
	mc, nc, kc           int // rows and columns of a block of C, and how much of K is packed at a time
	blockRows, blockCols int // number of blocks
	inPlaceB             bool
}

// Limits of a block: packed A fits the second-level cache beside what passes through, and a panel of B the first level.
const (
	gemmPackedA = 512 << 10
	gemmSteps   = 256
	gemmSums    = 1 << 20 // bytes of sums kept between blocks of K
)

// newGEMMBlocks chooses the blocks that an estimate in cycles finds fastest.
func newGEMMBlocks(s GEMMShape, r *gemmRoutines, workers int) gemmBlocks {
	b := gemmBlocks{kc: s.K}
	if limit := gemmSteps * r.perStep * 4 / r.packed; s.K > limit {
		parts := (s.K + limit - 1) / limit
		b.kc = ((s.K+parts-1)/parts + packSlack - 1) / packSlack * packSlack
	}
	// A few rows do not pay for packing B, which the tile routine can read where it is.
	b.inPlaceB = r.inPlace && !s.TransB && s.M <= 2*r.rows
	best := 0.0
	tiles, panels := (s.M+r.rows-1)/r.rows, (s.N+r.cols-1)/r.cols
	for i := 1; i <= tiles; i++ {
		mt := (tiles + i - 1) / i
		if mt*r.rows*b.kc*r.packed/r.perStep > gemmPackedA && mt > 1 {
			continue
		}
		for j := 1; j <= panels; j++ {
			np := (panels + j - 1) / j
			if b.kc < s.K && mt*np*r.rows*r.cols*r.acc > gemmSums && mt*np > 1 {
				continue
			}
			c := b
			c.mc, c.nc = mt*r.rows, np*r.cols
			c.blockRows, c.blockCols = (tiles+mt-1)/mt, (panels+np-1)/np
			if t := c.cycles(s, r, workers); best == 0 || t < best {
				best = t
				b.mc, b.nc, b.blockRows, b.blockCols = c.mc, c.nc, c.blockRows, c.blockCols
			}
		}
	}
	return b
}

// cycles estimates the time of a product. The constants were fitted on one machine; only their ratios matter.
func (b *gemmBlocks) cycles(s GEMMShape, r *gemmRoutines, workers int) float64 {
	const (
		wake      = 20000 // starting the workers
		perTask   = 1000
		perPack   = 0.3  // an element of A or B
		perStep   = 0.55 // a row of a tile and two vectors, beside 1 for the arithmetic
		transpose = 0.3
	)
	steps := float64(s.K) / float64(r.perStep)
	tile := steps * float64(r.rows)
	packA := float64(b.mc) * float64(s.K) * perPack
	packB := float64(b.nc) * float64(s.K) * perPack
	if s.TransB {
		packB *= 1 + transpose
	}
	if b.inPlaceB {
		packB = 0
	}
	one := perTask + packA + packB + tile*float64(b.mc/r.rows)*float64(b.nc/r.cols)*(1+perStep/16)
	tasks := b.blockRows * b.blockCols
	if tasks == 1 {
		return one
	}
	return wake + one*float64((tasks+workers-1)/workers)
}

// gemmDirect reports whether a tile can be written to C as it is.
func gemmDirect(s GEMMShape) bool {
	return !s.ReLU && !s.MaskReLU && (s.C == program.Float32 || s.C == program.Float64)
}
