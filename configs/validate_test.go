package configs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Each override breaks one rule of docs/CONFIG.md; the messages were written by hand.
func TestValidate(t *testing.T) {
	const (
		images  = tiny
		random  = "data: {name: random, random: {samples: 100, features: 4, targets: 2}}\nmodel: {layers: [linear: {units: 2}]}\nloss: {name: mse}\n"
		plateau = tiny + "optim: {schedule: {name: plateau}}\ndata: {validation: 0.1}\n"
	)
	for _, c := range []struct{ file, override, want string }{
		{images, "epochs=0", "epochs: want at least 1, got 0"},
		{images, "threads=-1", "threads: want at least 0, got -1"},
		{images, "max_steps=-1", "max_steps: want at least 0, got -1"},
		{images, "runs_dir=", "runs_dir: want a folder"},
		{images, "name=a/b", "name: want a name without / and \\, got a/b"},
		{images, "device=gpu", "device: want auto, cpu, cuda, cuda:N or gorgonia, got gpu"},
		{images, "device=cuda:01", "device: want auto, cpu, cuda, cuda:N or gorgonia, got cuda:01"},
		{images, "device=cuda:1", ""},
		{images, "data.name=minst", "data.name: want mnist | fashion_mnist | kmnist | emnist | idx | random, got \"minst\"; did you mean mnist?"},
		{images, "data.name=idx", "data.dir: idx needs the folder that holds the files"},
		{images, "data={name: emnist, split: leters}", "data.split: want balanced | byclass | bymerge | digits | letters | mnist, got \"leters\"; did you mean letters?"},
		{images, "data={name: emnist, split: letters}", ""},
		{images, "data.split=letters", "data.split: a key of emnist, idx, not of mnist, which has dir, batch_size, drop_last, shuffle, validation, normalize, transpose, resident, augment"},
		{images, "data.batch_size=0", "data.batch_size: want at least 1, got 0"},
		{images, "data.validation=-0.1", "data.validation: want at least 0, got -0.1"},
		{images, "data.validation=1.5", "data.validation: want a share below 1 or a whole number of samples, got 1.5"},
		{images, "data.validation=5000", ""},
		{images, "data.normalize.std=0", "data.normalize.std: want more than 0, got 0"},
		{images, "data.augment.shift=-1", "data.augment.shift: want at least 0, got -1"},
		{random, "data.random.samples=0", "data.random.samples: want at least 1, got 0"},
		{random, "data.random={samples: 1, features: 2}", "data.random.targets: random data needs it, at least 1"},
		{random, "data.validation=100", "data.validation: 100 leaves none of the 100 samples to train on"},
		{random, "data.drop_last=true", "data.drop_last: drops the only batch: 100 samples are fewer than batch_size 128"},
		{random, "loss={name: cross_entropy}", "loss.name: cross_entropy needs labels, random data has none; use mse"},
		{random, "loss.reduction=avg", "loss.reduction: want mean | sum | batch_mean, got \"avg\""},
		{images, "loss.label_smoothing=1.5", "loss.label_smoothing: want 0 to 1, got 1.5"},
		{images, "loss.name=hinge", "loss.name: want cross_entropy | mse | bce_with_logits, got \"hinge\""},
		{images, "model.layers=[]", "model.layers: a model needs at least one layer"},
		{images, "model.layers.0=linear", "model.layers.0.linear.units: linear needs it, at least 1"},
		{images, "model.layers.0={linear: {units: 0}}", "model.layers.0.linear.units: want at least 1, got 0"},
		{images, "model.layers.0={conv2d: {kernel: 3}}", "model.layers.0.conv2d.filters: conv2d needs it, at least 1"},
		{images, "model.layers.0={conv2d: {filters: 3, kernel: 3, stride: 0}}", "model.layers.0.conv2d.stride: want at least 1, got 0"},
		{images, "model.layers.0={conv2d: {filters: 3, kernel: 3, padding: -1}}", "model.layers.0.conv2d.padding: want at least 0, got -1"},
		{images, "model.layers.0=max_pool2d", "model.layers.0.max_pool2d.size: max_pool2d needs it, at least 1"},
		{images, "model.layers.0={avg_pool2d: {size: 2, stride: 0}}", "model.layers.0.avg_pool2d.stride: want at least 1, got 0"},
		{images, "model.layers.0={batch_norm: {eps: 0}}", "model.layers.0.batch_norm.eps: want more than 0, got 0"},
		{images, "model.layers.0={batch_norm: {momentum: 2}}", "model.layers.0.batch_norm.momentum: want 0 to 1, got 2"},
		{images, "model.layers.0={dropout: {rate: 1}}", "model.layers.0.dropout.rate: want at least 0 and less than 1, got 1"},
		{images, "model.layers.0={gelu: {approximate: erf}}", "model.layers.0.gelu.approximate: want none | tanh, got \"erf\""},
		{images, "model.layers.0=residual", "model.layers.0.residual.layers: residual needs at least one layer"},
		{images, "model.layers.0={residual: {layers: [linear]}}", "model.layers.0.residual.layers.0.linear.units: linear needs it, at least 1"},
		{images, "model.layers.1={linear: {units: 1, init: {name: normal, std: -1}}}", "model.layers.1.linear.init.std: want at least 0, got -1"},
		{images, "model.layers.1={linear: {units: 1, init: {std: 1}}}", "model.layers.1.linear.init.std: a key of normal, not of default"},
		{images, "model.layers.1={linear: {units: 1, init: {name: uniform, low: 2}}}", "model.layers.1.linear.init.high: is 1, below low 2"},
		{images, "model.layers.1={linear: {units: 1, init: {name: he}}}", "model.layers.1.linear.init.name: want default | normal | uniform | kaiming_normal | kaiming_uniform | xavier_normal | xavier_uniform | zeros, got \"he\""},
		{images, "model.layers.1={linear: {units: 1, bias: false, bias_init: {name: zeros}}}", "model.layers.1.linear.bias_init: there is no bias to initialise: bias is false"},
		{images, "amp.dtype=fp16", "amp.dtype: want float16 | bfloat16, got \"fp16\""},
		{images, "amp.grad_scaler.enabled=on", "amp.grad_scaler.enabled: want auto | true | false, got \"on\""},
		{images, "amp.grad_scaler.enabled=false", ""},
		{images, "amp.grad_scaler.init_scale=0.5", "amp.grad_scaler.init_scale: is 0.5, below min_scale 1"},
		{images, "amp.grad_scaler.init_scale=33554432", "amp.grad_scaler.init_scale: is 3.3554432e+07, above max_scale 1.6777216e+07"},
		{images, "amp.grad_scaler={init_scale: 33554432, max_scale: 0}", ""},
		{images, "amp.grad_scaler.max_scale=0.5", "amp.grad_scaler.max_scale: is 0.5, below min_scale 1"},
		{images, "amp.grad_scaler.growth_factor=1", "amp.grad_scaler.growth_factor: want more than 1, got 1"},
		{images, "amp.grad_scaler.backoff_factor=1", "amp.grad_scaler.backoff_factor: want more than 0 and less than 1, got 1"},
		{images, "amp.grad_scaler.growth_interval=0", "amp.grad_scaler.growth_interval: want at least 1, got 0"},
		{images, "amp.grad_scaler.max_consecutive_skips=0", "amp.grad_scaler.max_consecutive_skips: want at least 1, got 0"},
		{images, "optim.name=adma", "optim.name: want sgd | adam | adamw | adadelta | rmsprop | adagrad, got \"adma\"; did you mean adam?"},
		{images, "optim.lr=0", "optim.lr: want more than 0, got 0"},
		{images, "optim.weight_decay=-1", "optim.weight_decay: want at least 0, got -1"},
		{images, "optim.clip_grad_norm=-1", "optim.clip_grad_norm: want at least 0, got -1"},
		{images, "optim.accumulate=0", "optim.accumulate: want at least 1, got 0"},
		{images, "optim.beta1=1", "optim.beta1: want at least 0 and less than 1, got 1"},
		{images, "optim.amsgrad=true", ""},
		{images, "optim={name: rmsprop, amsgrad: true}", "optim.amsgrad: a key of adam, adamw, not of rmsprop, which has lr, momentum, alpha, centered, eps, weight_decay, schedule, clip_grad_norm, accumulate"},
		{images, "optim={name: sgd, nesterov: true}", "optim.nesterov: needs momentum above 0 and dampening 0"},
		{images, "optim={name: sgd, nesterov: true, momentum: 0.9}", ""},
		{images, "optim={name: adadelta, rho: 2}", "optim.rho: want 0 to 1, got 2"},
		{images, "optim={name: rmsprop, alpha: 2}", "optim.alpha: want 0 to 1, got 2"},
		{images, "optim={name: adagrad, lr_decay: -1}", "optim.lr_decay: want at least 0, got -1"},
		{images, "optim.schedule.name=steps", "optim.schedule.name: want constant | step | multistep | exponential | cosine | linear_warmup | one_cycle | plateau, got \"steps\"; did you mean step?"},
		{images, "optim.schedule.name=step", "optim.schedule.step_size: step needs it, at least 1"},
		{images, "optim.schedule={name: step, step_size: 1, per: batch}", "optim.schedule.per: want epoch | update, got \"batch\""},
		{images, "optim.schedule={name: multistep}", "optim.schedule.milestones: multistep needs them, such as [30, 80]"},
		{images, "optim.schedule={name: multistep, milestones: [3, 2]}", "optim.schedule.milestones: want them ascending from 1 on, got [3 2]"},
		{images, "optim.schedule={name: multistep, milestones: [0]}", "optim.schedule.milestones: want them ascending from 1 on, got [0]"},
		{images, "optim.schedule={name: exponential}", "optim.schedule.gamma: exponential needs it, more than 0"},
		{images, "optim.schedule={name: exponential, gamma: 0}", "optim.schedule.gamma: want more than 0, got 0"},
		{images, "optim.schedule={name: cosine, warmup: -1}", "optim.schedule.warmup: want at least 0, got -1"},
		{images, "optim.schedule={name: linear_warmup, warmup: 0}", "optim.schedule.warmup: want at least 1, got 0"},
		{images, "optim.schedule={name: linear_warmup, warmup_factor: 0}", "optim.schedule.warmup_factor: want more than 0 and at most 1, got 0"},
		{images, "optim.schedule={name: one_cycle}", "optim.schedule.max_lr: one_cycle needs it, more than 0"},
		{images, "optim.schedule={name: one_cycle, max_lr: 1, pct_start: 1}", "optim.schedule.pct_start: want more than 0 and less than 1, got 1"},
		{images, "optim.schedule={name: one_cycle, max_lr: 1, base_momentum: 0.96}", "optim.schedule.base_momentum: is 0.96, above max_momentum 0.95"},
		{images, "optim={name: adadelta, schedule: {name: one_cycle, max_lr: 1}}", "optim.schedule.cycle_momentum: adadelta has no momentum to cycle; set it to false"},
		{plateau, "epochs=1", ""},
		{plateau, "data.validation=0", "a.yaml:2:26: optim.schedule.name: needs data.validation above 0, for the test set is not looked at in training"},
		{plateau, "optim.schedule.factor=1", "optim.schedule.factor: want more than 0 and less than 1, got 1"},
		{plateau, "optim.schedule.monitor=test_loss", "optim.schedule.monitor: want val_loss | val_accuracy, got \"test_loss\""},
		{images, "checkpoint.best=true", "checkpoint.best: needs data.validation above 0, for the test set is not looked at in training"},
		{images, "checkpoint.keep=0", "checkpoint.keep: want at least 1, got 0"},
		{images, "checkpoint.every=-1", "checkpoint.every: want at least 0, got -1"},
		{images, "log.every=0", "log.every: want at least 1, got 0"},
		{images, "log.level=verbose", "log.level: want debug | info | warn | error, got \"verbose\""},
	} {
		got := problems(t, c.file, c.override)
		want := []string{}
		switch {
		case strings.HasPrefix(c.want, "a.yaml:"):
			want = append(want, c.want)
		case c.want != "":
			want = append(want, fmt.Sprintf("override %q: %s", c.override, c.want))
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.override, diff)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{tiny, ""},
		{
			"model: {layers: [flatten, linear: {units: 10}, softmax]}\n",
			"a.yaml:1:48: model.layers.2: the model ends in softmax and cross_entropy applies it again; leave it out",
		},
		{"model: {layers: [flatten, linear: {units: 10}, softmax]}\nloss: {name: mse}\n", ""},
		{
			"model: {layers: [flatten, linear: {units: 10}, sigmoid]}\nloss: {name: bce_with_logits}\n",
			"a.yaml:1:48: model.layers.2: the model ends in sigmoid and bce_with_logits applies it again; leave it out",
		},
		{
			tiny + "data: {normalize: {mean: 0, std: 0.003921569}}\n",
			"a.yaml:2:19: data.normalize: inputs run from 0 to 255, as pixels left at 0 to 255 do; mean and std are those of pixels in 0 to 1",
		},
		{
			tiny + "data: {normalize: {mean: 33.3, std: 78.6}}\n",
			"a.yaml:2:19: data.normalize: inputs run from -0.424 to -0.411 only; mean and std are those of pixels in 0 to 1",
		},
		{tiny + "data: {normalize: {mean: 0, std: 1}}\n", ""},
	} {
		r, err := resolve(source{file: "a.yaml"}, []byte(c.file), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, w := range r.Warnings {
			got += w.String()
		}
		if got != c.want {
			t.Errorf("%s\ngot  %q\nwant %q", c.file, got, c.want)
		}
	}
}

// Validate is for configs that were changed after loading: it knows no places, only keys.
func TestValidateInMemory(t *testing.T) {
	r, err := Load("cnn_amp", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := r.Config
	if err := c.Validate(); err != nil {
		t.Errorf("a loaded config: %v", err)
	}
	c.Data.BatchSize, c.AMP.DType = 0, "half"
	want := "data.batch_size: want at least 1, got 0\namp.dtype: want float16 | bfloat16, got \"half\""
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
