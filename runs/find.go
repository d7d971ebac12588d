package runs

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"halfstep/runs/tfevents"
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
		return "", cmp.Or(notARun(arg), fmt.Errorf("runs: run %q: %w", arg, err))
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
		err := notARun(arg)
		if err == nil && arg != "" {
			err = notARun(filepath.Join(base, arg))
		}
		return "", cmp.Or(err, fmt.Errorf("runs: run %q: none in %s", arg, base))
	case len(found) > 1 && arg != "latest":
		return "", fmt.Errorf("runs: run %q: could be any of %s", arg, strings.Join(found, ", "))
	}
	return filepath.Join(base, found[len(found)-1]), nil
}

// notARun tells of a folder that is there, but is not of a run.
func notARun(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil
	}
	return fmt.Errorf("runs: %s is not a run folder: it has no %s", dir, LogFile)
}

// Owns reports whether a path is one that a run writes: its names in a run folder, and all that is in its folder of
// checkpoints.
func Owns(path string) bool {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	dir, name := filepath.Dir(path), filepath.Base(path)
	if filepath.Base(dir) == CheckpointsDir {
		return isRun(filepath.Dir(dir))
	}
	return isRun(dir) && slices.ContainsFunc(ownNames(), func(pattern string) bool {
		ok, err := filepath.Match(pattern, name)
		return ok && err == nil
	})
}

// ownNames are patterns of the names in a run folder.
func ownNames() []string {
	list := []string{LogFile, MetricsFile, SummaryFile, PredictionsFile, CheckpointsDir, tfevents.Prefix + "*"}
	for _, name := range []string{ConfigFile, SourcesFile, EnvironmentFile} {
		ext := filepath.Ext(name)
		list = append(list, name, strings.TrimSuffix(name, ext)+".*"+ext) // also as Resume keeps an old one
	}
	return list
}

func isRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, LogFile))
	return err == nil
}
