package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// tree is a file's YAML nodes with the overrides put in, each node knowing where it came from.
type tree struct {
	file      string
	root      *yaml.Node
	overrides map[*yaml.Node]string // nodes that an override made, and its argument
}

// parse reads the one document of a file. An empty file is an empty mapping.
func parse(file string, text []byte) (*tree, *Problem) {
	root, problem := parseDocument(text)
	if problem != nil {
		problem.File = file
		return nil, problem
	}
	if root == nil || isNull(root) {
		root = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	return &tree{file, root, map[*yaml.Node]string{}}, nil
}

// parseDocument gives the root of the only document in text, nil when there is none.
func parseDocument(text []byte) (*yaml.Node, *Problem) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, syntax(err)
	}
	var first, second yaml.Node
	if err := loader.Load(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntax(err)
	}
	if err := loader.Load(&second); err == nil {
		return nil, &Problem{
			Position: Position{Line: second.Line, Column: second.Column},
			Message:  "a second YAML document starts here; want one",
		}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntax(err)
	}
	if len(first.Content) != 1 {
		return nil, nil
	}
	return first.Content[0], nil
}

// syntax turns the YAML reader's error into a Problem.
func syntax(err error) *Problem {
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		return &Problem{Message: "not YAML: " + err.Error()}
	}
	message := "not YAML: " + le.Message
	if le.ContextMsg != "" {
		message += " " + le.ContextMsg
		if at := le.ContextMark; at.Line > 0 && at != le.Mark {
			message += fmt.Sprintf(" begun at %d:%d", at.Line, at.Column)
		}
	}
	return &Problem{Position: Position{Line: le.Mark.Line, Column: le.Mark.Column}, Message: message}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func (t *tree) position(n *yaml.Node) Position {
	if arg, ok := t.overrides[n]; ok {
		return Position{Override: arg}
	}
	return Position{File: t.file, Line: n.Line, Column: n.Column}
}

// own marks a node and all below it as an override's.
func (t *tree) own(n *yaml.Node, arg string) *yaml.Node {
	t.overrides[n] = arg
	for _, c := range n.Content {
		t.own(c, arg)
	}
	return n
}

// override puts the value of one "key.sub=value" argument in its place. Sections that the file lacks are made; of a list,
// only items that exist can be set.
func (t *tree) override(arg string) *Problem {
	fail := func(key, format string, args ...any) *Problem {
		return &Problem{Position{Override: arg}, key, fmt.Sprintf(format, args...)}
	}
	key, text, ok := strings.Cut(arg, "=")
	words := strings.Split(key, ".")
	if !ok {
		return fail("", "want key=value, such as data.batch_size=256")
	}
	for _, w := range words {
		if w == "" || strings.TrimSpace(w) != w {
			return fail("", "want a dotted key before the =, such as data.batch_size")
		}
	}
	value, problem := parseDocument([]byte(text))
	if problem != nil {
		return fail(key, "%s", problem.Message)
	}
	if value == nil { // `data.dir=` is the empty text
		value = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle}
	}
	t.own(value, arg)

	place, item := &t.root, false
	for i, w := range words {
		list := (*place).Kind == yaml.SequenceNode
		next, err := t.step(place, w, arg, item)
		if err != nil {
			return fail(strings.Join(words[:i], "."), "%v", err)
		}
		place, item = next, list
	}
	*place = value
	return nil
}

// step goes from a node to the place of one of its children, which it makes where that is possible. An item of a list is
// a layer, whose one key is its kind and stays.
func (t *tree) step(place **yaml.Node, word, arg string, item bool) (**yaml.Node, error) {
	n := *place
	if n.Kind == 0 || isNull(n) {
		n = t.own(&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, arg)
		*place = n
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == word {
				return &n.Content[i+1], nil
			}
		}
		if item && len(n.Content) > 0 {
			return nil, fmt.Errorf("is %s, not %s; to change the kind, give the whole layer as value", n.Content[0].Value, word)
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: word}
		n.Content = append(n.Content, t.own(key, arg), t.own(&yaml.Node{}, arg))
		return &n.Content[len(n.Content)-1], nil
	case yaml.SequenceNode:
		i, err := strconv.Atoi(word)
		if err != nil || i < 0 || i >= len(n.Content) {
			return nil, fmt.Errorf("there is no item %s; there are %d, counted from 0", word, len(n.Content))
		}
		return &n.Content[i], nil
	case yaml.AliasNode:
		return nil, fmt.Errorf("aliases such as *%s are not supported; write the value out", n.Value)
	}
	if item && n.Value == word { // the layer `- batch_norm` becomes `- batch_norm: {...}`
		m := t.own(&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, arg)
		m.Content = []*yaml.Node{n, t.own(&yaml.Node{}, arg)}
		*place = m
		return &m.Content[1], nil
	}
	if item {
		return nil, fmt.Errorf("is %s, not %s; to change the kind, give the whole layer as value", n.Value, word)
	}
	return nil, fmt.Errorf("is %s, a single value without %s", n.Value, word)
}

// lookup finds the value of a key in a mapping.
func lookup(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
