package program

// Ops lists one value of every operation's type. A device needs a kernel for each; its conformance suite walks the list.
func Ops() []Op {
	return []Op{
		GatherImages{}, GatherRows{}, OneHot{}, Constant{}, Cast{},
		Conv2D{}, Conv2DGradX{}, Conv2DGradW{}, Conv2DBackward{}, BiasGrad{},
		Linear{}, LinearGradX{}, LinearGradW{},
		Activation{}, ActivationGrad{}, Softmax{}, SoftmaxGrad{}, Add{}, Reshape{},
		MaxPool2D{}, MaxPool2DGrad{}, AvgPool2D{}, AvgPool2DGrad{},
		Dropout{}, ApplyMask{},
		BatchStats{}, BatchNorm{}, BatchNormGradGamma{}, BatchNormGradX{}, UpdateRunning{}, CommitRunning{},
		CrossEntropy{}, CrossEntropyGrad{}, PointwiseLoss{}, PointwiseLossGrad{}, CountCorrect{},
		GradStats{}, StepControl{}, Accumulate{}, Scale{}, Zero{}, Advance{}, AddScalar{}, RingRow{},
		SGDStep{}, AdamStep{}, AdadeltaStep{}, RMSPropStep{}, AdagradStep{},
	}
}
