package runs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"halfstep/runs/safetensors"
)

// Checkpoint is the whole state of training at one step. On the disk it is one safetensors file: tensors under the names
// that the caller gives them (weights under PyTorch's, in its order), everything else as metadata. The SHA-256 of the file
// stands in its own metadata, so that one rename makes data and checksum appear together.
type Checkpoint struct {
	Tensors []safetensors.Tensor
	Meta    map[string]string // without the keys step and sha256, which belong to the file

	Step int    // set by LoadCheckpoint and Latest
	Path string // set by LoadCheckpoint and Latest
}

// Lookup finds a tensor by name; nil when there is none.
func (c *Checkpoint) Lookup(name string) *safetensors.Tensor {
	return (&safetensors.File{Tensors: c.Tensors}).Lookup(name)
}

const (
	checkpointPrefix = "step-"
	checkpointExt    = ".safetensors"
	bestName         = "best" + checkpointExt

	stepKey   = "step"
	digestKey = "sha256"
)

// SaveCheckpoint writes dir/step-<step>.safetensors and returns its path. The file appears whole or not at all; one that
// was there under the name is replaced.
func SaveCheckpoint(dir string, step int, c *Checkpoint) (string, error) {
	if step < 0 {
		return "", fmt.Errorf("runs: checkpoint: step %d is negative", step)
	}
	return saveCheckpoint(filepath.Join(dir, fmt.Sprintf("%s%08d%s", checkpointPrefix, step, checkpointExt)), step, c)
}

// SaveBest writes dir/best.safetensors in the same way. PruneCheckpoints never deletes it and Latest never returns it.
func SaveBest(dir string, step int, c *Checkpoint) (string, error) {
	return saveCheckpoint(filepath.Join(dir, bestName), step, c)
}

func saveCheckpoint(path string, step int, c *Checkpoint) (string, error) {
	for _, key := range []string{stepKey, digestKey} {
		if _, ok := c.Meta[key]; ok {
			return "", fmt.Errorf("runs: checkpoint: metadata key %q is reserved", key)
		}
	}
	f := &safetensors.File{Tensors: c.Tensors, Meta: maps.Clone(c.Meta)}
	if f.Meta == nil {
		f.Meta = map[string]string{}
	}
	f.Meta[stepKey] = strconv.Itoa(step)
	f.Meta[digestKey] = zeroDigest
	h := sha256.New()
	if err := safetensors.Write(h, f); err != nil {
		return "", fmt.Errorf("runs: checkpoint: %w", err)
	}
	f.Meta[digestKey] = hexDigest(h) // as long as the zeros: nothing moves
	err := writeAtomic(path, func(w io.Writer) error { return safetensors.Write(w, f) })
	if err != nil {
		return "", fmt.Errorf("runs: checkpoint %s: %w", filepath.Base(path), err)
	}
	return path, nil
}

// zeroDigest stands where the digest will be while the digest is computed.
var zeroDigest = strings.Repeat("0", 2*sha256.Size)

func hexDigest(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// LoadCheckpoint reads a checkpoint and verifies its checksum.
func LoadCheckpoint(path string) (*Checkpoint, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("runs: checkpoint: %w", err)
	}
	c, err := decodeCheckpoint(b)
	if err != nil {
		return nil, fmt.Errorf("runs: checkpoint %s: %w", path, err)
	}
	c.Path = path
	return c, nil
}

func decodeCheckpoint(b []byte) (*Checkpoint, error) {
	f, err := safetensors.Decode(b)
	if err != nil {
		return nil, err
	}
	want, ok := f.Meta[digestKey]
	if !ok {
		return nil, errors.New("no checksum: not written by SaveCheckpoint")
	}
	if got := fileDigest(b, want); got != want {
		return nil, fmt.Errorf("damaged: checksum %s, want %s", got, want)
	}
	step, err := strconv.Atoi(f.Meta[stepKey])
	if err != nil || step < 0 {
		return nil, fmt.Errorf("step %q is not a step", f.Meta[stepKey])
	}
	delete(f.Meta, digestKey)
	delete(f.Meta, stepKey)
	return &Checkpoint{Tensors: f.Tensors, Meta: f.Meta, Step: step}, nil
}

// fileDigest is the SHA-256 of a file with its own digest replaced by zeros. Write gives the pair of key and digest this
// form; within a name or another value the quotes would be escaped.
func fileDigest(b []byte, digest string) string {
	at := bytes.Index(b, fmt.Appendf(nil, "%q:%q", digestKey, digest))
	if at < 0 || len(digest) != len(zeroDigest) {
		return "of another form"
	}
	at += len(digestKey) + len(`"":"`)
	h := sha256.New()
	h.Write(b[:at])
	io.WriteString(h, zeroDigest)
	h.Write(b[at+len(digest):])
	return hexDigest(h)
}

// ErrNoCheckpoint is the error of Latest and Best in a folder without a whole checkpoint.
var ErrNoCheckpoint = errors.New("no checkpoint")

// Latest loads the newest checkpoint of the folder. One that is damaged is passed over for the one before, with a warning.
// Where all are, the error names them. Temporary files that a killed process left behind are deleted.
func Latest(dir string) (c *Checkpoint, warnings []string, err error) {
	if err := removeLeftovers(dir); err != nil {
		warnings = append(warnings, fmt.Sprintf("temporary file stays: %v", err))
	}
	steps, err := ListCheckpoints(dir)
	if err != nil {
		return nil, warnings, err
	}
	var damaged []error
	for _, path := range slices.Backward(steps) {
		c, err := LoadCheckpoint(path)
		if err == nil {
			return c, warnings, nil
		}
		warnings = append(warnings, fmt.Sprintf("passed over: %v", err))
		damaged = append(damaged, err)
	}
	if len(damaged) > 0 {
		return nil, warnings, fmt.Errorf("runs: %s: %w is whole: %w", dir, ErrNoCheckpoint, errors.Join(damaged...))
	}
	return nil, warnings, fmt.Errorf("runs: %s: %w", dir, ErrNoCheckpoint)
}

// Best loads the checkpoint that SaveBest wrote last.
func Best(dir string) (*Checkpoint, error) {
	c, err := LoadCheckpoint(filepath.Join(dir, bestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("runs: %s: best: %w", dir, ErrNoCheckpoint)
	}
	return c, err
}

// ListCheckpoints gives the paths of the folder's checkpoints by step, oldest first, without the best one.
func ListCheckpoints(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("runs: checkpoints: %w", err)
	}
	var names []string
	for _, e := range entries {
		if checkpointStep(e.Name()) >= 0 {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(checkpointStep(a), checkpointStep(b)) })
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names, nil
}

// checkpointStep is the step in a checkpoint's file name; -1 of any other name.
func checkpointStep(name string) int {
	digits, isStep := strings.CutPrefix(name, checkpointPrefix)
	digits, isFile := strings.CutSuffix(digits, checkpointExt)
	step, err := strconv.Atoi(digits)
	if !isStep || !isFile || err != nil || step < 0 {
		return -1
	}
	return step
}

// PruneCheckpoints deletes all but the keep newest checkpoints; keep 0 deletes none. best.safetensors stays.
func PruneCheckpoints(dir string, keep int) error {
	paths, err := ListCheckpoints(dir)
	if err != nil || keep <= 0 || len(paths) <= keep {
		return err
	}
	for _, path := range paths[:len(paths)-keep] {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("runs: checkpoints: %w", err)
		}
	}
	return nil
}
