package configs

import (
	"fmt"
	"sort"
	"strings"
)

// Error is a config that cannot be used, with everything that is wrong with it. A command that meets one ends with exit
// code 2.
type Error struct{ Problems []Problem }

// Error gives one problem a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Problem is one thing wrong, or doubtful, with a config.
type Problem struct {
	Position
	Key     string // dotted: data.batch_size, model.layers.0.conv2d.filters
	Message string
}

// String is "file:line:column: key: message", or `override "key=value": key: message`.
func (p Problem) String() string {
	var s strings.Builder
	switch {
	case p.Override != "":
		fmt.Fprintf(&s, "override %q: ", p.Override)
	case p.Line > 0:
		fmt.Fprintf(&s, "%s:%d:%d: ", p.File, p.Line, p.Column)
	case p.File != "":
		fmt.Fprintf(&s, "%s: ", p.File)
	}
	if p.Key != "" {
		s.WriteString(p.Key + ": ")
	}
	return s.String() + p.Message
}

// Position is where a key was written: a place in a file or an override. The zero Position is that of a default.
type Position struct {
	File         string
	Line, Column int    // from 1; 0: the file as a whole
	Override     string // the argument: "epochs=1"
}

// Source is "default", "file:line" or "override".
func (p Position) Source() string {
	switch {
	case p.Override != "":
		return "override"
	case p.Line > 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return "default"
	}
}

// newError sorts problems by place, overrides last, and is nil when there are none.
func newError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	sort.SliceStable(problems, func(i, j int) bool {
		a, b := problems[i].Position, problems[j].Position
		if (a.Override == "") != (b.Override == "") {
			return a.Override == ""
		}
		return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column
	})
	return &Error{problems}
}
