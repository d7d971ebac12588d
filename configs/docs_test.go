package configs

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// row is a line of a table in docs/CONFIG.md.
type row struct{ key, def, of string }

func documented(t *testing.T) map[string]row {
	text, err := os.ReadFile("../docs/CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]row{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), "|")[1:]
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		r := row{key: strings.Trim(cells[0], "`"), def: cells[2]}
		if len(cells) == 5 {
			r.of = cells[3]
		}
		if meaning := cells[len(cells)-1]; len(meaning) < 5 {
			t.Errorf("%s has no meaning", r.key)
		}
		if _, twice := rows[r.key]; twice {
			t.Errorf("%s is documented twice", r.key)
		}
		rows[r.key] = r
	}
	return rows
}

var part = regexp.MustCompile("(required|the size|the file's name|`([^`]*)`)(?: \\(([^)]*)\\))?")

// defaultOf reads the cell of defaults: "`1`", "required", "`1` (a, b), required (c)".
func (r row) defaultOf(kind string) string {
	for _, m := range part.FindAllStringSubmatch(r.def, -1) {
		if m[3] == "" || slices.Contains(strings.Split(m[3], ", "), kind) {
			return strings.Trim(m[1], "`")
		}
	}
	return "none given"
}

// Every key of every struct is in docs/CONFIG.md with its real default and the kinds that it belongs to, and nothing else is.
func TestDocumentation(t *testing.T) {
	rows := documented(t)
	checked := map[string]bool{}
	var section func(prefix string, s reflect.Value, kind, of string)
	section = func(prefix string, s reflect.Value, kind, of string) {
		for _, key := range keysOf(s.Type(), kind) {
			full := join(prefix, key)
			f, _ := field(s, key)
			_, init := f.Interface().(Init)
			kinds := names(variants(f.Type()))
			keyOf := of // a section without kinds of its own has those of the section around it
			if variants(s.Type()) != nil {
				keyOf = strings.Join(owners(s.Type(), key), ", ")
			}
			switch {
			case f.Kind() == reflect.Struct && !init:
				for _, k := range kinds {
					setDefaults(f, k)
					section(full, f, k, "")
				}
				if kinds == nil {
					section(full, f, kind, keyOf)
				}
				continue
			case f.Type() == reflect.TypeFor[[]Layer]() && prefix != "residual" && prefix != "model":
				continue
			}
			r, ok := rows[full]
			if !ok {
				t.Errorf("%s is not documented", full)
				continue
			}
			checked[full] = true
			if s.Type() != reflect.TypeFor[Layer]() && r.of != keyOf { // a layer's kind is part of its keys
				t.Errorf("%s is documented for %q, belongs to %q", full, r.of, keyOf)
			}
			// The variant's own name is not a default: that of the section is checked once, below.
			if got := r.defaultOf(kind); key != "name" && !sameDefault(got, f) {
				t.Errorf("%s of %q: documented default %q, real one %v", full, kind, got, f)
			}
		}
	}
	c := Default()
	section("", reflect.ValueOf(&c).Elem(), "", "")
	for _, kind := range names(layerKinds()) {
		l := defaultLayer(kind)
		section(kind, reflect.ValueOf(&l).Elem(), kind, "")
	}
	for _, kind := range names(inits()) {
		i := defaultInit(kind)
		section("init", reflect.ValueOf(&i).Elem(), kind, "")
	}
	c = Default()
	for key, want := range map[string]string{
		"name": "the file's name", "data.name": c.Data.Name, "loss.name": c.Loss.Name, "optim.name": c.Optim.Name,
		"optim.schedule.name": c.Optim.Schedule.Name, "init.name": defaultLayer("linear").Init.Name,
	} {
		if got := rows[key].defaultOf(""); got != want {
			t.Errorf("%s: documented default %q, real one %q", key, got, want)
		}
	}
	for key := range rows {
		if !checked[key] {
			t.Errorf("%s is documented but does not exist", key)
		}
	}
}

// sameDefault compares numbers as numbers. What is required, or follows from other keys, is zero until it is set.
func sameDefault(text string, f reflect.Value) bool {
	if text == "required" || text == "the size" || text == "the file's name" {
		return f.IsZero()
	}
	if init, ok := f.Interface().(Init); ok {
		return init == defaultInit(text)
	}
	n := encode(f)
	if n.Kind != yaml.ScalarNode {
		return false
	}
	a, errA := strconv.ParseFloat(text, 64)
	b, errB := strconv.ParseFloat(n.Value, 64)
	return text == n.Value || text == `""` && n.Value == "" || errA == nil && errB == nil && a == b
}

// What docs/CONFIG.md calls required is what an otherwise empty section is refused for.
func TestRequiredKeys(t *testing.T) {
	texts := map[string]string{"model": "seed: 1", "data.random": tiny + "data: {name: random}\nloss: {name: mse}"}
	for _, kind := range names(layerKinds()) {
		texts[kind] = "model: {layers: [" + kind + "]}"
	}
	for _, kind := range names(schedules()) {
		texts["optim.schedule "+kind] = tiny + "data: {validation: 1}\noptim: {schedule: {name: " + kind + "}}"
	}
	want := map[string]bool{}
	for _, r := range documented(t) {
		for _, kind := range append(names(schedules()), "") {
			if r.defaultOf(kind) == "required" && (r.of == "" || kind == "" || slices.Contains(strings.Split(r.of, ", "), kind)) {
				want[r.key] = true
			}
		}
	}
	got := map[string]bool{}
	for section, text := range texts {
		_, err := resolve(source{file: "a.yaml"}, []byte(text), nil)
		var e *Error
		if !errors.As(err, &e) {
			continue
		}
		for _, p := range e.Problems {
			if !strings.Contains(p.Message, "needs") {
				t.Errorf("%s: %s", section, p)
			}
			got[strings.TrimPrefix(p.Key, "model.layers.0.")] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-documented +real\n%s", diff)
	}
}

// The examples of docs/CONFIG.md work.
func TestDocumentedExamples(t *testing.T) {
	for _, overrides := range [][]string{
		{"epochs=1", "data.batch_size=256", "model.layers.0.conv2d.filters=64"},
		{"model.layers.1=gelu", "model.layers.3={gelu: {approximate: tanh}}"},
		{"optim={name: sgd, lr: 0.1, momentum: 0.9}"},
		{"optim.schedule={name: cosine, per: update, warmup: 500}"},
	} {
		if _, err := Load("cnn_amp", overrides); err != nil {
			t.Error(err)
		}
	}
}
