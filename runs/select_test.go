package runs

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	base := t.TempDir()
	a, b := sampleRun(t, base, Options{}), sampleRun(t, base, Options{})
	short := a.ID[strings.LastIndexByte(a.ID, '-')+1:]
	for _, c := range []struct {
		args []string
		want int
	}{
		{nil, 2},
		{[]string{base}, 2},
		{[]string{a.Dir}, 1},
		{[]string{short}, 1},
		{[]string{b.ID, a.ID}, 2},
		{[]string{short, a.Dir, base}, 2},
		{[]string{"latest"}, 1},
	} {
		list, err := Select(base, c.args)
		if err != nil || len(list) != c.want {
			t.Errorf("%q: %d runs, %v; want %d", c.args, len(list), err, c.want)
		}
		if len(c.args) > 0 && c.args[0] == b.ID && list[0].ID != b.ID {
			t.Errorf("%q: %s comes first", c.args, list[0].ID)
		}
	}
	for _, arg := range []string{filepath.Join(base, "none"), t.TempDir(), a.Dir + "/" + LogFile} {
		if _, err := Select(base, []string{arg}); err == nil {
			t.Errorf("%s: no error", arg)
		}
	}
}
