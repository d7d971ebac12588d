package kernel

import "unsafe"

// The arguments of the convolution's routines. Strides and jumps are in bytes; an element is what one broadcast reads: a
// float32, or a pair of bfloat16. Assembly finds the fields by the offsets in go_asm.h.

// convTile asks for m output pixels of one row by one or two vectors of output channels.
type convTile struct {
	x    unsafe.Pointer // first element of pixel 0 in kernel row 0
	w    unsafe.Pointer // [kh][run][channels]
	bias unsafe.Pointer // [channels] float32
	y    unsafe.Pointer // pixel 0, float32
	xPix int            // between the inputs of two output pixels
	// xJump leads from the end of a run to the next kernel row.
	xJump int
	yPix  int
	kh    int
	run   int // elements of one kernel row
	m     int
	floor float32 // lower bound of y: 0 is ReLU, minus infinity none
}

// convGradW asks for m rows of dw, which are m consecutive elements of a run, summed over rows·cols pixels.
type convGradW struct {
	x     unsafe.Pointer // element 0 of pixel 0
	dy    unsafe.Pointer // pixel 0: float32, or pairs of bfloat16
	dw    unsafe.Pointer // [m][channels] float32
	xPix  int
	dyPix int
	// xJump and dyJump lead from one past the last pixel of a row to the next row.
	xJump  int
	dyJump int
	rows   int
	cols   int
	m      int
}

// convRows asks for a copy of n pixels of c channels between two element types.
type convRows struct {
	dst     unsafe.Pointer
	src     unsafe.Pointer
	mask    unsafe.Pointer
	n       int
	c       int
	dstPix  int
	srcPix  int
	maskPix int
}

// convPool asks for one row of n pooled pixels.
type convPool struct {
	src    unsafe.Pointer // float32 sums at the first window
	y      unsafe.Pointer
	idx    unsafe.Pointer
	pix    int // between sums
	row    int
	step   int // between windows
	n      int
	c      int
	size   int
	yPix   int
	idxPix int
	floor  float32
	dead   int32  // the position that says that no gradient passes
	relu   uint32 // all ones when a maximum at or below zero is dead, else 0
}

// convUnpool asks for the scatter of one row of n pooled gradients.
type convUnpool struct {
	dst    unsafe.Pointer // first window
	dy     unsafe.Pointer
	idx    unsafe.Pointer
	pix    int // between elements of dst
	row    int
	step   int // between windows
	n      int
	c      int
	size   int
	dyPix  int
	idxPix int
	add    uint32 // all ones when windows overlap, else 0
}

// rowType is the element type of a row in memory.
type rowType uint8

const (
	rowF32 rowType = iota
	rowF16
	rowBF16
)

func (r rowType) bytes() int {
	if r == rowF32 {
		return 4
	}
	return 2
}

// convStage asks for one row of n pooled gradients to be prepared for the sparse backward pass.
type convStage struct {
	dy     unsafe.Pointer
	idx    unsafe.Pointer
	grad   unsafe.Pointer // [n][padded c] float32: live gradients, the others zero
	off    unsafe.Pointer // [n][padded c] int32: offset in x of the element that the kernel's corner meets
	db     unsafe.Pointer // [padded c] float32
	list   unsafe.Pointer // appended to; on return the end
	delta  int            // bytes from an offset in a list to its gradient
	lists  int            // 0: no lists
	n      int
	c      int
	dyPix  int
	idxPix int
	pix    int // of grad and off
	xOff   int32
	xStep  int32 // between pixels
	// windowOff are the offsets of the four positions in a window, wOff those of the first 16 channels' weights.
	windowOff [16]int32
	wOff      [16]int32
}

// convSparseW asks for products of n output channels' live gradients with x.
type convSparseW struct {
	x      unsafe.Pointer
	grad   unsafe.Pointer // [n][pix/4] float32
	off    unsafe.Pointer // [n][pix/4] int32
	dw     unsafe.Pointer // first vector
	list   unsafe.Pointer // room for pix/4+16 offsets and as many gradients
	delta  int
	line   int // of x
	pix    int // bytes of one channel's gradients, a multiple of 64
	dwStep int // between output channels
	n      int
	body   int // 100·kernel rows + vectors of one row
}

// convSparseX asks for products of all live gradients with 16 channels of the weights.
type convSparseX struct {
	dx    unsafe.Pointer
	w     unsafe.Pointer // [OC][3][3][16]
	list  unsafe.Pointer
	delta int
	pix   int // of dx
	line  int
	jump  int // from one row of pooled pixels to the next
	rows  int // counted down
	cols  int
	//lint:ignore U1000 the assembly's counter
	col int
}
