package configs

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// decoder reads a tree of YAML nodes into a Config. It goes on after a problem, so that all are found.
type decoder struct {
	tree     *tree
	at       map[string]Position // where each dotted key was written
	meant    []string            // keys that misspelt ones stand for
	problems []Problem
}

func newDecoder(t *tree) *decoder { return &decoder{tree: t, at: map[string]Position{}} }

func (d *decoder) problem(key string, n *yaml.Node, format string, args ...any) {
	d.problems = append(d.problems, Problem{d.tree.position(n), key, fmt.Sprintf(format, args...)})
}

// value reads one node by the type of dst.
func (d *decoder) value(key string, n *yaml.Node, dst reflect.Value) {
	d.at[key] = d.tree.position(n)
	kind := dst.Kind()
	if kind == reflect.Struct && n.Kind == yaml.MappingNode {
		d.section(key, n, dst, nil)
		return
	}
	if kind == reflect.Slice && n.Kind == yaml.SequenceNode {
		dst.Set(reflect.MakeSlice(dst.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			if layer, ok := dst.Index(i).Addr().Interface().(*Layer); ok {
				*layer = d.layer(join(key, strconv.Itoa(i)), item)
			} else if err := d.scalar(item, dst.Index(i)); err != nil {
				d.problem(key, item, "%v", err)
			}
		}
		return
	}
	if err := d.scalar(n, dst); err != nil {
		d.problem(key, n, "%v", err)
	}
}

// scalar refuses everything but a scalar that fits dst.
func (d *decoder) scalar(n *yaml.Node, dst reflect.Value) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return fmt.Errorf("aliases such as *%s are not supported; write the value out", n.Value)
	case n.Kind == yaml.MappingNode:
		return fmt.Errorf("want %s, got keys with values", wanted(dst))
	case n.Kind == yaml.SequenceNode:
		return fmt.Errorf("want %s, got a list", wanted(dst))
	case dst.Kind() == reflect.Struct || dst.Kind() == reflect.Slice:
		if n.Value == "" {
			return fmt.Errorf("no value; want %s", wanted(dst))
		}
		return fmt.Errorf("want %s, got %s", wanted(dst), n.Value)
	}
	return setScalar(n, dst)
}

// section reads a mapping into a struct. layer is the layer's kind, nil for other sections, whose variant is the value
// of their key "name".
func (d *decoder) section(key string, n *yaml.Node, dst reflect.Value, layer *string) {
	name := ""
	if layer != nil {
		name = *layer
	} else if variants(dst.Type()) != nil {
		name = d.name(n, dst)
	}
	setDefaults(dst, name)
	valid := keysOf(dst.Type(), name)
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		full := join(key, k.Value)
		f, exists := field(dst, k.Value)
		switch {
		case k.Kind != yaml.ScalarNode:
			d.problem(key, k, "a key must be a word")
		case k.Value == "<<":
			d.problem(key, k, "merge keys (<<) are not supported; write the values out")
		case seen[k.Value]:
			d.problem(full, k, "key given twice")
		case !exists:
			d.problem(full, k, "unknown key; %s", d.suggest(key, k.Value, valid))
		case !slices.Contains(valid, k.Value):
			d.problem(full, k, "%s", d.misplaced(n, dst.Type(), k, name))
		default:
			d.value(full, v, f)
		}
		seen[k.Value] = true
	}
}

// name finds the value of the key "name" before the other keys are read; without one the section keeps the name that it
// has by default.
func (d *decoder) name(n *yaml.Node, dst reflect.Value) string {
	name := variantOf(dst)
	if v := lookup(n, "name"); v != nil && v.Kind == yaml.ScalarNode {
		name = v.Value
	}
	return name
}

// suggest names the key that was meant: one of this section, or the same word in another.
func (d *decoder) suggest(section, word string, valid []string) string {
	if near := nearest(word, valid); near != "" {
		d.meant = append(d.meant, join(section, near))
		return fmt.Sprintf("did you mean %s?", near)
	}
	for _, key := range sectionKeys(reflect.TypeFor[Config](), "") {
		if strings.HasSuffix(key, "."+word) || key == word {
			return fmt.Sprintf("did you mean %s?", key)
		}
	}
	return "want one of " + strings.Join(valid, ", ")
}

// misplaced explains a key that exists, but not with the section's name.
func (d *decoder) misplaced(n *yaml.Node, section reflect.Type, k *yaml.Node, name string) string {
	message := fmt.Sprintf("a key of %s, not of %s", strings.Join(owners(section, k.Value), ", "), name)
	if keys := without(keysOf(section, name), "name"); len(keys) > 0 {
		message += ", which has " + strings.Join(keys, ", ")
	}
	if v := lookup(n, "name"); v != nil && d.tree.position(v).Override != "" && d.tree.position(k).Override == "" {
		message += fmt.Sprintf("; an override with {name: %s, ...} replaces the whole section", name)
	}
	return message
}

// layer reads one entry of a list of layers: a word, or a word with fields.
func (d *decoder) layer(key string, n *yaml.Node) Layer {
	d.at[key] = d.tree.position(n)
	switch {
	case n.Kind == yaml.ScalarNode && n.Style&yaml.TaggedStyle == 0:
		return d.fields(key, n, &yaml.Node{Kind: yaml.MappingNode})
	case n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Kind == yaml.ScalarNode:
		return d.fields(key, n.Content[0], n.Content[1])
	case n.Kind == yaml.MappingNode && len(n.Content) > 2:
		d.problem(key, n, "want one layer, got the keys %s; a layer's fields are indented below its name, or written %s",
			strings.Join(mapKeys(n), ", "), "conv2d: {filters: 32, kernel: 3}")
	default:
		d.problem(key, n, "want a layer such as relu or linear: {units: 10}")
	}
	return Layer{}
}

// fields reads the fields of a layer of the kind that word names.
func (d *decoder) fields(key string, word, n *yaml.Node) Layer {
	kind := word.Value
	if kinds := names(layerKinds()); !slices.Contains(kinds, kind) {
		d.problem(key, word, "unknown layer %q; %s", kind, didYouMean(kind, kinds))
		return Layer{}
	}
	layer := Layer{Kind: kind}
	full := join(key, kind)
	d.at[full] = d.tree.position(word)
	dst := reflect.ValueOf(&layer).Elem()
	switch {
	case n.Kind == yaml.MappingNode:
		d.section(full, n, dst, &kind)
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null": // `- flatten:`
		setDefaults(dst, kind)
	default:
		setDefaults(dst, kind)
		d.problem(full, n, "%v", d.scalar(n, dst))
	}
	if layer.Stride == 0 && d.at[join(full, "stride")] == (Position{}) {
		layer.Stride = layer.Size // pools step by their size
	}
	return layer
}

func mapKeys(n *yaml.Node) []string {
	var out []string
	for i := 0; i < len(n.Content); i += 2 {
		out = append(out, n.Content[i].Value)
	}
	return out
}

func without(list []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == word })
}
