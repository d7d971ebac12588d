//go:build !amd64

package kernel

import "unsafe"

// portableLanes is the channel block of the portable twins.
const portableLanes = 8

func (l Level) convLanes() int   { return portableLanes }
func (l Level) convMaxTile() int { return 13 }

func (l Level) convTile(nv int, bf16 bool, t *convTile)           { convTileGo(t, nv*portableLanes) }
func (l Level) convGradW(nv int, bf16 bool, t *convGradW)         { convGradWGo(t, nv*portableLanes) }
func (l Level) convRows(t *convRows, src, dst rowType, mask bool) { convRowsGo(t, src, dst, mask) }
func (l Level) convPool(t *convPool, e rowType)                   { convPoolGo(t, e) }
func (l Level) convUnpool(t *convUnpool, e, to rowType)           { convUnpoolGo(t, e, to) }

func (l Level) convColSum(e rowType, sum, x unsafe.Pointer, n, c, pix int) {
	convColSumGo(e, sum, x, n, c, pix)
}

func (l Level) convSumAcc(dst, src unsafe.Pointer, n, stride, count int) {
	convSumAccGo(dst, src, n, stride, count)
}

func (l Level) convPairs(dst, lo, hi unsafe.Pointer, n int) { convPairsGo(dst, lo, hi, n) }

func (l Level) convStage(t *convStage, e rowType) { convStageGo(t, e) }

func (l Level) convTranspose(dst, src unsafe.Pointer, rows, cols, dstLine, line int) {
	convTransposeGo(dst, src, rows, cols, dstLine, line)
}

func (l Level) convSparseW(t *convSparseW) { convSparseWGo(t) }
func (l Level) convSparseX(t *convSparseX) { convSparseXGo(t) }
