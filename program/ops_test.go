package program

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestOpsIsComplete compares Ops with the types in the source that have the methods Name and Check.
func TestOpsIsComplete(t *testing.T) {
	var listed []string
	for _, op := range Ops() {
		listed = append(listed, reflect.TypeOf(op).Name())
	}
	slices.Sort(listed)
	if d := slices.Compact(slices.Clone(listed)); len(d) != len(listed) {
		t.Errorf("an operation is listed twice: %v", listed)
	}
	if want := sourceOps(t); !slices.Equal(listed, want) {
		t.Errorf("Ops lists %v\nthe source has %v", listed, want)
	}
}

// sourceOps are the names of the types with both methods in this package's files, sorted.
func sourceOps(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string][]string{} // of a type
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			if r, ok := f.Recv.List[0].Type.(*ast.Ident); ok {
				methods[r.Name] = append(methods[r.Name], f.Name.Name)
			}
		}
	}
	var ops []string
	for name, m := range methods {
		if slices.Contains(m, "Name") && slices.Contains(m, "Check") {
			ops = append(ops, name)
		}
	}
	slices.Sort(ops)
	return ops
}
