package op_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"halfstep/model/op"
	"halfstep/model/op/ref"
)

// TestHashHoldsEveryAttribute: Gorgonia merges nodes whose ops have equal hashes, so each field must change it.
func TestHashHoldsEveryAttribute(t *testing.T) {
	conv, pool := ref.Conv{KH: 3, KW: 3, Stride: 1}, ref.Pool{Size: 2, Stride: 2}
	seen := map[uint32]string{}
	for _, o := range []G.Op{
		op.Conv2D{Conv: conv},
		op.Conv2DGradX{Conv: conv},
		op.Conv2DGradW{Conv: conv},
		op.BiasGrad{},
		op.Linear{},
		op.LinearGradX{},
		op.LinearGradW{},
		op.Activation{},
		op.ActivationGrad{},
		op.Softmax{},
		op.SoftmaxGrad{},
		op.Add{},
		op.Reshape{From: []int{4}, To: []int{2, 2}},
		op.MaxPool2D{Pool: pool},
		op.MaxPool2DIndex{Pool: pool},
		op.MaxPool2DGrad{Pool: pool},
		op.AvgPool2D{Pool: pool},
		op.AvgPool2DGrad{Pool: pool},
		op.BatchMean{},
		op.BatchVar{},
		op.BatchNorm{},
		op.BatchNormGradGamma{},
		op.BatchNormGradX{},
		op.DropoutMask{},
		op.ApplyMask{},
		op.CrossEntropy{},
		op.CrossEntropyGrad{},
		op.PointwiseLoss{},
		op.PointwiseLossGrad{},
	} {
		if other, ok := seen[o.Hashcode()]; ok {
			t.Errorf("%v and %s have the same hash", o, other)
		}
		seen[o.Hashcode()] = o.String()
		changed := reflect.New(reflect.TypeOf(o)).Elem()
		eachField(reflect.TypeOf(o), nil, func(index []int) {
			changed.Set(reflect.ValueOf(o))
			change(t, changed.FieldByIndex(index))
			if changed.Interface().(G.Op).Hashcode() == o.Hashcode() {
				t.Errorf("%T: field %v is not in the hash", o, reflect.TypeOf(o).FieldByIndex(index).Name)
			}
		})
	}
}

// eachField visits the fields of a struct and of those inside it.
func eachField(typ reflect.Type, at []int, f func(index []int)) {
	for i := range typ.NumField() {
		index := append(slices.Clone(at), i)
		if ft := typ.Field(i).Type; ft.Kind() == reflect.Struct {
			eachField(ft, index, f)
		} else {
			f(index)
		}
	}
}

func change(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float32: // the next float32: all digits count
		v.SetFloat(float64(math.Nextafter32(float32(v.Float()), 2)))
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.ValueOf(append([]int{1}, v.Interface().([]int)...)))
	default:
		t.Fatalf("field of kind %v", v.Kind())
	}
}

// TestApplyFindsHashCollision uses two input names whose nodes have the same 32-bit hash (FNV-1a, found by search).
// Gorgonia keeps the inputs apart but takes the second op's node for the first one's.
func TestApplyFindsHashCollision(t *testing.T) {
	g := G.NewGraph()
	in := func(name string) *G.Node {
		return G.NewTensor(g, tensor.Float32, 2, G.WithShape(1, 2), G.WithName(name))
	}
	a, b := in("p6379"), in("p242012")
	if a.Hashcode() != b.Hashcode() || a == b {
		t.Fatal("the inputs do not collide: has Gorgonia changed its hash?")
	}
	o := op.Activation{Kind: ref.ReLU, Dims: 2}
	if _, err := op.Apply(o, a); err != nil {
		t.Fatal(err)
	}
	if _, err := op.Apply(o, b); err == nil || !strings.Contains(err.Error(), "hash collision") {
		t.Errorf("error %v, want a hash collision", err)
	}
}

// TestInferShapeRefusesMisfits gives each op one operand that does not fit.
func TestInferShapeRefusesMisfits(t *testing.T) {
	conv, pool := ref.Conv{KH: 3, KW: 3, Stride: 1}, ref.Pool{Size: 2, Stride: 2}
	type s = tensor.Shape
	for _, c := range []struct {
		op     G.Op
		good   []s
		bad    int // the operand to replace
		misfit s
	}{
		{op.Conv2D{Conv: conv, Bias: true}, []s{{2, 5, 5, 1}, {3, 3, 1, 4}, {4}}, 1, s{3, 3, 2, 4}},
		{op.Conv2D{Conv: conv, Bias: true}, []s{{2, 5, 5, 1}, {3, 3, 1, 4}, {4}}, 2, s{1}},
		{op.Conv2D{Conv: conv, Bias: true}, []s{{2, 5, 5, 1}, {3, 3, 1, 4}, {4}}, 0, s{2, 2, 2, 1}},
		{op.Conv2DGradX{Conv: conv, H: 5, W: 5}, []s{{3, 3, 1, 4}, {2, 3, 3, 4}}, 1, s{2, 3, 2, 4}},
		{op.Conv2DGradW{Conv: conv}, []s{{2, 5, 5, 1}, {2, 3, 3, 4}}, 1, s{1, 3, 3, 4}},
		{op.BiasGrad{Dims: 2}, []s{{3, 4}}, 0, s{3}},
		{op.Linear{Bias: true}, []s{{2, 3}, {3, 4}, {4}}, 1, s{4, 4}},
		{op.LinearGradX{}, []s{{2, 4}, {3, 4}}, 1, s{4, 3}},
		{op.LinearGradW{}, []s{{2, 3}, {2, 4}}, 1, s{3, 4}},
		{op.Activation{Dims: 2}, []s{{2, 3}}, 0, s{2, 3, 1, 1}},
		{op.ActivationGrad{Dims: 2}, []s{{2, 3}, {2, 3}}, 1, s{3, 2}},
		{op.Softmax{}, []s{{2, 3}}, 0, s{3}},
		{op.SoftmaxGrad{}, []s{{2, 3}, {2, 3}}, 1, s{2, 4}},
		{op.Add{Dims: 2}, []s{{2, 3}, {2, 3}}, 1, s{2, 1}},
		{op.Reshape{From: []int{2, 3}, To: []int{6}}, []s{{2, 3}}, 0, s{3, 2}},
		{op.MaxPool2D{Pool: pool}, []s{{2, 4, 4, 3}}, 0, s{2, 1, 4, 3}},
		{op.MaxPool2DIndex{Pool: pool}, []s{{2, 4, 4, 3}}, 0, s{2, 4}},
		{op.MaxPool2DGrad{Pool: pool, H: 5, W: 4}, []s{{2, 2, 2, 3}, {2, 2, 2, 3}}, 1, s{2, 3, 2, 3}},
		{op.AvgPool2D{Pool: pool}, []s{{2, 4, 4, 3}}, 0, s{2, 4, 1, 3}},
		{op.AvgPool2DGrad{Pool: pool, H: 5, W: 4}, []s{{2, 2, 2, 3}}, 0, s{2, 2, 1, 3}},
		{op.BatchMean{Dims: 2}, []s{{2, 3}}, 0, s{3}},
		{op.BatchVar{Dims: 2}, []s{{2, 3}}, 0, s{3}},
		{op.BatchNorm{Dims: 2}, []s{{2, 3}, {3}, {3}, {3}, {3}}, 4, s{2}},
		{op.BatchNormGradGamma{Dims: 2}, []s{{2, 3}, {3}, {3}, {2, 3}}, 3, s{3, 3}},
		{op.BatchNormGradX{Dims: 2}, []s{{2, 3}, {3}, {3}, {3}, {2, 3}, {3}, {3}}, 6, s{2}},
		{op.DropoutMask{Dims: 2}, []s{{2, 3}, {op.NumCounters}}, 1, s{1}},
		{op.ApplyMask{Dims: 2}, []s{{2, 3}, {2, 3}}, 1, s{3, 2}},
		{op.CrossEntropy{}, []s{{2, 3}, {2}}, 1, s{3}},
		{op.CrossEntropyGrad{}, []s{{2, 3}, {2}, {}}, 1, s{3}},
		{op.PointwiseLoss{Dims: 2}, []s{{2, 3}, {2, 3}}, 1, s{2, 1}},
		{op.PointwiseLossGrad{Dims: 2}, []s{{2, 3}, {2, 3}, {}}, 1, s{2, 1}},
	} {
		if _, err := c.op.InferShape(G.ShapesToDimSizers(c.good)...); err != nil {
			t.Errorf("%v refuses %v: %v", c.op, c.good, err)
		}
		bad := slices.Clone(c.good)
		bad[c.bad] = c.misfit
		if out, err := c.op.InferShape(G.ShapesToDimSizers(bad)...); err == nil {
			t.Errorf("%v takes %v and gives %v", c.op, bad, out)
		}
		if _, err := c.op.InferShape(G.ShapesToDimSizers(bad[:len(bad)-1])...); err == nil {
			t.Errorf("%v takes one operand too few", c.op)
		}
	}
}

// TestDoSharesNoMemory: Gorgonia's machine adds gradients in place, so a result must not be an input's memory.
func TestDoSharesNoMemory(t *testing.T) {
	x := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1, 2, 3, 4}))
	y, err := op.Reshape{From: []int{2, 2}, To: []int{4}}.Do(x)
	if err != nil {
		t.Fatal(err)
	}
	y.Data().([]float32)[0] = 9
	if x.Data().([]float32)[0] != 1 {
		t.Error("Reshape's result is its input's memory")
	}
}

// TestDoRefusesBadLabels: a label outside the classes is an error that names the sample, not a crash.
func TestDoRefusesBadLabels(t *testing.T) {
	x := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking(make([]float32, 6)))
	for _, label := range []int32{-1, 3} {
		labels := tensor.New(tensor.WithShape(2), tensor.WithBacking([]int32{0, label}))
		if _, err := (op.CrossEntropy{}).Do(x, labels); err == nil || !strings.Contains(err.Error(), "sample 1") {
			t.Errorf("label %d: error %v", label, err)
		}
	}
}
