package runs

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"halfstep/runs/safetensors"
)

func TestCheckpointRoundTrip(t *testing.T) {
	dir := t.TempDir()
	c := testCheckpoint(123, 5)
	c.Meta[`"sha256":"`+zeroDigest+`"`] = `"sha256":"` // a trap for the search of the digest
	path, err := SaveCheckpoint(dir, 123, c)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(path) != "step-00000123.safetensors" {
		t.Error(path)
	}
	got, warnings, err := Latest(dir)
	if err != nil || warnings != nil {
		t.Fatal(warnings, err)
	}
	if d := cmp.Diff(c, got, cmpopts.IgnoreFields(Checkpoint{}, "Step", "Path")); d != "" {
		t.Error(d)
	}
	if got.Step != 123 || got.Path != path || got.Lookup("conv1.weight") == nil {
		t.Errorf("step %d, path %s", got.Step, got.Path)
	}
	// Any safetensors reader reads it.
	f, err := safetensors.ReadFile(path)
	if err != nil || f.Lookup("conv1.weight") == nil || len(f.Meta["sha256"]) != 64 {
		t.Errorf("%+v %v", f, err)
	}
}

// Every single byte of the file is covered: by the format's rules or by the checksum.
func TestCheckpointDamage(t *testing.T) {
	path, err := SaveCheckpoint(t.TempDir(), 1, testCheckpoint(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	b := []byte(read(t, path))
	for i := range b {
		b[i] ^= 1
		if _, err := decodeCheckpoint(b); err == nil {
			t.Errorf("byte %d of %d: damage is not seen", i, len(b))
		}
		b[i] ^= 1
	}
	for n := range b {
		if _, err := decodeCheckpoint(b[:n]); err == nil {
			t.Errorf("cut to %d bytes: not seen", n)
		}
	}
	if _, err := decodeCheckpoint(b); err != nil {
		t.Errorf("undamaged: %v", err)
	}
}

func TestLatestFallsBack(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []int{9, 100, 99_999_999, 100_000_000} { // by number, not by name
		if _, err := SaveCheckpoint(dir, step, testCheckpoint(step, 4)); err != nil {
			t.Fatal(err)
		}
	}
	newest := filepath.Join(dir, "step-100000000.safetensors")
	leftover := filepath.Join(dir, "step-00000010.safetensors.0123abcd.tmp")
	others := filepath.Join(dir, "step-00000010.safetensors.tmp")
	for path, text := range map[string]string{newest: "half a file", leftover: "x", others: "x", filepath.Join(dir, "step-x.safetensors"): "y"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, warnings, err := Latest(dir)
	if err != nil || c.Step != 99_999_999 {
		t.Fatalf("%+v, %v; want step 99999999", c, err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], newest) {
		t.Errorf("warnings %q, want one that names the damaged file", warnings)
	}
	if exists(leftover) {
		t.Error("the temporary file is still there")
	}
	if !exists(others) {
		t.Error("a file of others is gone")
	}
}

// A reader leaves the temporary file of a writer that is alive.
func TestLatestLeavesLiveWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "step-00000001.safetensors."+shortID()+tempSuffix)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := lock(f); err != nil {
		t.Skip("runs where files can be locked: ", err)
	}
	if err := removeLeftovers(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if !exists(path) {
		t.Error("deleted")
	}
}

func TestNoCheckpoint(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, _, err := Latest(dir); !errors.Is(err, ErrNoCheckpoint) {
			t.Errorf("Latest: %v", err)
		}
		if _, err := Best(dir); !errors.Is(err, ErrNoCheckpoint) {
			t.Errorf("Best: %v", err)
		}
	}
}

func TestPruneCheckpoints(t *testing.T) {
	dir := t.TempDir()
	for step := range 5 {
		c := testCheckpoint(step, 4)
		if _, err := SaveCheckpoint(dir, step, c); err != nil {
			t.Fatal(err)
		}
		if step == 1 {
			if _, err := SaveBest(dir, step, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		keep int
		want string
	}{{0, "0 1 2 3 4"}, {9, "0 1 2 3 4"}, {2, "3 4"}, {1, "4"}} {
		if err := PruneCheckpoints(dir, c.keep); err != nil {
			t.Fatal(err)
		}
		var steps []string
		for _, path := range must(ListCheckpoints(dir)) {
			steps = append(steps, strconv.Itoa(must(LoadCheckpoint(path)).Step))
		}
		if got := strings.Join(steps, " "); got != c.want {
			t.Errorf("keep %d: steps %s, want %s", c.keep, got, c.want)
		}
	}
	if best, err := Best(dir); err != nil || best.Step != 1 {
		t.Errorf("best: %+v %v", best, err)
	}
}

func TestSaveCheckpointErrors(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []*Checkpoint{
		{Meta: map[string]string{"step": "1"}},
		{Meta: map[string]string{"sha256": ""}},
		{Tensors: []safetensors.Tensor{{Name: "a", DType: safetensors.F32, Shape: []int{2}}}},
	} {
		if _, err := SaveCheckpoint(dir, 1, c); err == nil {
			t.Errorf("%+v was saved", c)
		}
	}
	if _, err := SaveCheckpoint(dir, -1, &Checkpoint{}); err == nil {
		t.Error("step -1 was saved")
	}
	if n := len(must(os.ReadDir(dir))); n != 0 {
		t.Errorf("%d files are left", n)
	}
}
