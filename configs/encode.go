package configs

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Value is one key of a config with its value as YAML writes it.
type Value struct{ Key, Text, Source string }

// YAML writes the config out in full, defaults too. Loading the text gives the same Config.
func (c Config) YAML() ([]byte, error) {
	text, err := yaml.Dump(encode(reflect.ValueOf(c)), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("configs: write %s: %w", c.Name, err)
	}
	return text, nil
}

// Difference is a key whose values differ in two configs; the text of a key that one of them lacks is "".
type Difference struct{ Key, A, B string }

// Diff lists the keys whose values differ, first those of a in its order, then those that only b has.
func Diff(a, b Config) []Difference {
	var out []Difference
	other := map[string]string{}
	for _, v := range b.values() {
		other[v.Key] = v.Text
	}
	for _, v := range a.values() {
		if text := other[v.Key]; text != v.Text {
			out = append(out, Difference{v.Key, v.Text, text})
		}
		delete(other, v.Key)
	}
	for _, v := range b.values() {
		if text, only := other[v.Key]; only {
			out = append(out, Difference{v.Key, "", text})
		}
	}
	return out
}

// values lists the config's keys in order. A layer without fields is the value of its number, other layers are part of the
// key: model.layers.0.conv2d.filters.
func (c Config) values() []Value {
	var out []Value
	flatten("", encode(reflect.ValueOf(c)), &out)
	return out
}

func flatten(key string, n *yaml.Node, out *[]Value) {
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) > 0:
		for i := 0; i < len(n.Content); i += 2 {
			flatten(join(key, n.Content[i].Value), n.Content[i+1], out)
		}
	case n.Kind == yaml.SequenceNode && n.Style&yaml.FlowStyle == 0:
		for i, item := range n.Content {
			flatten(join(key, strconv.Itoa(i)), item, out)
		}
	case n.Kind == yaml.SequenceNode:
		items := make([]string, len(n.Content))
		for i, item := range n.Content {
			items[i] = item.Value
		}
		*out = append(*out, Value{Key: key, Text: "[" + strings.Join(items, ", ") + "]"})
	case n.Value == "":
		*out = append(*out, Value{Key: key, Text: `""`})
	default:
		*out = append(*out, Value{Key: key, Text: n.Value})
	}
}

// encode is decode's inverse: the keys that count, in the order of the fields.
func encode(v reflect.Value) *yaml.Node {
	switch v.Kind() {
	case reflect.Struct:
		if layer, ok := v.Interface().(Layer); ok {
			return encodeLayer(layer)
		}
		return encodeFields(v, variantOf(v))
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if v.Type().Elem().Kind() != reflect.Struct {
			n.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			n.Content = append(n.Content, encode(v.Index(i)))
		}
		return n
	case reflect.String:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v.String()}
	case reflect.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v.Bool())}
	case reflect.Float32, reflect.Float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: formatFloat(v.Float(), v.Type().Bits())}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(v.Interface())}
	}
}

func encodeFields(v reflect.Value, variant string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, key := range keysOf(v.Type(), variant) {
		f, _ := field(v, key)
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, encode(f))
	}
	return n
}

// encodeLayer writes `relu`, or `conv2d: {filters: 32, ...}` in one line; only a residual's layers take several.
func encodeLayer(layer Layer) *yaml.Node {
	word := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: layer.Kind}
	fields := encodeFields(reflect.ValueOf(layer), layer.Kind)
	if len(fields.Content) == 0 {
		return word
	}
	if layer.Kind != "residual" {
		fields.Style = yaml.FlowStyle
	}
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{word, fields}}
}

// formatFloat writes the shortest text that reads back as the same number, with a point where there is an exponent, for
// YAML 1.1 takes 1e-6 for text.
func formatFloat(x float64, bits int) string {
	if a := max(x, -x); a == 0 || a >= 1e-4 && a < 1e9 {
		return strconv.FormatFloat(x, 'f', -1, bits)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, bits), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	return mantissa + "e" + exponent
}
