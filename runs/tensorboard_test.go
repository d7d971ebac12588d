package runs

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"halfstep/runs/tfevents"
)

// crcOf is the CRC-32C of data bit by bit, as RFC 3720 defines it: the polynomial 0x1edc6f41 with its bits reversed.
func crcOf(data string) uint32 {
	c := ^uint32(0)
	for i := range len(data) {
		c ^= uint32(data[i])
		for range 8 {
			c = c>>1 ^ 0x82f63b78*(c&1)
		}
	}
	return ^c
}

// point is a value of one curve, as tag and step.
type point struct {
	tag  string
	step uint64
}

// points reads a run's event files without package tfevents: TFRecord frames with their checksums, then the fields of Event, by
// their numbers in event.proto and summary.proto. A point that is there twice, and all that is no point, are in other.
func points(t *testing.T, dir string) (curves map[point]float32, other []string) {
	t.Helper()
	curves = map[point]float32{}
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil {
		t.Fatal(err)
	}
	masked := func(data string) uint32 { c := crcOf(data); return (c>>15 | c<<17) + 0xa282ead8 }
	fixed := func(s string) uint32 { return binary.LittleEndian.Uint32([]byte(s)) }
	for _, path := range files {
		for b := read(t, path); len(b) > 0; {
			n := int(binary.LittleEndian.Uint64([]byte(b[:8])))
			data := b[12 : 12+n]
			if fixed(b[8:]) != masked(b[:8]) || fixed(b[12+n:]) != masked(data) {
				t.Fatalf("%s: checksum", path)
			}
			b = b[n+16:]
			event := numbered(t, []byte(data))
			var step uint64
			if event[2] != nil {
				step, _ = protowire.ConsumeVarint(event[2][0])
			}
			for _, s := range event[5] {
				for _, v := range numbered(t, s)[1] {
					value := numbered(t, v)
					p := point{string(value[1][0]), step}
					if _, twice := curves[p]; twice {
						other = append(other, fmt.Sprint("twice ", p))
					}
					curves[p] = math.Float32frombits(fixed(string(value[2][0])))
				}
			}
			if event[3] != nil {
				other = append(other, string(event[3][0]))
			}
			if event[7] != nil {
				other = append(other, fmt.Sprint("session ", numbered(t, event[7][0])[1], " from ", step))
			}
		}
	}
	return curves, other
}

// numbered gives the encoded values of a message's fields by their numbers; of bytes what they hold.
func numbered(t *testing.T, b []byte) map[protowire.Number][][]byte {
	t.Helper()
	fields := map[protowire.Number][][]byte{}
	for len(b) > 0 {
		number, kind, tag := protowire.ConsumeTag(b)
		_, _, n := protowire.ConsumeField(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		value := b[tag:n]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		fields[number] = append(fields[number], value)
		b = b[n:]
	}
	return fields
}

// boards lists a run's event files, which must be all whole.
func boards(t *testing.T, dir string) []string {
	t.Helper()
	list, err := boardFiles(dir)
	left, _ := filepath.Glob(filepath.Join(dir, "*"+tempSuffix))
	if err != nil || left != nil {
		t.Fatal(left, err)
	}
	return list
}

// A run's points are the numbers of its step and epoch events, at every level of the log.
func TestTensorBoard(t *testing.T) {
	r := sampleRun(t, t.TempDir(), Options{TensorBoard: true, Level: "error"})
	got, other := points(t, r.Dir)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	want := map[point]float32{}
	for step, values := range map[uint64][6]float32{50: {0.75, 1, 0, 65536, 0, 20000}, 100: {nan, 1, inf, 32768, 1, 0}} {
		for i, tag := range []string{"loss/train", "optim/lr", "optim/grad_norm", "amp/loss_scale", "amp/skipped_steps", "speed/images_per_s"} {
			want[point{tag, step}] = values[i]
		}
	}
	for step, values := range map[uint64][3]float32{108: {0.5, 0.97, 0.96}, 216: {0.25, 0.98, 0.99}} {
		for i, tag := range []string{"loss/train_epoch", "accuracy/test", "accuracy/val"} {
			want[point{tag, step}] = values[i]
		}
	}
	same := cmp.Comparer(func(a, b float32) bool { return a == b || a != a && b != b })
	if d := cmp.Diff(want, got, same); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"brain.Event:2"}, other); d != "" {
		t.Error(d)
	}
	if list := boards(t, sampleRun(t, t.TempDir(), Options{}).Dir); list != nil {
		t.Errorf("%v, though nobody asked", list)
	}
}

// A run that is resumed twice has each point once: those beyond the checkpoints are taken out, also where the disk cut the last
// record, and an open TensorBoard is told. Event files of others stay as they are.
func TestTensorBoardResume(t *testing.T) {
	r := sampleRun(t, t.TempDir(), Options{TensorBoard: true})
	first := boards(t, r.Dir)[0]
	whole := read(t, first)
	if err := os.WriteFile(first, []byte(whole[:len(whole)-1]), 0o644); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(r.Dir, "events.out.tfevents.1000000000.machine.1.0")
	if err := os.WriteFile(foreign, []byte(whole), 0o644); err != nil {
		t.Fatal(err)
	}
	leftover := first + ".0123abcd" + tempSuffix // of a process that was killed while it resumed
	if err := os.WriteFile(leftover, []byte(whole[:20]), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, at := range []int{108, 50} {
		again, err := Resume(r.Dir, Resumed{Epoch: 2 - i, Step: at}, Options{TensorBoard: true, Clock: tick()})
		if err != nil {
			t.Fatal(err)
		}
		for step := at + 1; step <= at+3; step++ {
			again.Log(Step{Step: step, TrainLoss: float64(step)})
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, foreign) != whole {
		t.Error("another program's event file was changed")
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	got, other := points(t, r.Dir)
	steps := map[uint64]bool{}
	for p := range got {
		steps[p.step] = true
	}
	if d := cmp.Diff(map[uint64]bool{50: true, 51: true, 52: true, 53: true}, steps); d != "" {
		t.Error(d)
	}
	if got[point{"loss/train", 50}] != 0.75 || got[point{"loss/train", 53}] != 53 {
		t.Error(got)
	}
	want := []string{"brain.Event:2", "brain.Event:2", "session [[1]] from 109", "brain.Event:2", "session [[1]] from 51"}
	if d := cmp.Diff(want, other); d != "" {
		t.Error(d)
	}
	if files := boards(t, r.Dir); len(files) != 3 || !slices.IsSorted(files) || files[0] != first {
		t.Errorf("files %v", files)
	}
	// Without the option the points go all the same.
	again, err := Resume(r.Dir, Resumed{Epoch: 1, Step: 51}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := points(t, r.Dir); len(got) == 0 || got[point{"loss/train", 52}] != 0 {
		t.Error("points beyond the step are still there")
	}
}

// A write error is the run's, and does not stop it.
func TestTensorBoardWriteError(t *testing.T) {
	r, err := Create(t.TempDir(), "x", start, Options{TensorBoard: true})
	if err != nil {
		t.Fatal(err)
	}
	r.board.f.Close()
	r.Log(Step{Step: 1})
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "TensorBoard") {
		t.Error(err)
	}
	if !strings.Contains(read(t, r.Dir, LogFile), `"step":1`) {
		t.Error("the log stopped with it")
	}
}

// A record that could be written only in part leaves no trace, and the next one follows the last whole one.
func TestTensorBoardTornRecord(t *testing.T) {
	b, err := newBoard(t.TempDir(), func() time.Time { return start })
	if err != nil {
		t.Fatal(err)
	}
	defer b.f.Close()
	if _, err := b.f.WriteAt([]byte("half a record"), b.size); err != nil { // as a full disk leaves it
		t.Fatal(err)
	}
	if err := b.log(Step{Step: 7}); err != nil {
		t.Fatal(err)
	}
	if events, err := tfevents.Decode([]byte(read(t, b.f.Name()))); err != nil || len(events) != 2 || events[1].Step != 7 {
		t.Errorf("%+v %v", events, err)
	}
}

// docs/LOGS.md lists every tag with the event and the key that it comes from.
func TestDocsMatchTags(t *testing.T) {
	var got []string
	one := 1.0
	for _, e := range []Event{
		Step{TrainAccuracy: &one, Momentum: &one}, Epoch{TrainAccuracy: &one, TestLoss: &one, TestAccuracy: &one, ValLoss: &one, ValAccuracy: &one},
	} {
		_, list := scalars(e)
		for _, s := range list {
			got = append(got, e.Name()+" "+s.Tag)
		}
	}
	var want []string
	row := regexp.MustCompile("(?m)^\\| `([a-z]+/[a-z_]+)` \\| `([a-z]+)` \\| `([a-z_]+)` \\|$")
	for _, m := range row.FindAllStringSubmatch(docSections(t)["TensorBoard"], -1) {
		want = append(want, m[2]+" "+m[1])
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("- documented, + written:\n%s", d)
	}
}
