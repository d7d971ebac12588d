package conformance

import (
	"reflect"

	"halfstep/program"
)

// generator makes the cases of one operation.
type generator func(*maker) []testCase

// generators has every operation's cases.
func generators() map[reflect.Type]generator {
	g := map[reflect.Type]generator{}
	for _, e := range []struct {
		op program.Op
		generator
	}{
		{program.GatherImages{}, gatherImagesCases},
		{program.GatherRows{}, gatherRowsCases},
		{program.OneHot{}, oneHotCases},
		{program.Constant{}, constantCases},
		{program.Cast{}, castCases},
		{program.Conv2D{}, convCases},
		{program.Conv2DGradX{}, convGradXCases},
		{program.Conv2DGradW{}, convGradWCases},
		{program.Conv2DBackward{}, convBackwardCases},
		{program.BiasGrad{}, biasGradCases},
		{program.Linear{}, linearCases},
		{program.LinearGradX{}, linearGradXCases},
		{program.LinearGradW{}, linearGradWCases},
		{program.Activation{}, activationCases},
		{program.ActivationGrad{}, activationGradCases},
		{program.Softmax{}, softmaxCases},
		{program.SoftmaxGrad{}, softmaxGradCases},
		{program.Add{}, addCases},
		{program.Reshape{}, reshapeCases},
		{program.MaxPool2D{}, maxPoolCases},
		{program.MaxPool2DGrad{}, maxPoolGradCases},
		{program.AvgPool2D{}, avgPoolCases},
		{program.AvgPool2DGrad{}, avgPoolGradCases},
		{program.Dropout{}, dropoutCases},
		{program.ApplyMask{}, applyMaskCases},
		{program.BatchStats{}, batchStatsCases},
		{program.BatchNorm{}, batchNormCases},
		{program.BatchNormGradGamma{}, batchNormGradGammaCases},
		{program.BatchNormGradX{}, batchNormGradXCases},
		{program.UpdateRunning{}, updateRunningCases},
		{program.CommitRunning{}, commitRunningCases},
		{program.CrossEntropy{}, crossEntropyCases},
		{program.CrossEntropyGrad{}, crossEntropyGradCases},
		{program.PointwiseLoss{}, pointwiseLossCases},
		{program.PointwiseLossGrad{}, pointwiseLossGradCases},
		{program.CountCorrect{}, countCorrectCases},
		{program.GradStats{}, gradStatsCases},
		{program.StepControl{}, stepControlCases},
		{program.Accumulate{}, accumulateCases},
		{program.Scale{}, scaleCases},
		{program.Zero{}, zeroCases},
		{program.Advance{}, advanceCases},
		{program.AddScalar{}, addScalarCases},
		{program.RingRow{}, ringRowCases},
		{program.SGDStep{}, sgdCases},
		{program.AdamStep{}, adamCases},
		{program.AdadeltaStep{}, adadeltaCases},
		{program.RMSPropStep{}, rmspropCases},
		{program.AdagradStep{}, adagradCases},
	} {
		g[reflect.TypeOf(e.op)] = e.generator
	}
	return g
}
