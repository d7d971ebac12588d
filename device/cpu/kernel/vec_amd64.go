package kernel

import "unsafe"

// routines is the assembly for one element type. All take n elements; block is what n must be a multiple of.
type routines struct {
	block      int
	decode     func(dst, src unsafe.Pointer, n int) // nil: no conversion is needed
	encode     func(dst, src unsafe.Pointer, n int)
	relu       func(y, x unsafe.Pointer, n int)
	reluGrad   func(dx, y, dy unsafe.Pointer, n int)
	add        func(y, a, b unsafe.Pointer, n int)
	scale      func(y, x unsafe.Pointer, n int, s float32)
	addScaled  func(acc, x unsafe.Pointer, n int, s float32)
	applyMask  func(y, x, mask unsafe.Pointer, n int, s float32)
	normalize  func(y, b unsafe.Pointer, n int, mean, std float32)
	sumColumns func(sum, x unsafe.Pointer, n, rows, stride int)
	gradStats  func(x, squares, bad unsafe.Pointer, n int, inv float32)
}

// accelerate puts in the assembly of v's level.
func (v *Vec) accelerate() {
	var f, h, b *routines
	switch {
	case v.Level >= AVX512:
		f, h, b = &float32AVX512, &float16AVX512, &bfloat16AVX512
		v.norm, v.pool = &normAVX512, &poolAVX512
		v.dropoutMask = func(mask []uint8, d *DropoutStream, first int, epoch, position uint32) {
			dropoutMaskAVX512(pointer(mask), unsafe.Pointer(&d.keys), len(mask), position, epoch, d.purpose, d.threshold)
		}
	case v.Level == AVX2:
		f, h, b = &float32AVX2, &float16AVX2, &bfloat16AVX2
		v.norm, v.pool = &normAVX2, &poolAVX2
		v.dropoutMask = func(mask []uint8, d *DropoutStream, first int, epoch, position uint32) {
			m := len(mask) &^ 63
			dropoutMaskAVX2(pointer(mask), unsafe.Pointer(&d.keys), m, position, epoch, d.purpose, d.threshold)
			dropoutMaskGo(mask[m:], d, m, epoch, position)
		}
	default:
		return
	}
	install(&v.Float32, f, float32Codec)
	install(&v.Float16, h, float16Codec)
	install(&v.BFloat16, b, bfloat16Codec)
}

// install sets o's kernels to the routines, with c doing the elements after the last whole block.
func install[T Elem](o *Ops[T], r *routines, c codec[T]) {
	whole := func(n int) int { return n - n%r.block }
	if r.decode != nil {
		o.ToFloat32 = func(dst []float32, src []T) {
			src = src[:len(dst)]
			m := whole(len(dst))
			r.decode(pointer(dst), pointer(src), m)
			c.toFloat32(dst[m:], src[m:])
		}
		o.FromFloat32 = func(dst []T, src []float32) {
			src = src[:len(dst)]
			m := whole(len(dst))
			r.encode(pointer(dst), pointer(src), m)
			c.fromFloat32(dst[m:], src[m:])
		}
	} else {
		o.ToFloat32 = func(dst []float32, src []T) { copy(dst, any(src[:len(dst)]).([]float32)) }
		o.FromFloat32 = func(dst []T, src []float32) { copy(any(dst).([]float32), src[:len(dst)]) }
	}
	o.ReLU = func(y, x []T) {
		x = x[:len(y)]
		m := whole(len(y))
		r.relu(pointer(y), pointer(x), m)
		c.relu(y[m:], x[m:])
	}
	o.ReLUGrad = func(dx, y, dy []T) {
		y, dy = y[:len(dx)], dy[:len(dx)]
		m := whole(len(dx))
		r.reluGrad(pointer(dx), pointer(y), pointer(dy), m)
		c.reluGrad(dx[m:], y[m:], dy[m:])
	}
	o.Add = func(y, a, b []T) {
		a, b = a[:len(y)], b[:len(y)]
		m := whole(len(y))
		r.add(pointer(y), pointer(a), pointer(b), m)
		c.add(y[m:], a[m:], b[m:])
	}
	o.Scale = func(y, x []T, s float32) {
		x = x[:len(y)]
		m := whole(len(y))
		r.scale(pointer(y), pointer(x), m, s)
		c.scale(y[m:], x[m:], s)
	}
	o.AddScaled = func(acc []float32, x []T, s float32) {
		x = x[:len(acc)]
		m := whole(len(acc))
		r.addScaled(pointer(acc), pointer(x), m, s)
		c.addScaled(acc[m:], x[m:], s)
	}
	o.ApplyMask = func(y, x []T, mask []uint8, s float32) {
		x, mask = x[:len(y)], mask[:len(y)]
		m := whole(len(y))
		r.applyMask(pointer(y), pointer(x), pointer(mask), m, s)
		c.applyMask(y[m:], x[m:], mask[m:], s)
	}
	o.Normalize = func(y []T, b []uint8, mean, std float32) {
		b = b[:len(y)]
		m := whole(len(y))
		r.normalize(pointer(y), pointer(b), m, mean, std)
		c.normalize(y[m:], b[m:], mean, std)
	}
	o.SumColumns = func(sum []float32, x []T) {
		cols := len(sum)
		if cols == 0 || len(x) < cols {
			return
		}
		m, rows := whole(cols), len(x)/cols
		r.sumColumns(pointer(sum), pointer(x), m, rows, cols*int(unsafe.Sizeof(x[0])))
		for i := 0; m < cols && i < rows; i++ {
			c.sumColumns(sum[m:], x[i*cols+m:(i+1)*cols])
		}
	}
	o.GradStats = func(x []T, inv float32, squares *float64, bad *int32) {
		m := whole(len(x))
		r.gradStats(pointer(x), unsafe.Pointer(squares), unsafe.Pointer(bad), m, inv)
		c.gradStats(x[m:], inv, squares, bad)
	}
}

var float32AVX512 = routines{
	block: 1, relu: reluFloat32AVX512, reluGrad: reluGradFloat32AVX512, add: addFloat32AVX512,
	scale: scaleFloat32AVX512, addScaled: addScaledFloat32AVX512, applyMask: applyMaskFloat32AVX512,
	normalize: normalizeFloat32AVX512, sumColumns: sumColumnsFloat32AVX512, gradStats: gradStatsFloat32AVX512,
}

var float16AVX512 = routines{
	block: 1, decode: decodeFloat16AVX512, encode: encodeFloat16AVX512,
	relu: reluFloat16AVX512, reluGrad: reluGradFloat16AVX512, add: addFloat16AVX512,
	scale: scaleFloat16AVX512, addScaled: addScaledFloat16AVX512, applyMask: applyMaskFloat16AVX512,
	normalize: normalizeFloat16AVX512, sumColumns: sumColumnsFloat16AVX512, gradStats: gradStatsFloat16AVX512,
}

var bfloat16AVX512 = routines{
	block: 1, decode: decodeBFloat16AVX512, encode: encodeBFloat16AVX512,
	relu: reluBFloat16AVX512, reluGrad: reluGradBFloat16AVX512, add: addBFloat16AVX512,
	scale: scaleBFloat16AVX512, addScaled: addScaledBFloat16AVX512, applyMask: applyMaskBFloat16AVX512,
	normalize: normalizeBFloat16AVX512, sumColumns: sumColumnsBFloat16AVX512, gradStats: gradStatsBFloat16AVX512,
}

var float32AVX2 = routines{
	block: 16, relu: reluFloat32AVX2, reluGrad: reluGradFloat32AVX2, add: addFloat32AVX2,
	scale: scaleFloat32AVX2, addScaled: addScaledFloat32AVX2, applyMask: applyMaskFloat32AVX2,
	normalize: normalizeFloat32AVX2, sumColumns: sumColumnsFloat32AVX2, gradStats: gradStatsFloat32AVX2,
}

var float16AVX2 = routines{
	block: 16, decode: decodeFloat16AVX2, encode: encodeFloat16AVX2,
	relu: reluFloat16AVX2, reluGrad: reluGradFloat16AVX2, add: addFloat16AVX2,
	scale: scaleFloat16AVX2, addScaled: addScaledFloat16AVX2, applyMask: applyMaskFloat16AVX2,
	normalize: normalizeFloat16AVX2, sumColumns: sumColumnsFloat16AVX2, gradStats: gradStatsFloat16AVX2,
}

var bfloat16AVX2 = routines{
	block: 16, decode: decodeBFloat16AVX2, encode: encodeBFloat16AVX2,
	relu: reluBFloat16AVX2, reluGrad: reluGradBFloat16AVX2, add: addBFloat16AVX2,
	scale: scaleBFloat16AVX2, addScaled: addScaledBFloat16AVX2, applyMask: applyMaskBFloat16AVX2,
	normalize: normalizeBFloat16AVX2, sumColumns: sumColumnsBFloat16AVX2, gradStats: gradStatsBFloat16AVX2,
}

var normAVX512 = normRoutines{
	block: 1, columnSums: columnSumsAVX512, columnSquares: columnSquaresAVX512, columnProducts: columnProductsAVX512,
	batchNorm: batchNormAVX512, batchNormGradX: batchNormGradXAVX512,
}

var poolAVX512 = poolRoutines{block: 1, maxPool: maxPool2x2AVX512, grad: maxPoolGrad2x2AVX512}

var normAVX2 = normRoutines{
	block: 8, columnSums: columnSumsAVX2, columnSquares: columnSquaresAVX2, columnProducts: columnProductsAVX2,
	batchNorm: batchNormAVX2, batchNormGradX: batchNormGradXAVX2,
}

var poolAVX2 = poolRoutines{block: 8, maxPool: maxPool2x2AVX2, grad: maxPoolGrad2x2AVX2}
