package configs

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Any text and override end in a config or an *Error, never in a panic, and a config that was taken survives being written
// out.
func FuzzLoad(f *testing.F) {
	for _, name := range Names() {
		text, err := embedded.ReadFile(name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "epochs=1")
	}
	for _, override := range []string{
		"", "=", "a", "a.b.c=1", "model.layers.0=relu", "model.layers.0.linear.units=3", "model={layers: [{residual: {layers: [relu]}}]}",
		"optim={name: [}", "data.dir=~", "seed=&a [*a]", "name=\"\\x00\"", "device=cuda:99", "model.layers.1.linear.init={name: normal, std: 1e-45}",
	} {
		f.Add([]byte(tiny), override)
	}
	f.Add([]byte("a: &x [*x]\n? [b]\n: c\n<<: *x\n"), "a.0=1")
	f.Fuzz(func(t *testing.T, text []byte, override string) {
		r, err := resolve(source{file: "a.yaml"}, text, []string{override})
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || len(e.Problems) == 0 || err.Error() == "" {
				t.Fatalf("error %T: %v", err, err)
			}
			return
		}
		again, err := reload(r.Config)
		if err != nil {
			t.Fatalf("written out: %v", err)
		}
		if diff := cmp.Diff(r.Config, again); diff != "" {
			t.Fatalf("written out and loaded: -want +got\n%s", diff)
		}
	})
}
