package runs

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// readConfig reads a YAML file as dotted keys: optim.schedule.gamma, model.layers.0.conv2d.filters. Lists of plain values
// are one value, [1, 2].
func readConfig(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	flat := map[string]string{}
	flatten(flat, "", &doc)
	return flat, nil
}

func flatten(flat map[string]string, key string, n *yaml.Node) {
	join := func(name string) string { return strings.TrimPrefix(key+"."+name, ".") }
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			flatten(flat, key, c)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			flatten(flat, join(n.Content[i].Value), n.Content[i+1])
		}
	case yaml.SequenceNode:
		if list, ok := scalarList(n); ok {
			flat[key] = list
			return
		}
		for i, c := range n.Content {
			flatten(flat, join(fmt.Sprint(i)), c)
		}
	case yaml.ScalarNode:
		flat[key] = canonical(n.Value)
	}
}

func scalarList(n *yaml.Node) (string, bool) {
	var values []string
	for _, c := range n.Content {
		if c.Kind != yaml.ScalarNode {
			return "", false
		}
		values = append(values, canonical(c.Value))
	}
	return "[" + strings.Join(values, ", ") + "]", true
}

// canonical writes equal numbers alike: 1e-3 and 0.001.
func canonical(s string) string {
	if v, err := strconv.ParseFloat(s, 64); err == nil && strings.ContainsAny(s, ".eE") {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return s
}
