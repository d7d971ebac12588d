package configs

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// variant is one kind of a section whose keys depend on a name in it: an optimizer, a schedule, a layer. Keys that no
// variant of the section lists belong to all of them.
type variant struct {
	name string
	keys []string
}

func kind(name string, keys ...string) variant { return variant{name, keys} }

// variants gives the kinds of a section, or none where all its keys always count.
func variants(section reflect.Type) []variant {
	switch section {
	case reflect.TypeFor[Data]():
		return dataSets()
	case reflect.TypeFor[Layer]():
		return layerKinds()
	case reflect.TypeFor[Init]():
		return inits()
	case reflect.TypeFor[Loss]():
		return losses()
	case reflect.TypeFor[Optim]():
		return optimizers()
	case reflect.TypeFor[Schedule]():
		return schedules()
	}
	return nil
}

func dataSets() []variant {
	images := []string{"dir", "normalize", "transpose", "augment"}
	return []variant{
		{"mnist", images},
		{"fashion_mnist", images},
		{"kmnist", images},
		{"emnist", append(images, "split")},
		{"idx", append(images, "split")},
		kind("random", "random"),
	}
}

func layerKinds() []variant {
	return []variant{
		kind("conv2d", "filters", "kernel", "stride", "padding", "bias", "trainable", "init", "bias_init"),
		kind("linear", "units", "bias", "trainable", "init", "bias_init"),
		kind("relu"), kind("sigmoid"), kind("tanh"), kind("gelu", "approximate"), kind("softmax"),
		kind("max_pool2d", "size", "stride"), kind("avg_pool2d", "size", "stride"),
		kind("batch_norm", "eps", "momentum", "trainable"),
		kind("dropout", "rate"), kind("flatten"), kind("residual", "layers"),
	}
}

func inits() []variant {
	return []variant{
		kind("default"), kind("normal", "mean", "std"), kind("uniform", "low", "high"), kind("kaiming_normal"),
		kind("kaiming_uniform"), kind("xavier_normal"), kind("xavier_uniform"), kind("zeros"),
	}
}

func losses() []variant {
	return []variant{
		kind("cross_entropy", "label_smoothing"), kind("mse", "reduction"), kind("bce_with_logits", "reduction"),
	}
}

func optimizers() []variant {
	return []variant{
		kind("sgd", "momentum", "dampening", "nesterov"),
		kind("adam", "beta1", "beta2", "amsgrad", "eps"), kind("adamw", "beta1", "beta2", "amsgrad", "eps"),
		kind("adadelta", "rho", "eps"), kind("rmsprop", "momentum", "alpha", "centered", "eps"),
		kind("adagrad", "lr_decay", "eps"),
	}
}

func schedules() []variant {
	return []variant{
		kind("constant"),
		kind("step", "per", "step_size", "gamma"), kind("multistep", "per", "gamma", "milestones"),
		kind("exponential", "per", "gamma"),
		kind("cosine", "per", "eta_min", "warmup", "warmup_factor"), kind("linear_warmup", "per", "warmup", "warmup_factor"),
		kind("one_cycle", "per", "max_lr", "pct_start", "anneal", "div_factor", "final_div_factor", "cycle_momentum",
			"base_momentum", "max_momentum"),
		kind("plateau", "monitor", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr"),
	}
}

func names(vs []variant) []string {
	var out []string
	for _, v := range vs {
		out = append(out, v.name)
	}
	return out
}

// owners names the variants of a section that have a key; none: every variant has it.
func owners(section reflect.Type, key string) []string {
	var out []string
	for _, v := range variants(section) {
		if slices.Contains(v.keys, key) {
			out = append(out, v.name)
		}
	}
	return out
}

// keysOf lists a section's keys in the order of its fields: those of one variant, or all where name is no variant.
func keysOf(section reflect.Type, name string) []string {
	known := slices.Contains(names(variants(section)), name)
	var out []string
	for i := range section.NumField() {
		key := section.Field(i).Tag.Get("yaml")
		if key == "" {
			continue
		}
		if own := owners(section, key); !known || len(own) == 0 || slices.Contains(own, name) {
			out = append(out, key)
		}
	}
	return out
}

// field finds the field of a key in a section.
func field(section reflect.Value, key string) (reflect.Value, bool) {
	for i := range section.NumField() {
		if tag := section.Type().Field(i).Tag.Get("yaml"); tag != "" && tag == key {
			return section.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// variantOf is the name that decides which keys of a section count: a layer's kind, else the field "name". A section
// without variants has none.
func variantOf(section reflect.Value) string {
	if variants(section.Type()) == nil {
		return ""
	}
	if layer, ok := section.Interface().(Layer); ok {
		return layer.Kind
	}
	name, _ := field(section, "name")
	return name.String()
}

// CheckKey refuses what is no dotted key, or section, of any config. A layer's number may be any.
func CheckKey(key string) error {
	if isKey(reflect.TypeFor[Config](), "", strings.Split(key, ".")) {
		return nil
	}
	message := fmt.Sprintf("%q is no key", key)
	if near := nearest(key, sectionKeys(reflect.TypeFor[Config](), "")); near != "" {
		message += "; did you mean " + near + "?"
	}
	return errors.New(message)
}

// isKey reports whether words lead from a section, or a layer of a kind, to one of its keys.
func isKey(section reflect.Type, kind string, words []string) bool {
	switch {
	case len(words) == 0:
		return true
	case section == reflect.TypeFor[[]Layer]():
		if _, err := strconv.ParseUint(words[0], 10, 31); err != nil {
			return false
		}
		return len(words) == 1 || slices.Contains(names(layerKinds()), words[1]) && isKey(reflect.TypeFor[Layer](), words[1], words[2:])
	case section.Kind() != reflect.Struct || !slices.Contains(keysOf(section, kind), words[0]):
		return false
	}
	next, _ := field(reflect.Zero(section), words[0])
	return isKey(next.Type(), "", words[1:])
}

// sectionKeys lists the dotted keys of the whole file, layers aside: "data", "data.name", ...
func sectionKeys(section reflect.Type, prefix string) []string {
	var out []string
	for i := range section.NumField() {
		f := section.Field(i)
		key := join(prefix, f.Tag.Get("yaml"))
		out = append(out, key)
		if f.Type.Kind() == reflect.Struct {
			out = append(out, sectionKeys(f.Type, key)...)
		}
	}
	return out
}

func join(prefix, key string) string { return strings.TrimPrefix(prefix+"."+key, ".") }
