package kernel

import (
	"errors"
	"fmt"
	"unsafe"

	"halfstep/device/cpu/pool"
	"halfstep/program"
)

// GEMMShape describes the matrix product C [M,N] = op(A) [M,K] · op(B) [K,N] with what is done to C on the way. Matrices
// are row-major and contiguous; op transposes where asked, so that A is stored [K,M] with TransA and B [N,K] with TransB.
//
// A and B have one dtype, float32, float16, bfloat16 or float64; C is any of the first three, or float64 when they are.
// Sums are in float32 (float64 for float64), start with the bias and run in order of k; C is rounded once at the end. At
// level AVX512BF16 the products of bfloat16 are summed in pairs of k, subnormals counting as zeros, as VDPBF16PS does.
//
// The three products of a linear layer y = x·w + b, x [B,K], w [K,N]:
//
//	y  = x·w     [B,N] = [B,K]·[K,N]    Bias, ReLU when fused
//	dx = dy·wᵀ   [B,K] = [B,N]·[K,N]ᵀ   TransB, MaskReLU when x is the output of a ReLU
//	dw = xᵀ·dy   [K,N] = [B,K]ᵀ·[B,N]   TransA, ColSum for db
type GEMMShape struct {
	M, N, K        int
	TransA, TransB bool
	A, B, C        program.DType
	Bias           bool // add a row of N float32
	ReLU           bool // C = 0 where C is below 0; a NaN stays
	MaskReLU       bool // C = 0 where mask is not above 0; mask has C's shape and dtype
	ColSum         bool // also sum the rows of B, in order, to N float32; without TransB
}

func (s GEMMShape) String() string {
	t := func(trans bool) string {
		if trans {
			return "ᵀ"
		}
		return ""
	}
	return fmt.Sprintf("gemm %dx%dx%d %s%s·%s%s->%s", s.M, s.N, s.K, s.A, t(s.TransA), s.B, t(s.TransB), s.C)
}

func (s GEMMShape) check() error {
	double := s.A == program.Float64
	switch {
	case s.M < 1 || s.N < 1 || s.K < 1:
		return errors.New("sizes must be positive")
	case s.A != s.B:
		return errors.New("operands A and B must have one dtype")
	case !double && !s.A.Float() || double != (s.C == program.Float64) || !double && !s.C.Float():
		return errors.New("no kernel for these dtypes")
	case double && (s.Bias || s.ReLU || s.MaskReLU || s.ColSum):
		return errors.New("float64 has no epilogue")
	case s.ReLU && s.MaskReLU:
		return errors.New("ReLU and MaskReLU exclude each other")
	case s.ColSum && s.TransB:
		return errors.New("column sums want B as it is: ColSum goes without TransB")
	}
	return nil
}

// Epilogue holds the operands of a product's epilogue; those its shape does not ask for are nil.
type Epilogue struct {
	Bias   unsafe.Pointer // [N] float32, read
	Mask   unsafe.Pointer // [M,N] of C's dtype, read
	ColSum unsafe.Pointer // [N] float32, written
}

// GEMM is a matrix product made ready for one shape, after Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication" (2008). C is cut into blocks, one task each. For each part of K a task packs its block of B to stay in the
// second-level cache and goes down the rows of A, a few tiles of which are packed at a time; the tile at hand stays in the
// first level while B's panels pass by. The sums of an element of C stay in one task and run over K in order, so that
// neither blocks nor workers change a bit of the result.
//
// Element types and levels differ only in packing, tile and store routines. One Run at a time.
type GEMM struct {
	shape GEMMShape
	r     gemmRoutines
	gemmPlan
	direct bool // tiles go to C as they are
	pool   *pool.Pool
	vec    *Vec
	run    func(worker, task int)
	layout gemmLayout

	a, b, c, work unsafe.Pointer // operands of the Run in progress
	e             Epilogue
}

// gemmLayout says where the parts of a worker's scratch lie, in bytes.
type gemmLayout struct {
	rowA, panelA     int // distance of packed rows of A, or of panels when TransA
	panelB           int // distance of packed panels of B
	a, sums, tile    int // after B from 0: tiles of A, sums between blocks of K, one tile of C
	bias             int // what sums start with, a row for each panel
	tileRow, tileAll int // bytes of a tile's row, and of a tile
	worker           int
}

// NewGEMM prepares a product at a level for the workers of p.
func NewGEMM(l Level, s GEMMShape, p *pool.Pool) (*GEMM, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%v: %w", s, err)
	}
	g := &GEMM{shape: s, r: newGEMMRoutines(l, s), pool: p, vec: NewVec(l)}
	g.gemmPlan = newGEMMPlan(s, &g.r, p.Workers())
	g.layout = g.newLayout()
	g.run = g.task
	if g.isOuter() {
		g.run = g.outerProduct
	}
	g.direct = !s.ReLU && !s.MaskReLU && (s.C == program.Float32 || s.C == program.Float64)
	return g, nil
}

func (g *GEMM) newLayout() gemmLayout {
	const line = 64
	up := func(n int) int { return (n + line - 1) / line * line }
	s, r := g.shape, &g.r
	var l gemmLayout
	steps := ceilDiv(g.kc, r.perStep)
	// One line more keeps rows and panels off multiples of 4096 bytes, which would share few sets of the first-level
	// cache, and takes what pack routines write beyond the end.
	l.rowA = up(steps*r.packed) + line
	l.panelA = up(steps*r.rows*r.packed) + line
	l.panelB = up((steps+packSlack)*r.cols*r.packed) + line
	if !g.inPlaceB {
		l.a = g.panels(g.nc) * l.panelB
	}
	tiles := min(gemmTilesA, g.tiles(g.mc))
	l.sums = l.a + tiles*r.rows*l.rowA
	if s.TransA {
		l.sums = l.a + tiles*l.panelA
	}
	l.tileRow = r.cols * r.sum
	l.tileAll = r.rows * l.tileRow
	l.tile = l.sums
	if g.kc < s.K {
		l.tile += g.tiles(g.mc) * g.panels(g.nc) * l.tileAll
	}
	l.bias = l.tile + l.tileAll
	l.worker = up(l.bias+g.panels(g.nc)*l.tileRow) + line
	return l
}

func (g *GEMM) tiles(rows int) int  { return ceilDiv(rows, g.r.rows) }
func (g *GEMM) panels(cols int) int { return ceilDiv(cols, g.r.cols) }

// WorkBytes is the size of the scratch that Run wants, aligned to 64 bytes; it grows with the workers.
func (g *GEMM) WorkBytes() int { return g.pool.Workers() * g.layout.worker }

// Run computes C. Operands the shape does not ask for are ignored; none may overlap another. It allocates nothing.
func (g *GEMM) Run(a, b, c unsafe.Pointer, e Epilogue, work unsafe.Pointer) {
	g.a, g.b, g.c, g.e, g.work = a, b, c, e, work
	tasks := g.blockRows * g.blockCols
	if g.shape.ColSum {
		tasks++
	}
	if g.blockRows*g.blockCols > 1 {
		g.pool.For(tasks, g.run)
	} else { // not worth waking the workers
		for i := range tasks {
			g.run(0, i)
		}
	}
	g.a, g.b, g.c, g.e, g.work = nil, nil, nil, Epilogue{}, nil
}

// task computes a block of C or, as the last task, the column sums.
func (g *GEMM) task(worker, task int) {
	if task == g.blockRows*g.blockCols {
		g.colSum()
		return
	}
	s := &g.shape
	b := gemmBlock{
		GEMM: g, m0: task % g.blockRows * g.mc, n0: task / g.blockRows * g.nc,
		scratch: unsafe.Add(g.work, worker*g.layout.worker),
	}
	b.m, b.n = min(g.mc, s.M-b.m0), min(g.nc, s.N-b.n0)
	b.run()
}

// colSum sums the rows of B.
func (g *GEMM) colSum() {
	s := &g.shape
	sum := unsafe.Slice((*float32)(g.e.ColSum), s.N)
	clear(sum)
	switch s.B {
	case program.Float32:
		g.vec.Float32.SumColumns(sum, unsafe.Slice((*float32)(g.b), s.K*s.N))
	case program.Float16:
		g.vec.Float16.SumColumns(sum, unsafe.Slice((*uint16)(g.b), s.K*s.N))
	case program.BFloat16:
		g.vec.BFloat16.SumColumns(sum, unsafe.Slice((*uint16)(g.b), s.K*s.N))
	}
}
