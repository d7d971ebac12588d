package op

import (
	"fmt"
	"hash"
	"hash/fnv"
)

// describe prints an op with all its attributes. That is what its hash is made of: Gorgonia takes ops of equal hash for
// equal.
func describe(o any) string { return fmt.Sprintf("%#v", o) }

func writeHash(h hash.Hash, o any) { fmt.Fprint(h, describe(o)) }

func hashcode(o any) uint32 {
	h := fnv.New32a()
	writeHash(h, o)
	return h.Sum32()
}

func (o Conv2D) String() string             { return describe(o) }
func (o Conv2DGradX) String() string        { return describe(o) }
func (o Conv2DGradW) String() string        { return describe(o) }
func (o BiasGrad) String() string           { return describe(o) }
func (o Linear) String() string             { return describe(o) }
func (o LinearGradX) String() string        { return describe(o) }
func (o LinearGradW) String() string        { return describe(o) }
func (o Activation) String() string         { return describe(o) }
func (o ActivationGrad) String() string     { return describe(o) }
func (o Softmax) String() string            { return describe(o) }
func (o SoftmaxGrad) String() string        { return describe(o) }
func (o Add) String() string                { return describe(o) }
func (o Reshape) String() string            { return describe(o) }
func (o MaxPool2D) String() string          { return describe(o) }
func (o MaxPool2DIndex) String() string     { return describe(o) }
func (o MaxPool2DGrad) String() string      { return describe(o) }
func (o AvgPool2D) String() string          { return describe(o) }
func (o AvgPool2DGrad) String() string      { return describe(o) }
func (o BatchMean) String() string          { return describe(o) }
func (o BatchVar) String() string           { return describe(o) }
func (o BatchNorm) String() string          { return describe(o) }
func (o BatchNormGradGamma) String() string { return describe(o) }
func (o BatchNormGradX) String() string     { return describe(o) }
func (o DropoutMask) String() string        { return describe(o) }
func (o ApplyMask) String() string          { return describe(o) }
func (o CrossEntropy) String() string       { return describe(o) }
func (o CrossEntropyGrad) String() string   { return describe(o) }
func (o PointwiseLoss) String() string      { return describe(o) }
func (o PointwiseLossGrad) String() string  { return describe(o) }

func (o Conv2D) WriteHash(h hash.Hash)             { writeHash(h, o) }
func (o Conv2DGradX) WriteHash(h hash.Hash)        { writeHash(h, o) }
func (o Conv2DGradW) WriteHash(h hash.Hash)        { writeHash(h, o) }
func (o BiasGrad) WriteHash(h hash.Hash)           { writeHash(h, o) }
func (o Linear) WriteHash(h hash.Hash)             { writeHash(h, o) }
func (o LinearGradX) WriteHash(h hash.Hash)        { writeHash(h, o) }
func (o LinearGradW) WriteHash(h hash.Hash)        { writeHash(h, o) }
func (o Activation) WriteHash(h hash.Hash)         { writeHash(h, o) }
func (o ActivationGrad) WriteHash(h hash.Hash)     { writeHash(h, o) }
func (o Softmax) WriteHash(h hash.Hash)            { writeHash(h, o) }
func (o SoftmaxGrad) WriteHash(h hash.Hash)        { writeHash(h, o) }
func (o Add) WriteHash(h hash.Hash)                { writeHash(h, o) }
func (o Reshape) WriteHash(h hash.Hash)            { writeHash(h, o) }
func (o MaxPool2D) WriteHash(h hash.Hash)          { writeHash(h, o) }
func (o MaxPool2DIndex) WriteHash(h hash.Hash)     { writeHash(h, o) }
func (o MaxPool2DGrad) WriteHash(h hash.Hash)      { writeHash(h, o) }
func (o AvgPool2D) WriteHash(h hash.Hash)          { writeHash(h, o) }
func (o AvgPool2DGrad) WriteHash(h hash.Hash)      { writeHash(h, o) }
func (o BatchMean) WriteHash(h hash.Hash)          { writeHash(h, o) }
func (o BatchVar) WriteHash(h hash.Hash)           { writeHash(h, o) }
func (o BatchNorm) WriteHash(h hash.Hash)          { writeHash(h, o) }
func (o BatchNormGradGamma) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o BatchNormGradX) WriteHash(h hash.Hash)     { writeHash(h, o) }
func (o DropoutMask) WriteHash(h hash.Hash)        { writeHash(h, o) }
func (o ApplyMask) WriteHash(h hash.Hash)          { writeHash(h, o) }
func (o CrossEntropy) WriteHash(h hash.Hash)       { writeHash(h, o) }
func (o CrossEntropyGrad) WriteHash(h hash.Hash)   { writeHash(h, o) }
func (o PointwiseLoss) WriteHash(h hash.Hash)      { writeHash(h, o) }
func (o PointwiseLossGrad) WriteHash(h hash.Hash)  { writeHash(h, o) }

func (o Conv2D) Hashcode() uint32             { return hashcode(o) }
func (o Conv2DGradX) Hashcode() uint32        { return hashcode(o) }
func (o Conv2DGradW) Hashcode() uint32        { return hashcode(o) }
func (o BiasGrad) Hashcode() uint32           { return hashcode(o) }
func (o Linear) Hashcode() uint32             { return hashcode(o) }
func (o LinearGradX) Hashcode() uint32        { return hashcode(o) }
func (o LinearGradW) Hashcode() uint32        { return hashcode(o) }
func (o Activation) Hashcode() uint32         { return hashcode(o) }
func (o ActivationGrad) Hashcode() uint32     { return hashcode(o) }
func (o Softmax) Hashcode() uint32            { return hashcode(o) }
func (o SoftmaxGrad) Hashcode() uint32        { return hashcode(o) }
func (o Add) Hashcode() uint32                { return hashcode(o) }
func (o Reshape) Hashcode() uint32            { return hashcode(o) }
func (o MaxPool2D) Hashcode() uint32          { return hashcode(o) }
func (o MaxPool2DIndex) Hashcode() uint32     { return hashcode(o) }
func (o MaxPool2DGrad) Hashcode() uint32      { return hashcode(o) }
func (o AvgPool2D) Hashcode() uint32          { return hashcode(o) }
func (o AvgPool2DGrad) Hashcode() uint32      { return hashcode(o) }
func (o BatchMean) Hashcode() uint32          { return hashcode(o) }
func (o BatchVar) Hashcode() uint32           { return hashcode(o) }
func (o BatchNorm) Hashcode() uint32          { return hashcode(o) }
func (o BatchNormGradGamma) Hashcode() uint32 { return hashcode(o) }
func (o BatchNormGradX) Hashcode() uint32     { return hashcode(o) }
func (o DropoutMask) Hashcode() uint32        { return hashcode(o) }
func (o ApplyMask) Hashcode() uint32          { return hashcode(o) }
func (o CrossEntropy) Hashcode() uint32       { return hashcode(o) }
func (o CrossEntropyGrad) Hashcode() uint32   { return hashcode(o) }
func (o PointwiseLoss) Hashcode() uint32      { return hashcode(o) }
func (o PointwiseLossGrad) Hashcode() uint32  { return hashcode(o) }
