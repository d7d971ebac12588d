//go:build linux && gpu && (amd64 || arm64)

package cuda

import (
	"halfstep/model/op/ref"
	"halfstep/program"
)

// table has the kernels of every operation.
var table = tableOf(
	on(gatherImages), on(gatherRows), on(oneHot), on(constant), on(cast),
	on(conv2D), on(conv2DGradX), on(conv2DGradW), on(conv2DBackward), on(biasGrad),
	on(linear), on(linearGradX), on(linearGradW),
	on(activation), on(activationGrad), on(softmax), on(softmaxGrad), on(addTensors), on(reshape),
	on(maxPool2D), on(maxPool2DGrad), on(avgPool2D), on(avgPool2DGrad),
	on(dropout), on(applyMask),
	on(batchStats), on(batchNorm), on(batchNormGradGamma), on(batchNormGradX), on(updateRunning), on(commitRunning),
	on(crossEntropy), on(crossEntropyGrad), on(pointwiseLoss), on(pointwiseLossGrad), on(countCorrect),
	on(gradStats), on(stepControl), on(accumulate), on(scale), on(zero), on(advance), on(addScalar), on(ringRow),
	on(optimizer[program.SGDStep]), on(optimizer[program.AdamStep]), on(optimizer[program.AdadeltaStep]),
	on(optimizer[program.RMSPropStep]), on(optimizer[program.AdagradStep]),
)

// Workspace implements device.Device.
func (d *Device) Workspace(i *program.Instr) int64 {
	switch o := i.Op.(type) {
	case program.Conv2D:
		return d.conv2DWork(i, o)
	case program.Conv2DGradX:
		return d.gradXWork(newConv(o.Conv, i.Out[0], i.In[0]), i.In[0].DType, i.Out[0].DType, ref.Pool{})
	case program.Conv2DGradW:
		return d.gradWWork(newConv(o.Conv, i.In[0], i.Out[0]), i.In[0].DType, ref.Pool{}, false)
	case program.LinearGradX, program.Linear:
		return splitWork(i)
	case program.LinearGradW:
		if o.Bias {
			return splitWork(i) + columnWork(i.In[1])
		}
		return splitWork(i)
	case program.Conv2DBackward:
		return d.conv2DBackwardWork(i, o)
	case program.BiasGrad, program.BatchNormGradGamma:
		return columnWork(i.In[0])
	case program.BatchStats:
		return columnWork(i.In[0]) + alignUp(8*int64(channels(i.In[0])))
	case program.CrossEntropy:
		return alignUp(8 * int64(i.In[0].Shape[0]))
	case program.PointwiseLoss:
		return alignUp(8 * int64(ceilDiv(i.In[0].Elems(), ref.SumChunk)))
	case program.GradStats:
		return alignUp(8*int64(statChunks(i))) + alignUp(4*int64(statChunks(i)))
	}
	return 0
}
