package data

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"halfstep/configs"
)

// emptyHome leaves nothing to be found: no environment, no cache, no modules.
func emptyHome(t *testing.T) (home string) {
	home = t.TempDir()
	for _, key := range []string{"MNIST_DIR", "FASHION_MNIST_DIR", "KMNIST_DIR", "EMNIST_DIR", "IDX_DIR", "GOPATH"} {
		t.Setenv(key, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("GOMODCACHE", filepath.Join(home, "modules"))
	t.Setenv("PATH", "")
	return home
}

func smallGz(t *testing.T) map[string][]byte {
	files := map[string][]byte{}
	for name, b := range small() {
		files[name+".gz"] = gz(t, b)
	}
	return files
}

func TestNamesAndFolders(t *testing.T) {
	renamed := func(replace ...string) map[string][]byte {
		files := map[string][]byte{}
		for name, b := range small() {
			files[strings.NewReplacer(replace...).Replace(name)] = b
		}
		return files
	}
	for _, c := range []struct {
		set, folder string
		files       map[string][]byte
	}{
		{"mnist", "", small()},
		{"mnist", "", smallGz(t)},
		{"mnist", "", renamed("-idx", ".idx")},
		{"mnist", "", renamed("-idx", ".idx", "ubyte", "ubyte.gz")},
		{"mnist", "", renamed("train-images-idx3-ubyte", "train-images.idx3-ubyte")},
		{"mnist", "MNIST/raw", small()},
		{"mnist", "raw", small()},
		{"fashion_mnist", "FashionMNIST/raw", small()},
		{"kmnist", "KMNIST/raw", smallGz(t)},
		{"emnist", "", renamed("train", "emnist-letters-train", "t10k", "emnist-letters-test")},
		{"emnist", "EMNIST/raw", renamed("train", "emnist-byclass-train", "t10k", "emnist-byclass-test")},
		{"emnist", "gzip", renamed("train", "emnist-mnist-train", "t10k", "emnist-mnist-test", "ubyte", "ubyte.gz")},
		{"emnist", "", small()},
		{"idx", "", small()},
	} {
		dir := t.TempDir()
		folder := writeFiles(t, filepath.Join(dir, c.folder), c.files)
		if set := open(t, c.set, dir); set.Dir != folder || set.Train.N != 4 || set.Name != c.set {
			t.Errorf("%s in %q: %d images of %s in %s", c.set, c.folder, set.Train.N, set.Name, set.Dir)
		}
	}
}

// Each place is emptied in turn, and the next one found.
func TestOrderOfPlaces(t *testing.T) {
	home := emptyHome(t)
	given := writeFiles(t, filepath.Join(home, "given"), small())
	env := writeFiles(t, filepath.Join(home, "env"), small())
	cacheDir, err := CacheDir("mnist")
	if err != nil {
		t.Fatal(err)
	}
	cache := writeFiles(t, cacheDir, small())
	module := filepath.Join("github.com", "petar", "!go!m!n!i!s!t@v0.0.0-20150320212226-2fbe10d0fa63", "data")
	inModCache := writeFiles(t, filepath.Join(home, "modules", module), small())
	inGopath := writeFiles(t, filepath.Join(home, "gopath", "pkg", "mod", module), small())
	inHome := writeFiles(t, filepath.Join(home, "go", "pkg", "mod", module), small())

	expect := func(dir, want string) {
		t.Helper()
		set, err := Open(configs.Data{Name: "mnist", Dir: dir}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if set.Dir != want {
			t.Errorf("found in %s, want %s", set.Dir, want)
		}
	}
	t.Setenv("MNIST_DIR", env)
	t.Setenv("GOPATH", filepath.Join(home, "other")+string(os.PathListSeparator)+filepath.Join(home, "gopath"))
	expect(given, given)
	expect("", env)
	t.Setenv("MNIST_DIR", "")
	for _, want := range []string{cache, inModCache, inGopath, inHome} {
		expect("", want)
		if err := os.RemoveAll(want); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(configs.Data{Name: "mnist"}, 1); err == nil {
		t.Error("found where there is nothing")
	}
}

// What goes by MNIST's file names in MNIST_DIR must not be taken for another set.
func TestMNISTDirIsNoOtherSets(t *testing.T) {
	home := emptyHome(t)
	t.Setenv("MNIST_DIR", writeFiles(t, filepath.Join(home, "sets"), small()))
	if _, err := Open(configs.Data{Name: "fashion_mnist"}, 1); err == nil {
		t.Error("MNIST taken for Fashion-MNIST")
	}
	want := writeFiles(t, filepath.Join(home, "sets", "FashionMNIST", "raw"), small())
	if set := open(t, "fashion_mnist", ""); set.Dir != want {
		t.Errorf("found in %s, want %s", set.Dir, want)
	}
	want = writeFiles(t, filepath.Join(home, "own"), small())
	t.Setenv("FASHION_MNIST_DIR", want)
	if set := open(t, "fashion_mnist", ""); set.Dir != want {
		t.Errorf("found in %s, want %s", set.Dir, want)
	}
}

func TestNotFound(t *testing.T) {
	home := emptyHome(t)
	userCache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	// The user's cache lies elsewhere on each system.
	plain := func(err error) string {
		return strings.ReplaceAll(strings.ReplaceAll(err.Error(), userCache, "HOME/cache"), home, "HOME")
	}
	partial := small()
	delete(partial, "train-labels-idx1-ubyte")
	delete(partial, "t10k-labels-idx1-ubyte")
	writeFiles(t, filepath.Join(home, "partial"), partial)
	writeFiles(t, filepath.Join(home, "partial-raw", "MNIST", "raw"), partial)
	writeFiles(t, filepath.Join(home, "empty"), nil)
	writeFiles(t, home, map[string][]byte{"file": nil})
	const names = `
names tried: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, ` +
		`also with .idx for -idx, with and without .gz`
	const subFolders = names + "; sub-folders tried: raw, MNIST/raw\n"
	tail := func(dir string) string {
		return subFolders + "`train data fetch mnist --dir HOME/" + dir + "` would get it"
	}
	for _, c := range []struct{ name, dir, want string }{
		{"mnist", "empty", "data: mnist: files not found; looked in\n  data.dir: HOME/empty: none of the files" + tail("empty")},
		{"mnist", "gone", "data: mnist: files not found; looked in\n  data.dir: HOME/gone: no such folder" + tail("gone")},
		{"mnist", "file", "data: mnist: files not found; looked in\n  data.dir: HOME/file: not a folder" + tail("file")},
		{"mnist", "partial", "data: mnist: files not found; looked in\n  data.dir: HOME/partial: lacks train-labels, test-labels" + tail("partial")},
		{
			"mnist", "partial-raw",
			"data: mnist: files not found; looked in\n  data.dir: HOME/partial-raw: MNIST/raw lacks train-labels, test-labels" + tail("partial-raw"),
		},
		{
			"mnist", "",
			"data: mnist: files not found; looked in\n  user cache: HOME/cache/halfstep/mnist: no such folder" +
				"\n  GoMNIST module: HOME/modules/github.com/petar/!go!m!n!i!s!t@v0.0.0-20150320212226-2fbe10d0fa63/data: no such folder" +
				"\n  GoMNIST module: HOME/go/pkg/mod/github.com/petar/!go!m!n!i!s!t@v0.0.0-20150320212226-2fbe10d0fa63/data: no such folder" +
				subFolders + "`train data fetch mnist` would get it",
		},
		{
			"kmnist", "",
			"data: kmnist: files not found; looked in\n  user cache: HOME/cache/halfstep/kmnist: no such folder" +
				names + "; sub-folders tried: raw, KMNIST/raw\n`train data fetch kmnist` would get it",
		},
		{
			"emnist", "",
			"data: emnist: files not found; looked in\n  user cache: HOME/cache/halfstep/emnist: no such folder" + names +
				", and emnist-balanced|byclass|bymerge|digits|letters|mnist-train-images-idx3-ubyte and so on" +
				"; sub-folders tried: raw, EMNIST/raw, gzip" +
				"\nunpack https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip and name its folder in data.dir",
		},
	} {
		dir := c.dir
		if dir != "" {
			dir = filepath.Join(home, dir)
		}
		_, err := Open(configs.Data{Name: c.name, Dir: dir}, 1)
		if typed := (*Error)(nil); !errors.As(err, &typed) {
			t.Fatalf("%T %v, want an *Error", err, err)
		}
		if got := plain(err); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
	t.Setenv("MNIST_DIR", filepath.Join(home, "gone"))
	_, err = Open(configs.Data{Name: "mnist"}, 1)
	want := "data: mnist: files not found; looked in\n  $MNIST_DIR: HOME/gone: no such folder" + tail("gone")
	if got := plain(err); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The command that is offered can be pasted into a shell.
func TestShellWord(t *testing.T) {
	for path, want := range map[string]string{
		"/data/mnist-1.0": "/data/mnist-1.0", "/my data": "'/my data'", "$HOME": "'$HOME'", "it's": `'it'\''s'`, "~x": "'~x'",
	} {
		if got := shellWord(path); got != want {
			t.Errorf("%s becomes %s, want %s", path, got, want)
		}
	}
}

// emnist renames the small set as one of EMNIST's, with labels of its own.
func emnist(split string, train, test []byte) map[string][]byte {
	set, files := small(), map[string][]byte{}
	set["train-labels-idx1-ubyte"], set["t10k-labels-idx1-ubyte"] = labelsIDX(train...), labelsIDX(test...)
	for name, b := range set {
		files[strings.NewReplacer("train", "emnist-"+split+"-train", "t10k", "emnist-"+split+"-test").Replace(name)] = b
	}
	return files
}

// Two sets share a folder and a third is not whole, as after a broken unzip.
func TestEMNISTSplits(t *testing.T) {
	for sub, names := range map[string][]string{"": {"emnist", "idx"}, "EMNIST/raw": {"emnist"}, "gzip": {"emnist", "idx"}} {
		dir := t.TempDir()
		folder := writeFiles(t, filepath.Join(dir, sub), emnist("letters", []byte{1, 26, 3, 2}, []byte{1, 26}))
		writeFiles(t, folder, emnist("digits", []byte{0, 9, 3, 2}, []byte{1, 0}))
		mnist := emnist("mnist", []byte{0, 9, 3, 2}, []byte{1, 0})
		delete(mnist, "emnist-mnist-test-labels-idx1-ubyte")
		writeFiles(t, folder, mnist)
		for _, name := range names {
			prefix := "data: " + name + ": files not found; looked in\n  data.dir: " + dir + ": " + strings.TrimPrefix(sub+" ", " ")
			for split, want := range map[string]string{
				"":         "data: " + name + ": " + folder + ": several sets: digits, letters, want one (choose by data.split)",
				"balanced": prefix + "has digits, letters, not balanced\n",
				"mnist":    prefix + "lacks test-labels\n",
			} {
				_, err := Open(configs.Data{Name: name, Dir: dir, Split: split}, 1)
				if typed := (*Error)(nil); !errors.As(err, &typed) || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("%s, split %q: got\n%v\nwant\n%s", name, split, err, want)
				}
				want = "\nnames tried: emnist-" + split + "-train-images-idx3-ubyte, emnist-" + split + "-train-labels-idx1-ubyte, emnist-" + split +
					"-test-images-idx3-ubyte, emnist-" + split + "-test-labels-idx1-ubyte, also with .idx for -idx, with and without .gz; sub-folders"
				if split != "" && !strings.Contains(err.Error(), want) {
					t.Errorf("%s, split %q: got\n%v\nwant in it\n%s", name, split, err, want)
				}
			}
			// EMNIST's letters are numbered from 1: class 0 stays empty, as in torchvision.
			for split, classes := range map[string]int{"letters": 27, "digits": 10} {
				set, err := Open(configs.Data{Name: name, Dir: dir, Split: split}, 1)
				if err != nil {
					t.Fatal(err)
				}
				if want := "emnist-" + split + "-train-images-idx3-ubyte"; set.Classes != classes || set.Files[0].Name != want || set.EMNISTSplit() != split {
					t.Errorf("%s, split %s: %d classes from %s", name, split, set.Classes, set.Files[0].Name)
				}
			}
		}
	}
}

// The go command mostly names a folder that was looked in before: it is told once.
func TestPlacesAreToldOnce(t *testing.T) {
	gocmd, err := exec.LookPath("go")
	if err != nil {
		t.Skip("runs where there is a go command")
	}
	emptyHome(t)
	t.Setenv("PATH", filepath.Dir(gocmd))
	_, err = Open(configs.Data{Name: "mnist"}, 1)
	if err == nil {
		t.Fatal("found where there is nothing")
	}
	if n := strings.Count(err.Error(), "GoMNIST module: "); n != 2 { // in GOMODCACHE and in HOME/go
		t.Errorf("%d folders of the module, want 2: %v", n, err)
	}
}

// The go command, where there is one, is asked last; this package's own tests are run by it.
func TestGoCommandFindsTheModule(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("runs where there is a go command")
	}
	for _, pl := range goCommandPlaces() {
		if _, verdict, err := pl.search(mnist()); err == nil && verdict == "" {
			return
		}
	}
	t.Error("go env and go list give no folder with the files")
}
