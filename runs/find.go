package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Find gives the folder of the run that a user means by arg: a path, the id of a run in base, its beginning or end (the
// short id) where only one run has it, or "latest".
func Find(base, arg string) (string, error) {
	for _, dir := range []string{arg, filepath.Join(base, arg)} {
		if arg != "" && isRun(dir) {
			return dir, nil
		}
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return "", fmt.Errorf("runs: run %q: %w", arg, err)
	}
	var found []string
	for _, e := range entries { // sorted by name, which starts with the time
		id := e.Name()
		if isRun(filepath.Join(base, id)) && (arg == "latest" || arg != "" && (strings.HasPrefix(id, arg) || strings.HasSuffix(id, arg))) {
			found = append(found, id)
		}
	}
	switch {
	case len(found) == 0:
		return "", fmt.Errorf("runs: run %q: none in %s", arg, base)
	case len(found) > 1 && arg != "latest":
		return "", fmt.Errorf("runs: run %q: could be any of %s", arg, strings.Join(found, ", "))
	}
	return filepath.Join(base, found[len(found)-1]), nil
}

func isRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, LogFile))
	return err == nil
}
