package runs

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What tells runs apart is shown, and what only follows from it is not.
func TestTellingKeys(t *testing.T) {
	mlp := map[string]string{
		"optim.name": "adam", "optim.lr": "0.001", "optim.beta1": "0.9", "model.layers.0": "flatten", "model.layers.1.linear.units": "10",
	}
	cnn := map[string]string{
		"optim.name": "adadelta", "optim.lr": "1", "optim.rho": "0.9", "model.layers.0.conv2d.filters": "32", "model.layers.1": "flatten",
		"model.layers.2.linear.units": "10",
	}
	with := func(s map[string]string, key, value string) map[string]string {
		c := map[string]string{key: value}
		for k, v := range s {
			if k != key {
				c[k] = v
			}
		}
		return c
	}
	for _, c := range []struct {
		what string
		all  []map[string]string
		want []string
	}{
		{"one value", []map[string]string{mlp, with(mlp, "optim.lr", "0.01")}, []string{"optim.lr"}},
		{"one layer", []map[string]string{mlp, with(mlp, "model.layers.1.linear.units", "11")}, []string{"model.layers.1.linear.units"}},
		{"two models", []map[string]string{mlp, cnn}, []string{"model.layers", "optim.lr", "optim.name"}},
		{"two models, one with two rho", []map[string]string{mlp, cnn, with(cnn, "optim.rho", "0.8")}, []string{"model.layers", "optim.lr", "optim.name", "optim.rho"}},
		{"short forms alike", []map[string]string{mlp, with(mlp, "model.layers.2", "relu")}, []string{"model.layers.2"}},
		{"a key that one lacks", []map[string]string{mlp, with(mlp, "environment.gpu", "x")}, []string{"environment.gpu"}},
		{"the same", []map[string]string{mlp}, nil},
	} {
		all := make([]map[string]string, len(c.all))
		for i, s := range c.all {
			all[i] = maps.Clone(s)
		}
		got := tellingKeys(all)
		if len(got) == 0 {
			got = nil
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
	}
	if got := shortLayers(cnn); got != "conv2d 32, linear 10" {
		t.Errorf("layers %q", got)
	}
}
