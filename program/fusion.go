package program

// Rule names a fusion. A device lists those it has kernels for; Fuse applies them.
type Rule string

// The rules.
const (
	FuseConvReLU     Rule = "conv2d+relu"
	FuseConvReLUPool Rule = "conv2d+relu+max_pool2d"
	FuseConvBackward Rule = "conv2d backward"
	FuseLinearReLU   Rule = "linear+relu"
	FuseLinearGrads  Rule = "linear gradients+relu+bias"
)
