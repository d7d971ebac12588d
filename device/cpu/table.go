package cpu

import (
	"halfstep/device/cpu/kernel"
	"halfstep/model/op/ref"
	"halfstep/program"
)

// table has a kernel for every operation; the conformance suite walks program.Ops to see that none is missing.
var table = tableOf(
	on(buildGatherImages), on(buildGatherRows), on(buildOneHot), on(buildConstant), on(buildCast),
	on(buildConv2D), on(buildConv2DGradX), on(buildConv2DGradW), on(buildConv2DBackward), on(buildBiasGrad),
	on(buildLinear[program.Linear]), on(buildLinear[program.LinearGradX]), on(buildLinear[program.LinearGradW]),
	on(buildActivation), on(buildActivationGrad), on(buildSoftmax), on(buildSoftmaxGrad), on(buildAdd), on(buildReshape),
	on(buildMaxPool2D), on(buildMaxPool2DGrad), on(buildAvgPool2D), on(buildAvgPool2DGrad),
	on(buildDropout), on(buildApplyMask),
	on(buildBatchStats), on(buildBatchNorm), on(buildBatchNormGradGamma), on(buildBatchNormGradX),
	on(buildUpdateRunning), on(buildCommitRunning),
	on(buildCrossEntropy), on(buildCrossEntropyGrad), on(buildPointwiseLoss), on(buildPointwiseLossGrad), on(buildCountCorrect),
	on(buildGradStats), on(buildStepControl), on(buildAccumulate), on(buildScale), on(buildZero), on(buildAdvance),
	on(buildAddScalar), on(buildRingRow),
	on(buildOptimizer[program.SGDStep]), on(buildOptimizer[program.AdamStep]), on(buildOptimizer[program.AdadeltaStep]),
	on(buildOptimizer[program.RMSPropStep]), on(buildOptimizer[program.AdagradStep]),
)

// exact reports whether an instruction runs by the defining loops of package ref: portable level, float32 throughout. Such
// a program equals Gorgonia's TapeMachine bit for bit.
func (b *builder) exact(i *program.Instr) bool {
	if b.level != kernel.Portable {
		return false
	}
	for _, v := range append(append([]*program.Value(nil), i.In...), i.Out...) {
		if v.DType.Half() {
			return false
		}
	}
	return true
}

// work is the memory of a workspace; nil of none.
func (b *builder) work(v *program.Value) []byte {
	if v == nil {
		return nil
	}
	return b.bytes(v)
}

// Workspace implements device.Device.
func (d *Device) Workspace(i *program.Instr) int64 {
	workers := d.pool.Workers()
	switch o := i.Op.(type) {
	case program.Conv2D:
		if f, err := newConvForward(d.level, i, o); err == nil {
			return f.work(workers)
		}
	case program.Conv2DBackward:
		return d.convBackwardWork(convShape(o.Conv, i.In[0], i.In[1]), i.In[0].Shape[0], o)
	case program.Conv2DGradW:
		return d.convBackwardWork(convShape(o.Conv, i.In[0], i.Out[0]), i.In[0].Shape[0], program.Conv2DBackward{Conv: o.Conv})
	case program.Conv2DGradX:
		s := convShape(o.Conv, i.Out[0], i.In[0])
		return d.convBackwardWork(s, i.Out[0].Shape[0], program.Conv2DBackward{Conv: o.Conv, NeedX: true}) + int64(imageBytes(i.Out[0]))
	case program.Linear, program.LinearGradX, program.LinearGradW:
		s, _ := gemmOf(i)
		if g, err := kernel.NewGEMM(d.level, s, d.pool); err == nil {
			return int64(g.WorkBytes())
		}
	case program.MaxPool2D, program.AvgPool2D, program.AvgPool2DGrad:
		return poolWork(i.In[0], i.Out[0], workers)
	case program.MaxPool2DGrad:
		return poolWork(i.In[1], i.Out[0], workers)
	case program.GatherImages:
		if o.Shift > 0 && i.Out[0].DType.Half() {
			return int64(i.Out[0].Elems()/i.Out[0].Shape[0]) * 4 * int64(workers)
		}
	}
	return reductionWork(i)
}

func (d *Device) convBackwardWork(s kernel.ConvShape, images int, o program.Conv2DBackward) int64 {
	k, err := newConvBackward(d.level, s, images, o)
	if err != nil {
		return 0 // Compile tells
	}
	return k.work(d.pool.Workers())
}

// reductionWork is the workspace of kernels that leave one partial sum per block.
func reductionWork(i *program.Instr) int64 {
	switch i.Op.(type) {
	case program.CrossEntropy:
		return int64(i.In[0].Shape[0]) * 8
	case program.PointwiseLoss:
		return int64((i.In[0].Elems()+ref.SumChunk-1)/ref.SumChunk) * 8
	case program.BatchStats, program.BatchNormGradGamma, program.BiasGrad:
		c := i.In[0].Shape[len(i.In[0].Shape)-1]
		return partialBytes(i.In[0].Elems()/c, c)
	case program.GradStats:
		chunks := 0
		for _, g := range i.In[1:] {
			chunks += (g.Elems() + chunk - 1) / chunk
		}
		return int64(chunks) * 12
	}
	return 0
}
