package configs

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"
)

//go:embed *.yaml posts/*.yaml
var embedded embed.FS

// Names lists the embedded configs: "cnn", "cnn_amp", ..., "posts/tensorcore".
func Names() []string {
	files, _ := fs.Glob(embedded, "*.yaml") // fails on a bad pattern only
	posts, _ := fs.Glob(embedded, "posts/*.yaml")
	files = append(files, posts...)
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".yaml")
	}
	return files
}

// Resolved is a loaded config and how it came about.
type Resolved struct {
	Config   Config
	File     string            // as given, or configs/NAME.yaml of an embedded one
	Source   map[string]string // by dotted key: "default", "cnn.yaml:4" or "override"
	Warnings []Problem         // allowed, but seldom meant
}

// Load reads a config by its path or by the name of an embedded one, with or without .yaml, and puts the overrides
// ("data.batch_size=256", the last of a key counts) over it. Relative folders in a file are relative to that file, those in
// overrides and defaults to the working directory; in the result they are absolute. Errors are *Error.
func Load(arg string, overrides []string) (*Resolved, error) {
	file, text, err := find(arg)
	if err != nil {
		return nil, err
	}
	return resolve(file, text, overrides)
}

// source is a config's text and where it is.
type source struct {
	file string // for messages
	dir  string // folders in it are relative to this one; "": the working directory
}

func find(arg string) (source, []byte, error) {
	fail := func(message string) (source, []byte, error) {
		return source{}, nil, &Error{[]Problem{{Message: message}}}
	}
	if arg == "" {
		return fail("no config given; want a path or one of " + strings.Join(Names(), ", "))
	}
	why := "no such file"
	for _, path := range []string{arg, arg + ".yaml"} {
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil: // a folder on the way cannot be read
			why = err.Error()
			continue
		case info.IsDir():
			why = "is a folder"
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fail("config: " + err.Error())
		}
		return source{path, filepath.Dir(path)}, text, nil
	}
	name := filepath.ToSlash(strings.TrimSuffix(arg, ".yaml"))
	if text, err := embedded.ReadFile(name + ".yaml"); err == nil {
		return source{file: "configs/" + name + ".yaml"}, text, nil
	}
	return fail("config " + arg + ": " + why + " and no embedded config; " + didYouMean(name, Names()))
}

// resolve does all of Load but finding the file.
func resolve(src source, text []byte, overrides []string) (*Resolved, error) {
	t, problem := parse(src.file, text)
	if problem != nil {
		return nil, newError([]Problem{*problem})
	}
	d := newDecoder(t)
	if t.root.Kind != yaml.MappingNode {
		d.problem("", t.root, "want keys with values, such as epochs: 10")
		return nil, newError(d.problems)
	}
	for _, arg := range overrides {
		if p := t.override(arg); p != nil {
			d.problems = append(d.problems, *p)
		}
	}
	c := Default()
	d.value("", t.root, reflect.ValueOf(&c).Elem())
	if c.Name == "" {
		c.Name = strings.TrimSuffix(filepath.Base(src.file), filepath.Ext(src.file))
	}
	v := &validator{at: d.at}
	v.config(&c)
	d.problems = append(d.problems, v.without(d.problems, d.meant)...)
	for key, dir := range map[string]*string{"data.dir": &c.Data.Dir, "runs_dir": &c.RunsDir} {
		if err := absolute(dir, src.dir, d.at[key]); err != nil {
			d.problems = append(d.problems, Problem{d.at[key], key, err.Error()})
		}
	}
	if err := newError(d.problems); err != nil {
		return nil, err
	}
	r := &Resolved{Config: c, File: src.file, Source: map[string]string{}, Warnings: v.warnings(&c)}
	for _, value := range c.values() {
		r.Source[value.Key] = d.at[value.Key].Source()
	}
	return r, nil
}

// absolute makes a folder independent of the file and the working directory. "~/" is the user's home.
func absolute(dir *string, fileDir string, written Position) error {
	path := *dir
	switch rest, home := strings.CutPrefix(path, "~/"); {
	case path == "":
		return nil
	case home:
		folder, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		path = filepath.Join(folder, rest)
	case !filepath.IsAbs(path) && written.Line > 0:
		path = filepath.Join(fileDir, path)
	}
	path, err := filepath.Abs(path)
	*dir = path
	return err
}

// Values lists what the config holds, in the order of the file's schema, with sources.
func (r *Resolved) Values() []Value {
	values := r.Config.values()
	for i := range values {
		values[i].Source = r.Source[values[i].Key]
	}
	return values
}
