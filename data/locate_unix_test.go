//go:build unix

package data

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"halfstep/configs"
)

// A folder that cannot be looked into is told as such, not as one without the files.
func TestUnreadableFolder(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} { // others may go there
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	closed := writeFiles(t, filepath.Join(dir, "closed"), small())
	raw := writeFiles(t, filepath.Join(dir, "open", "raw"), small())
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{closed, raw} {
		if err := os.Chmod(d, 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(d, 0o755)
	}
	if os.Geteuid() == 0 { // root may read all
		if err := syscall.Seteuid(65534); err != nil {
			t.Skip("runs for users other than root, and for root where it may become another")
		}
		defer syscall.Seteuid(0)
	}
	for _, c := range []struct {
		dir, sub string
		want     syscall.Errno
	}{{"closed", "", syscall.EACCES}, {"closed/inside", "", syscall.EACCES}, {"open", "raw: ", syscall.EACCES}, {"loop", "", syscall.ELOOP}} {
		path := filepath.Join(dir, c.dir)
		_, err := Open(configs.Data{Name: "mnist", Dir: path}, 1)
		want := path + ": " + c.sub + c.want.Error() + "\n"
		if typed := (*Error)(nil); !errors.As(err, &typed) || !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant in it\n%s", err, want)
		}
	}
}
