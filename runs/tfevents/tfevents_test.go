package tfevents

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sample is the content of testdata/events.out.tfevents.0, which the Python package tensorboard 2.21 wrote with its own Event
// message and RecordWriter.
func sample() []Event {
	return []Event{
		{WallTime: 1764496292.125, Version: Version},
		{WallTime: 1764496293.25, Step: 50, Scalars: []Scalar{{"loss/train", 0.75}, {"optim/grad_norm", float32(math.Inf(1))}}},
		{WallTime: 1764496293.5, Step: 300, Scalars: []Scalar{{"accuracy/test", 0.98}}},
		{WallTime: 1764496294, Step: 101, Restart: true},
	}
}

func appendAll(events []Event) []byte {
	var b []byte
	for _, e := range events {
		b = Append(b, e)
	}
	return b
}

func TestMatchesTensorBoard(t *testing.T) {
	want, err := os.ReadFile("testdata/events.out.tfevents.0")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, appendAll(sample())); d != "" {
		t.Errorf("written: %s", d)
	}
	got, err := Decode(want)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), got); d != "" {
		t.Errorf("read: %s", d)
	}
}

// The checksum is CRC-32C: of "123456789" 0xe3069283, as every catalogue of CRCs has it, and of 32 zeros and 32 ones as in RFC 3720,
// B.4. The mask is undone by rotating the other way.
func TestChecksum(t *testing.T) {
	for data, want := range map[string]uint32{
		"123456789":                0xe3069283,
		strings.Repeat("\x00", 32): 0x8a9136aa,
		strings.Repeat("\xff", 32): 0x62a8ab43,
	} {
		rotated := maskedCRC([]byte(data)) - 0xa282ead8
		if got := rotated>>17 | rotated<<15; got != want {
			t.Errorf("%q: %#x, want %#x", data, got, want)
		}
	}
}

// Any cut leaves the whole records before it; any changed byte is seen, and leaves those before its record.
func TestDamage(t *testing.T) {
	whole := appendAll(sample())
	var ends []int
	for n := range sample() {
		ends = append(ends, len(appendAll(sample()[:n+1])))
	}
	before := func(at int) int {
		n := 0
		for n < len(ends) && ends[n] <= at {
			n++
		}
		return n
	}
	for at := range whole {
		got, err := Decode(whole[:at])
		n := before(at)
		if len(got) != n || (err == nil) != (at == 0 || n > 0 && ends[n-1] == at) {
			t.Errorf("cut to %d bytes: %d events, %v; want %d", at, len(got), err, n)
		}
		b := bytes.Clone(whole)
		b[at] ^= 0x10
		if got, err := Decode(b); err == nil || len(got) != n {
			t.Errorf("byte %d changed: %d events, %v; want %d and an error", at, len(got), err, n)
		}
	}
}

// Fields that another version may add are passed over.
func TestUnknownFields(t *testing.T) {
	data := append(sampleData(), 0x52, 2, 0x0a, 0, 0x60, 1) // source_metadata 10, and a field 12
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b))
	b = append(b, data...)
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(data))
	got, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample()[1:2], got); d != "" {
		t.Error(d)
	}
}

// sampleData is the message of the second event.
func sampleData() []byte {
	b := Append(nil, sample()[1])
	return bytes.Clone(b[12 : len(b)-4])
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e := Event{WallTime: rapid.Float64().Draw(r, "time"), Step: rapid.Int64().Draw(r, "step")}
		for range rapid.IntRange(0, 3).Draw(r, "scalars") {
			e.Scalars = append(e.Scalars, Scalar{rapid.String().Draw(r, "tag"), rapid.Float32().Draw(r, "value")})
		}
		e.Restart = e.Scalars == nil && rapid.Bool().Draw(r, "restart")
		got, err := Decode(Append(nil, e))
		if err != nil || !cmp.Equal([]Event{e}, got) {
			r.Fatalf("%+v %v", got, err)
		}
	})
}

// FuzzDecode feeds any bytes, and any message in a whole frame.
func FuzzDecode(f *testing.F) {
	f.Add(appendAll(sample()))
	f.Add([]byte{0x2a, 4, 0x0a, 2, 0x0a, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		Decode(b)
		framed := binary.LittleEndian.AppendUint64(nil, uint64(len(b)))
		framed = binary.LittleEndian.AppendUint32(framed, maskedCRC(framed))
		framed = append(framed, b...)
		framed = binary.LittleEndian.AppendUint32(framed, maskedCRC(b))
		events, err := Decode(framed)
		if err != nil {
			return
		}
		again, err := Decode(appendAll(events))
		if err != nil || len(again) != 1 {
			t.Errorf("%+v, written again: %+v %v", events, again, err)
		}
	})
}
