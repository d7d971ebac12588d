package program_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"halfstep/configs"
	"halfstep/model"
	"halfstep/model/op/ref"
	"halfstep/program"
)

// convolutional is the layers conv1 relu1 conv2 relu2 pool1 flatten1 linear1 relu3 linear2.
func convolutional() []configs.Layer {
	conv := func(filters int) configs.Layer {
		return configs.Layer{Kind: "conv2d", Filters: filters, Kernel: 3, Stride: 1, Bias: true, Trainable: true}
	}
	linear := func(units int) configs.Layer {
		return configs.Layer{Kind: "linear", Units: units, Bias: true, Trainable: true}
	}
	relu := configs.Layer{Kind: "relu"}
	return []configs.Layer{conv(2), relu, conv(3), relu, {Kind: "max_pool2d", Size: 2}, {Kind: "flatten"}, linear(5), relu, linear(4)}
}

// lower builds a net over images [2,8,8,1] of 4 classes.
func lower(t *testing.T, layers []configs.Layer, train bool) (*program.Program, *program.Lowered) {
	t.Helper()
	m, err := model.Build(model.Spec{
		Layers: layers, Loss: configs.Loss{Name: "cross_entropy"}, Input: []int{8, 8, 1}, Classes: 4, Batch: 2, Train: train,
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &program.Program{Name: "test"}
	l, err := program.Lower(p, m, program.Inputs{
		X:        p.NewPersistent("x", program.RoleData, program.Float32, 2, 8, 8, 1),
		Target:   p.NewPersistent("labels", program.RoleData, program.Int32, 2),
		Counters: p.NewPersistent(program.CountersName, program.RoleState, program.Int32, program.NumCounters),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, l
}

// consume adds a second reader of a value.
func consume(t *testing.T, p *program.Program, name string) {
	t.Helper()
	v := p.Lookup(name)
	if v == nil {
		t.Fatalf("no value %s in\n%v", name, p)
	}
	kept := p.NewPersistent("kept", program.RoleMetric, program.Float32, v.Shape...)
	p.Emit(program.Metrics, "", program.Cast{}, []*program.Value{v}, []*program.Value{kept}, nil)
}

// inLayer lists the operations of a layer.
func inLayer(p *program.Program, layer string) string {
	var names []string
	for _, i := range p.Instrs {
		if i.Layer == layer {
			names = append(names, i.Op.Name())
		}
	}
	return strings.Join(names, " ")
}

// backward finds the merged backward pass of a layer.
func backward(p *program.Program, layer string) *program.Conv2DBackward {
	for _, i := range p.Instrs {
		if o, ok := i.Op.(program.Conv2DBackward); ok && i.Layer == layer {
			return &o
		}
	}
	return nil
}

var (
	conv3 = ref.Conv{KH: 3, KW: 3, Stride: 1}
	two   = ref.Pool{Size: 2, Stride: 2}
)

const (
	relu  = program.FuseConvReLU
	pool  = program.FuseConvReLUPool
	back  = program.FuseConvBackward
	lin   = program.FuseLinearReLU
	grads = program.FuseLinearGrads
)

// TestFuse says what becomes of each layer, whole and when another instruction reads a value in the middle of a pattern.
func TestFuse(t *testing.T) {
	all := []program.Rule{relu, pool, back, lin, grads}
	whole := map[string]string{ // operations by layer
		"conv1": "conv2d_relu conv2d_backward", "relu1": "",
		"conv2": "conv2d_relu_max_pool conv2d_backward", "relu2": "", "pool1": "",
		"linear1": "linear_relu linear_grad_x linear_grad_w", "relu3": "", "linear2": "linear linear_grad_w linear_grad_x_relu",
	}
	conv1 := program.Conv2DBackward{Conv: conv3, Bias: true} // conv2 has applied relu1's mask
	conv2 := program.Conv2DBackward{Conv: conv3, Pool: two, ReLU: true, Bias: true, NeedX: true, MaskX: true}
	change := func(b program.Conv2DBackward, f func(*program.Conv2DBackward)) *program.Conv2DBackward {
		f(&b)
		return &b
	}
	noPool := func(b *program.Conv2DBackward) { b.Pool = ref.Pool{} }
	for _, e := range []struct {
		name         string
		rules        []program.Rule
		read         string            // value with a second reader
		want         map[string]string // where it differs from whole
		conv1, conv2 *program.Conv2DBackward
	}{
		{name: "all", rules: all, conv1: &conv1, conv2: &conv2},
		{
			name: "conv2's sum is read", rules: all, read: "conv2/y", conv1: &conv1,
			want:  map[string]string{"conv2": "conv2d conv2d_backward", "relu2": "relu relu_grad", "pool1": "max_pool2d max_pool2d_grad"},
			conv2: change(conv2, func(b *program.Conv2DBackward) { noPool(b); b.ReLU = false }),
		},
		{
			name: "the pool's input is read", rules: all, read: "relu2/y", conv1: &conv1,
			want:  map[string]string{"conv2": "conv2d_relu conv2d_backward", "pool1": "max_pool2d max_pool2d_grad"},
			conv2: change(conv2, noPool),
		},
		{
			name: "the gradient before the pool is read", rules: all, read: "pool1/dx", conv1: &conv1,
			want:  map[string]string{"conv2": "conv2d_relu conv2d_backward", "pool1": "max_pool2d max_pool2d_grad"},
			conv2: change(conv2, noPool),
		},
		{
			name: "the gradient at conv2's sum is read", rules: all, read: "relu2/dx", conv1: &conv1,
			want:  map[string]string{"conv2": "conv2d_relu conv2d_backward", "relu2": "relu_grad", "pool1": "max_pool2d max_pool2d_grad"},
			conv2: change(conv2, func(b *program.Conv2DBackward) { noPool(b); b.ReLU = false }),
		},
		{
			name: "conv2's input gradient is read", rules: all, read: "conv2/dx",
			conv1: change(conv1, func(b *program.Conv2DBackward) { b.ReLU = true }),
			conv2: change(conv2, func(b *program.Conv2DBackward) { b.MaskX = false }),
		},
		{
			name: "linear1's sum is read", rules: all, read: "linear1/y", conv1: &conv1, conv2: &conv2,
			want: map[string]string{"linear1": "linear linear_grad_x linear_grad_w", "relu3": "relu"},
		},
		{
			name: "linear2's input gradient is read", rules: all, read: "linear2/dx", conv1: &conv1, conv2: &conv2,
			want: map[string]string{"linear2": "linear linear_grad_w linear_grad_x", "relu3": "relu_grad"},
		},
		{name: "no backward pass", rules: []program.Rule{relu, pool, lin, grads}, // the pool's gradient needs what it would not store
			want: map[string]string{
				"conv1": "conv2d_relu bias_grad conv2d_grad_w", "relu1": "relu_grad", "relu2": "relu_grad",
				"conv2": "conv2d_relu bias_grad conv2d_grad_w conv2d_grad_x", "pool1": "max_pool2d max_pool2d_grad",
			}},
		{
			name: "backward pass alone", rules: []program.Rule{back, lin, grads}, conv1: &conv1, conv2: change(conv2, noPool),
			want: map[string]string{
				"conv1": "conv2d conv2d_backward", "relu1": "relu", "conv2": "conv2d conv2d_backward", "relu2": "relu",
				"pool1": "max_pool2d max_pool2d_grad",
			},
		},
		{
			name: "pool without relu", rules: []program.Rule{pool, back, lin, grads}, conv1: &conv1, conv2: change(conv2, noPool),
			want: map[string]string{
				"conv1": "conv2d conv2d_backward", "relu1": "relu", "conv2": "conv2d conv2d_backward", "relu2": "relu",
				"pool1": "max_pool2d max_pool2d_grad",
			},
		},
		{
			name: "no linear rules", rules: []program.Rule{relu, pool, back}, conv1: &conv1, conv2: &conv2,
			want: map[string]string{
				"linear1": "linear bias_grad linear_grad_x linear_grad_w", "relu3": "relu relu_grad",
				"linear2": "linear bias_grad linear_grad_w linear_grad_x",
			},
		},
	} {
		t.Run(e.name, func(t *testing.T) {
			p, _ := lower(t, convolutional(), true)
			if e.read != "" {
				consume(t, p, e.read)
			}
			p.Fuse(e.rules)
			if err := p.Verify(); err != nil {
				t.Fatalf("%v\n%v", err, p)
			}
			for layer, want := range whole {
				if w, ok := e.want[layer]; ok {
					want = w
				}
				if got := inLayer(p, layer); !sameOps(got, want) {
					t.Errorf("%s: %q, want %q", layer, got, want)
				}
			}
			for layer, want := range map[string]*program.Conv2DBackward{"conv1": e.conv1, "conv2": e.conv2} {
				if got := backward(p, layer); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: backward pass %+v, want %+v", layer, got, want)
				}
			}
		})
	}
}

// sameOps compares without regard to order, which Verify looks after.
func sameOps(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// TestFuseEvaluation: without gradients the pool is fused where it alone reads its input, and writes an argmax nobody reads.
func TestFuseEvaluation(t *testing.T) {
	p, _ := lower(t, convolutional(), false)
	p.Fuse([]program.Rule{relu, pool, back, lin, grads})
	if err := p.Verify(); err != nil {
		t.Fatal(err)
	}
	if got := inLayer(p, "conv2"); got != "conv2d_relu_max_pool" {
		t.Errorf("conv2: %s", got)
	}
	p, _ = lower(t, convolutional(), false)
	consume(t, p, "relu2/y")
	p.Fuse([]program.Rule{relu, pool, back, lin, grads})
	if got := inLayer(p, "conv2") + ", " + inLayer(p, "pool1"); got != "conv2d_relu, max_pool2d" {
		t.Errorf("with a second reader of the pool's input: %s", got)
	}
}

// TestFuseFrozen: a layer that is not trained has no backward pass of its own; the one after it needs no input gradient.
func TestFuseFrozen(t *testing.T) {
	layers := convolutional()
	layers[0].Trainable = false
	p, _ := lower(t, layers, true)
	p.Fuse([]program.Rule{relu, pool, back, lin, grads})
	if err := p.Verify(); err != nil {
		t.Fatal(err)
	}
	if got := inLayer(p, "conv1"); got != "conv2d_relu" {
		t.Errorf("conv1: %s", got)
	}
	if b := backward(p, "conv2"); b == nil || b.NeedX || b.MaskX {
		t.Errorf("conv2: backward pass %+v, want none of the input's gradient", b)
	}
}
