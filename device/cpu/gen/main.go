// Command gen writes the assembly of package kernel and its Go declarations.
//
//	go run ./device/cpu/gen            writes device/cpu/kernel/*_amd64.s and *_stubs_amd64.go
//	go run ./device/cpu/gen --check    fails when a file there differs from what would be written
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// outputs gives the files of each subject, by name.
var outputs = []func() map[string]string{
	genConv,
	genGEMM,
	genPeak,
	genVec,
}

func main() {
	check := flag.Bool("check", false, "compare instead of writing")
	dir := flag.String("dir", "device/cpu/kernel", "folder of package kernel")
	flag.Parse()
	if err := run(*dir, *check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(dir string, check bool) error {
	for _, gen := range outputs {
		files := gen()
		for _, name := range slices.Sorted(maps.Keys(files)) {
			path := filepath.Join(dir, name)
			if !check {
				if err := os.WriteFile(path, []byte(files[name]), 0o644); err != nil {
					return err
				}
				continue
			}
			have, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if string(have) != files[name] {
				return fmt.Errorf("%s is out of date: run go run ./device/cpu/gen", path)
			}
		}
	}
	return nil
}
