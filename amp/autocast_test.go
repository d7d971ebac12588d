package amp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"halfstep/configs"
	"halfstep/model"
	"halfstep/program"
)

// TestClassOf has every operation that autocast meets: a new one must be put in a list.
func TestClassOf(t *testing.T) {
	const update = 255 // of the update and metrics phases, which are appended after autocast, or made by it or by fusion
	want := map[string]Class{
		"conv2d": Half, "conv2d_grad_x": Half, "conv2d_grad_w": Half, "linear": Half, "linear_grad_x": Half, "linear_grad_w": Half,
		"softmax": Float32, "softmax_grad": Float32,
		"gather_images": Internal, "gather_rows": Internal, "one_hot": Internal, "constant": Internal, "scale": Internal,
		"bias_grad": Internal, "batch_stats": Internal, "batch_norm_grad_gamma": Internal, "count_correct": Internal,
		"cross_entropy": Internal, "cross_entropy_grad": Internal, "mse": Internal, "mse_grad": Internal,
		"relu": Follow, "relu_grad": Follow, "add": Follow, "reshape": Follow, "dropout": Follow, "apply_mask": Follow,
		"max_pool2d": Follow, "max_pool2d_grad": Follow, "avg_pool2d": Follow, "avg_pool2d_grad": Follow,
		"batch_norm": Follow, "batch_norm_grad_x": Follow,
		"cast": update, "conv2d_backward": update, "update_running": update, "commit_running": update, "grad_stats": update,
		"step_control": update, "accumulate": update, "zero": update, "advance": update, "add_scalar": update, "ring_row": update,
		"sgd_step": update, "adam_step": update, "adadelta_step": update, "rmsprop_step": update, "adagrad_step": update,
	}
	for _, op := range program.Ops() {
		w, ok := want[op.Name()]
		if !ok {
			t.Errorf("%s: in none of this test's lists", op.Name())
		} else if got := ClassOf(op); w != update && got != w {
			t.Errorf("%s: class %d, want %d", op.Name(), got, w)
		}
	}
}

// Layers of the nets below; names are numbered by kind: conv1, relu1.
func conv(filters int) configs.Layer {
	return configs.Layer{Kind: "conv2d", Filters: filters, Kernel: 3, Stride: 1, Padding: 1, Bias: true, Trainable: true}
}

func linear(units int) configs.Layer {
	return configs.Layer{Kind: "linear", Units: units, Bias: true, Trainable: true}
}

func layer(kind string) configs.Layer { return configs.Layer{Kind: kind} }

func batchNorm() configs.Layer {
	return configs.Layer{Kind: "batch_norm", Eps: 1e-5, Momentum: 0.1, Trainable: true}
}

func residual(layers ...configs.Layer) configs.Layer {
	return configs.Layer{Kind: "residual", Layers: layers}
}

// castNet lowers a net over images [4,6,6,2] of 4 classes, gathered from resident bytes, and casts it to float16.
func castNet(t *testing.T, loss string, layers ...configs.Layer) *program.Program {
	t.Helper()
	m, err := model.Build(model.Spec{
		Layers: layers, Loss: configs.Loss{Name: loss}, Input: []int{6, 6, 2}, Classes: 4, Batch: 4, Train: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &program.Program{Name: "test"}
	in := program.Inputs{
		X:        p.NewValue("x", program.RoleActivation, program.Float32, 4, 6, 6, 2),
		Target:   p.NewPersistent("labels", program.RoleData, program.Int32, 4),
		Counters: p.NewPersistent(program.CountersName, program.RoleState, program.Int32, program.NumCounters),
		Seed:     p.NewPersistent("scale", program.RoleState, program.Float32),
	}
	images := p.NewPersistent("images", program.RoleData, program.Uint8, 9, 6, 6, 2)
	order := p.NewPersistent("order", program.RoleData, program.Int32, 9)
	p.Emit(program.Input, "", program.GatherImages{Std: 1}, []*program.Value{images, order, in.Counters}, []*program.Value{in.X}, nil)
	if m.OneHot {
		in.Target = p.NewPersistent("target", program.RoleData, program.Float32, 4, 4)
	}
	if _, err := program.Lower(p, m, in); err != nil {
		t.Fatal(err)
	}
	if err := Autocast(p, program.Float16); err != nil {
		t.Fatal(err)
	}
	return p
}

// wantTypes checks values by name, "float16: a b c".
func wantTypes(t *testing.T, p *program.Program, lists ...string) {
	t.Helper()
	for _, l := range lists {
		dtype, names, _ := strings.Cut(l, ":")
		for _, name := range strings.Fields(names) {
			if v := p.Lookup(name); v == nil {
				t.Errorf("no value %s", name)
			} else if v.DType.String() != dtype {
				t.Errorf("%s, want %s", v, dtype)
			}
		}
	}
	if t.Failed() {
		t.Log(p)
	}
}

// casts lists what is cast, "x -> float16".
func casts(p *program.Program) []string {
	var r []string
	for _, i := range p.Instrs {
		if _, ok := i.Op.(program.Cast); ok {
			r = append(r, fmt.Sprintf("%s -> %s", i.In[0].Name, i.Out[0].DType))
		}
	}
	slices.Sort(r)
	return r
}

func wantCasts(t *testing.T, p *program.Program, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := casts(p); !slices.Equal(got, want) {
		t.Errorf("casts %q, want %q\n%v", got, want, p)
	}
}

// halfCopies lists the values of that role.
func halfCopies(p *program.Program) []string {
	var r []string
	for _, v := range p.Values {
		if v.Role == program.RoleHalfCopy {
			r = append(r, v.Name)
		}
	}
	slices.Sort(r)
	return r
}

// TestAutocastConvolutional: a net without float32 operations has no cast at all. Its batch is gathered in half; biases, batch
// norm's parameters and statistics, their gradients and the loss stay float32; only weights of convolutions and linear layers
// have half copies, which alone are read.
func TestAutocastConvolutional(t *testing.T) {
	p := castNet(t, "cross_entropy", conv(3), batchNorm(), layer("relu"), configs.Layer{Kind: "max_pool2d", Size: 2},
		configs.Layer{Kind: "dropout", Rate: 0.5}, residual(conv(3), layer("tanh")), configs.Layer{Kind: "avg_pool2d", Size: 3},
		layer("flatten"), linear(5), layer("gelu"), linear(4))
	wantTypes(t, p,
		"float16: x conv1/y bn1/y relu1/y pool1/y dropout1/y residual1/conv1/y residual1/tanh1/y residual1/y pool2/y flatten1/y linear1/y linear2/y",
		"float16: loss/dx linear2/dx gelu1/dx pool2/dx residual1/tanh1/dx dropout1/dx pool1/dx relu1/dx bn1/dx",
		"float16: conv1/weight/grad residual1/conv1/weight/grad linear1/weight/grad linear2/weight/grad",
		"float32: bn1/mean bn1/var loss/y conv1/bias conv1/weight bn1/weight bn1/bias linear2/weight linear2/bias",
		"float32: conv1/bias/grad bn1/weight/grad bn1/bias/grad linear1/bias/grad",
		"uint8: pool1/argmax dropout1/mask")
	wantCasts(t, p)
	copies := halfCopies(p)
	if want := []string{"conv1/weight.half", "linear1/weight.half", "linear2/weight.half", "residual1/conv1/weight.half"}; !slices.Equal(copies, want) {
		t.Errorf("half copies %q, want %q", copies, want)
	}
	for _, i := range p.Instrs {
		for _, v := range i.In {
			if slices.Contains(copies, HalfCopyName(v.Name)) {
				t.Errorf("%s reads the float32 %s, which has a half copy", i.Op.Name(), v.Name)
			}
		}
	}
	if x := p.Lookup(HalfCopyName("conv1/weight")); !x.Persistent || x.DType != program.Float16 {
		t.Errorf("half copy %s, persistent %t", x, x.Persistent)
	}
}

// TestAutocastSoftmax: softmax computes in float32 between two casts. The gradient that comes out of it is cast once for both
// products that read it; the bias's gradient sums it as it is.
func TestAutocastSoftmax(t *testing.T) {
	p := castNet(t, "mse", layer("flatten"), linear(5), layer("sigmoid"), linear(4), layer("softmax"))
	wantTypes(t, p, "float16: linear1/y sigmoid1/y linear2/y linear2/dx", "float32: softmax1/y loss/dx softmax1/dx loss/y")
	wantCasts(t, p, "linear2/y -> float32", "softmax1/dx -> float16")
}

// TestAutocastLoss: losses read half logits without a cast of the tensor, compute in float32 or better inside (the conformance
// suite has the mean of 100,000 ones) and give a float32 loss and half gradients.
func TestAutocastLoss(t *testing.T) {
	for _, loss := range []string{"cross_entropy", "mse", "bce_with_logits"} {
		p := castNet(t, loss, layer("flatten"), linear(4))
		wantTypes(t, p, "float16: linear1/y loss/dx", "float32: loss/y")
		wantCasts(t, p)
	}
}

// TestAutocastWidest: a sum of a float32 and a half operand is float32; what follows it in half is cast once for the forward
// pass and the gradient by the weight.
func TestAutocastWidest(t *testing.T) {
	p := castNet(t, "cross_entropy", layer("flatten"), linear(4), layer("softmax"), residual(linear(4), layer("relu")), linear(4))
	wantTypes(t, p, "float32: softmax1/y residual1/y", "float16: residual1/linear1/y residual1/relu1/y linear2/y")
	for _, i := range p.Instrs {
		if _, ok := i.Op.(program.Add); ok && i.Layer == "residual1" && i.Phase == program.Forward {
			for _, v := range append(i.In, i.Out...) {
				if v.DType != program.Float32 {
					t.Errorf("the sum has the operand %s, want float32", v)
				}
			}
		}
	}
	forward := []string{"linear1/y -> float32", "softmax1/y -> float16", "residual1/relu1/y -> float32", "residual1/y -> float16"}
	for _, c := range forward {
		if n := count(casts(p), c); n != 1 {
			t.Errorf("%d casts %s, want 1", n, c)
		}
	}
	seen := map[string]bool{}
	for _, c := range casts(p) {
		if seen[c] {
			t.Errorf("cast %s is made twice", c)
		}
		seen[c] = true
	}
}

func count(list []string, s string) (n int) {
	for _, x := range list {
		if x == s {
			n++
		}
	}
	return n
}

// TestAutocastGather: the batch is gathered in half when only half operations read it, by views too; else it stays float32.
func TestAutocastGather(t *testing.T) {
	for _, c := range []struct {
		name   string
		layers []configs.Layer
		want   program.DType
		casts  []string
	}{
		{"flattened", []configs.Layer{layer("flatten"), linear(4)}, program.Float16, nil},
		{"two readers", []configs.Layer{conv(2), layer("flatten"), linear(4)}, program.Float16, nil},
		{"batch norm first", []configs.Layer{batchNorm(), conv(2), layer("flatten"), linear(4)}, program.Float32, []string{"bn1/y -> float16", "conv1/dx -> float32"}},
		{"relu first", []configs.Layer{layer("relu"), layer("flatten"), linear(4)}, program.Float32, []string{"relu1/y -> float16"}},
		{
			"residual first",
			[]configs.Layer{residual(conv(2)), layer("flatten"), linear(4)},
			program.Float32,
			[]string{"residual1/conv1/y -> float32", "residual1/y -> float16", "x -> float16"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := castNet(t, "cross_entropy", c.layers...)
			gather := p.Instrs[0]
			if _, ok := gather.Op.(program.GatherImages); !ok || gather.Out[0].Name != "x" || gather.Out[0].DType != c.want {
				t.Errorf("the batch is %s, want %s", gather.Out[0], c.want)
			}
			wantCasts(t, p, c.casts...)
		})
	}
}

// TestAutocastFrozen: a weight that is not trained has a half copy all the same, and no gradient.
func TestAutocastFrozen(t *testing.T) {
	frozen := conv(2)
	frozen.Trainable = false
	p := castNet(t, "cross_entropy", frozen, layer("flatten"), linear(4))
	if want := []string{"conv1/weight.half", "linear1/weight.half"}; !slices.Equal(halfCopies(p), want) {
		t.Errorf("half copies %q, want %q", halfCopies(p), want)
	}
	if v := p.Lookup("conv1/weight/grad"); v != nil {
		t.Errorf("there is %s", v)
	}
}

func TestAutocastRefusesFloat32(t *testing.T) {
	if err := Autocast(&program.Program{}, program.Float32); err == nil || !strings.Contains(err.Error(), "float32") {
		t.Errorf("error %v, want one that names float32", err)
	}
}
