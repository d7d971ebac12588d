package configs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The nets of the four posts and of the design, as facts about the loaded config.
func TestEmbeddedFacts(t *testing.T) {
	get := func(name string) Config {
		r, err := Load(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := r.Config
		c.Name = ""
		return c
	}
	differ := func(a, b string, want ...Difference) {
		t.Helper()
		if diff := cmp.Diff(want, Diff(get(a), get(b))); diff != "" {
			t.Errorf("%s against %s: -want +got\n%s", a, b, diff)
		}
	}
	amp := Difference{"amp.enabled", "false", "true"}
	differ("cnn", "cnn_amp", amp)
	differ("cnn_amp", "cnn_bf16", Difference{"amp.dtype", "float16", "bfloat16"})
	differ("cnn_amp", "cnn_amp_1024", Difference{"data.batch_size", "512", "1024"})
	differ("mlp", "mlp_amp", amp)
	differ("posts/tensorcore", "posts/tensorcore_amp", amp)
	differ("posts/tensorcore_amp", "posts/tensorcore_amp_1024", Difference{"data.batch_size", "512", "1024"})
	differ("cnn", "posts/tensorcore", Difference{"epochs", "14", "20"}, Difference{"optim.lr", "1", "0.001"},
		Difference{"optim.schedule.gamma", "0.7", "0.8"})

	cnn := []string{"conv2d 32", "relu", "conv2d 64", "relu", "max_pool2d 2", "dropout 0.4", "flatten", "linear 128", "relu", "dropout 0.25", "linear 10"}
	for name, want := range map[string][]string{
		"cnn": cnn, "posts/tensorcore": cnn,
		"mlp":                  {"flatten", "linear 512", "relu", "dropout 0.2", "linear 512", "relu", "dropout 0.2", "linear 10"},
		"posts/sigmoid_mlp":    {"flatten", "linear 16", "sigmoid", "linear 16", "sigmoid", "linear 10", "softmax"},
		"posts/tutorial_mlp":   {"linear 4096", "relu", "linear 4096", "relu", "linear 4096"},
		"posts/three_matrices": {"linear 128", "relu", "linear 8", "relu", "linear 8"},
	} {
		var got []string
		for _, l := range get(name).Model.Layers {
			word := l.Kind
			for _, n := range []int{l.Filters, l.Size, l.Units} {
				if n > 0 {
					word += " " + formatFloat(float64(n), 64)
				}
			}
			if l.Rate > 0 {
				word += " " + formatFloat(float64(l.Rate), 32)
			}
			got = append(got, word)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}

	s := get("posts/sigmoid_mlp")
	normal := Init{Name: "normal", Std: 2}
	if s.Model.Layers[1].Init != normal || s.Model.Layers[5].BiasInit != normal || s.Loss != (Loss{Name: "mse", Reduction: "batch_mean"}) ||
		s.Data.BatchSize != 1 || s.Data.Shuffle || s.Data.Normalize != (Normalize{0, 1}) || s.Optim.Name != "sgd" || s.Optim.LR != 0.001 || s.Epochs != 100 {
		t.Errorf("posts/sigmoid_mlp: %+v", s)
	}
	m := get("posts/three_matrices")
	for i, trains := range map[int]bool{0: true, 2: true, 4: false} {
		if l := m.Model.Layers[i]; l.Bias || l.Trainable != trains || l.Init != (Init{Name: "normal", Std: 1}) {
			t.Errorf("posts/three_matrices: layer %d is %+v", i, l)
		}
	}
	if m.AMP.Enabled || m.AMP.GradScaler.MinScale != 0x1p-24 || m.Epochs != 10000 || m.Data.Random != (Random{64, 1024, 8}) ||
		m.Optim.LR != 1e-9 || m.Loss.Reduction != "sum" || m.Data.BatchSize != 64 {
		t.Errorf("posts/three_matrices: %+v", m)
	}
	u := get("posts/tutorial_mlp")
	if u.Data.Random != (Random{50 * 512, 4096, 4096}) || u.Data.BatchSize != 512 || u.Data.Shuffle || u.Epochs != 3 || u.Loss.Reduction != "mean" || u.Optim.LR != 0.001 {
		t.Errorf("posts/tutorial_mlp: %+v", u)
	}
}
