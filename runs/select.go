package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Select reads the runs that a user means by args, each once and in their order: whatever Find takes, or a folder of which
// every run is meant. Without args it is base.
func Select(base string, args []string) ([]*Record, error) {
	if len(args) == 0 {
		args = []string{base}
	}
	var all []*Record
	have := map[string]bool{}
	for _, arg := range args {
		list, err := selectOne(base, arg)
		if err != nil {
			return nil, err
		}
		all = append(all, slices.DeleteFunc(list, func(r *Record) bool {
			path, err := filepath.Abs(r.Dir)
			seen := err == nil && have[path]
			have[path] = true
			return seen
		})...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("runs: no runs in %s", strings.Join(args, ", "))
	}
	return all, nil
}

func selectOne(base, arg string) ([]*Record, error) {
	dir, err := Find(base, arg)
	if err == nil {
		r, err := Open(dir)
		return []*Record{r}, err
	}
	if info, statErr := os.Stat(arg); statErr != nil || !info.IsDir() {
		return nil, err
	}
	return OpenAll(arg)
}
