// Package model turns a list of layers into one Gorgonia expression graph that holds the forward pass, the loss and the
// gradients. Images are NHWC; everything is float32 (precision is package amp's matter, after lowering).
package model

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/configs"
)

// Spec is what a graph is built from.
type Spec struct {
	Layers []configs.Layer
	Loss   configs.Loss
	Input  []int // of one sample: [H,W,C] or [D]
	// Classes is the number of labels, Targets the width of float targets: exactly one of them is set.
	Classes int
	Targets int
	Batch   int
	Train   bool         // false: no dropout, running statistics, no gradients
	Seed    uint64       // of the dropout masks
	DType   tensor.Dtype // the zero value is float32; float64 is for derivative checks
}

// Model is a graph with its ends and its parts in order of the layers.
type Model struct {
	Graph    *G.ExprGraph
	Train    bool    // as in Spec
	Input    *G.Node // [B,H,W,C] or [B,D]
	Target   *G.Node // labels Int32 [B], or float [B,Classes] (OneHot) or [B,Targets]
	Counters *G.Node // Int32 [op.NumCounters]; nil when no dropout layer needs it
	Logits   *G.Node // [B,units]: the last layer's output
	Loss     *G.Node // scalar
	Params   []Param
	Grads    G.Nodes // of the trainable parameters, in their order; nil in evaluation
	Layers   []Layer
	// BatchNorms lists the running statistics: the update's inputs in training, graph inputs in evaluation.
	BatchNorms []BatchNorm
	// FirstBackward: nodes whose ID is at least this belong to the backward pass.
	FirstBackward int64
	// OneHot says that the data has labels but the loss compares floats: Target is the labels' one-hot rows.
	OneHot   bool
	Warnings []string
}

// Layer describes one layer for summaries. A residual block follows the layers inside it.
type Layer struct {
	Name     string // "conv1", "residual1/conv1"
	Kind     string // as in configs.Layer
	Out      *G.Node
	InShape  []int // with the batch
	OutShape []int
	Params   int   // elements in its own parameters
	FLOPs    int64 // of the forward pass over the batch: 2 per multiply-add of convolutions and linear layers, else 0
}

// Param is one parameter tensor, a graph input.
type Param struct {
	Name      string // "conv1/weight", "conv1/bias"; batch norm's gamma is "bn1/weight", beta "bn1/bias"
	Layer     string
	Node      *G.Node
	Shape     []int // convolution [KH,KW,C,OC], linear [K,N], else [C]
	Trainable bool
	FanIn     int
	FanOut    int
	Init      configs.Init // Name may also be "ones"
	Index     int          // in Model.Params: the parameter's random stream
	// FlattenShape is [H,W,C] where dimension K of a linear weight runs over a flattened image, and OutFlattenShape where
	// the last dimension does (batch norm after flatten; a linear layer that ends a residual block around it). PyTorch
	// flattens [C,H,W], so these dimensions are permuted by ToTorch and FromTorch. Nil elsewhere.
	FlattenShape    []int
	OutFlattenShape []int
}

// BatchNorm is one batch norm layer's statistics.
type BatchNorm struct {
	Layer string
	// Mean and Var [C] are the batch's in training and the inputs for the running ones in evaluation.
	Mean, Var               *G.Node
	RunningMean, RunningVar string // "bn1/running_mean", "bn1/running_var"
	Momentum                float32
	Count                   int // values per channel in a batch
	// FlattenShape is as Param.OutFlattenShape, for the running statistics.
	FlattenShape []int
}

// Elems is the number of elements.
func (p Param) Elems() int { return elems(p.Shape) }

func elems(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
