package kernel

import "unsafe"

// gemmBlock is a task in progress: rows m0 to m0+m-1 and columns n0 to n0+n-1 of C, k0 to k0+k-1 of the sums.
type gemmBlock struct {
	*GEMM
	m0, n0, k0 int
	m, n, k    int
	scratch    unsafe.Pointer
}

// run computes the block: for each part of K, B is packed whole and A a few tiles at a time.
func (b *gemmBlock) run() {
	r := &b.r
	b.loadBias()
	for b.k0 = 0; b.k0 < b.shape.K; b.k0 += b.kc {
		b.k = min(b.kc, b.shape.K-b.k0)
		b.packB()
		for i := 0; i < b.m; i += r.rows {
			if rows := min(gemmTilesA*r.rows, b.m-i); i%(gemmTilesA*r.rows) == 0 && !b.readsA(rows) {
				b.packA(i, rows)
			}
			for j := 0; j < b.n; j += r.cols {
				b.sums(i, j)
			}
		}
	}
}

// packA packs the tiles of A from row i of the block on.
func (b *gemmBlock) packA(i, rows int) {
	s, r, l := &b.shape, &b.r, &b.layout
	size := s.A.Size()
	dst, m := unsafe.Add(b.scratch, l.a), b.m0+i
	if s.TransA { // A is [K,M]
		r.packCols(dst, unsafe.Add(b.a, (b.k0*s.M+m)*size), l.panelA, s.M*size, b.k, rows)
		return
	}
	r.packRows(dst, unsafe.Add(b.a, (m*s.K+b.k0)*size), l.rowA, s.K*size, b.k, rows)
}

// readsA reports whether tiles of so many rows in all read A where it is. A tile routine computes whole heights, so the last
// rows of A may have to be packed.
func (b *gemmBlock) readsA(rows int) bool { return b.inPlaceA && rows%b.r.heights == 0 }

// tileA gives the tile of A at row i of the block and the distance of its rows, or of its columns when TransA.
func (b *gemmBlock) tileA(i int) (a unsafe.Pointer, stride int) {
	s, r, l := &b.shape, &b.r, &b.layout
	group := i - i%(gemmTilesA*r.rows)
	if b.readsA(min(gemmTilesA*r.rows, b.m-group)) {
		size := s.A.Size()
		if s.TransA {
			return unsafe.Add(b.a, (b.k0*s.M+b.m0+i)*size), s.M * size
		}
		return unsafe.Add(b.a, ((b.m0+i)*s.K+b.k0)*size), s.K * size
	}
	if s.TransA {
		return unsafe.Add(b.scratch, l.a+(i-group)/r.rows*l.panelA), r.rows * r.packed
	}
	return unsafe.Add(b.scratch, l.a+(i-group)*l.rowA), l.rowA
}

// sums computes the tile at row i and column j of the block as far as K is packed.
func (b *gemmBlock) sums(i, j int) {
	s, r, l := &b.shape, &b.r, &b.layout
	rows, cols := min(r.rows, b.m-i), min(r.cols, b.n-j)
	height := ceilDiv(rows, r.heights)
	tile := r.tile[(cols-1)/r.vector][height-1]
	steps := ceilDiv(b.k, r.perStep)
	a, stepA := b.tileA(i)
	panel, stepB := b.panelB(j)
	var sum unsafe.Pointer
	if b.k < s.K { // the scratch has sums only where K comes in parts
		sum = unsafe.Add(b.scratch, l.sums+(j/r.cols*b.tiles(b.m)+i/r.rows)*l.tileAll)
	}
	init, initStride := sum, l.tileRow
	if b.k0 == 0 {
		init, initStride = b.bias(j), 0
	}
	if b.k0+b.k < s.K {
		tile(steps, a, stepA, panel, stepB, cols, init, initStride, sum, l.tileRow)
		return
	}
	size := s.C.Size()
	offset := ((b.m0+i)*s.N + b.n0 + j) * size
	c, stepC := unsafe.Add(b.c, offset), s.N*size
	r.prefetch(c, stepC, rows)
	if b.direct && rows == height*r.heights && cols == r.cols {
		tile(steps, a, stepA, panel, stepB, cols, init, initStride, c, stepC)
		return
	}
	var mask unsafe.Pointer
	if s.MaskReLU {
		mask = unsafe.Add(b.e.Mask, offset)
		r.prefetch(mask, stepC, rows)
	}
	out := unsafe.Add(b.scratch, l.tile)
	tile(steps, a, stepA, panel, stepB, cols, init, initStride, out, l.tileRow)
	r.store(c, stepC, out, rows, cols, mask)
}

// packB packs the block of B.
func (b *gemmBlock) packB() {
	if b.inPlaceB {
		return
	}
	s, r, l := &b.shape, &b.r, &b.layout
	size := s.B.Size()
	if !s.TransB {
		r.packPanels(b.scratch, unsafe.Add(b.b, (b.k0*s.N+b.n0)*size), l.panelB, s.N*size, b.k, b.n)
		return
	}
	for j := 0; j < b.n; j += r.cols { // B is [N,K]
		r.packTransposed(unsafe.Add(b.scratch, j/r.cols*l.panelB), unsafe.Add(b.b, ((b.n0+j)*s.K+b.k0)*size), l.panelB, s.K*size, b.k,
			min(r.cols, b.n-j))
	}
}

// panelB gives the panel of column j of the block and the distance of its rows.
func (b *gemmBlock) panelB(j int) (panel unsafe.Pointer, stride int) {
	if b.inPlaceB {
		s := &b.shape
		return unsafe.Add(b.b, (b.k0*s.N+b.n0+j)*s.B.Size()), s.N * s.B.Size()
	}
	return unsafe.Add(b.scratch, j/b.r.cols*b.layout.panelB), b.r.cols * b.r.packed
}

// bias is the row of a tile that the sums of column j start with.
func (b *gemmBlock) bias(j int) unsafe.Pointer {
	return unsafe.Add(b.scratch, b.layout.bias+j/b.r.cols*b.layout.tileRow)
}

// loadBias sets the rows that sums start with: the bias or zeros.
func (b *gemmBlock) loadBias() {
	clear(unsafe.Slice((*byte)(b.bias(0)), b.panels(b.n)*b.layout.tileRow))
	if b.shape.Bias {
		copy(unsafe.Slice((*float32)(b.bias(0)), b.n), unsafe.Slice((*float32)(b.e.Bias), b.shape.N)[b.n0:])
	}
}
