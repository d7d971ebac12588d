// Package tfevents writes and reads TensorBoard's event files: records framed as TFRecord
// (https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details), each the protobuf message Event of
// tensorboard/compat/proto/event.proto, of which it knows what scalars need.
package tfevents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Prefix starts the name of an event file; TensorBoard looks for "tfevents" in names.
const Prefix = "events.out.tfevents."

// Version is what the first event of a file holds.
const Version = "brain.Event:2"

// Event is one record. It holds one of Version, Restart and Scalars.
type Event struct {
	WallTime float64 // seconds since 1970; wall_time 1
	Step     int64   // step 2
	Version  string  // of the file; file_version 3
	Scalars  []Scalar
	// Restart says that points of this step and later ones, in files before, are void: session_log 7 of status 1 START.
	Restart bool
}

// Scalar is one value of a curve: value 1 of Summary, in turn summary 5 of Event.
type Scalar struct {
	Tag   string  // tag 1
	Value float32 // simple_value 2
}

const sessionStart = 1 // SessionLog.SessionStatus START

// Append appends an event's record.
func Append(b []byte, e Event) []byte {
	data := e.encode()
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b[len(b)-8:]))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, maskedCRC(data))
}

// maskedCRC is the CRC-32C of data, rotated and shifted as TFRecord wants it.
func maskedCRC(data []byte) uint32 {
	c := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (c>>15 | c<<17) + 0xa282ead8
}

func (e *Event) encode() []byte {
	b := protowire.AppendTag(nil, 1, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(e.WallTime))
	if e.Step != 0 {
		b = protowire.AppendTag(b, 2, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(e.Step))
	}
	if e.Version != "" {
		b = protowire.AppendTag(b, 3, protowire.BytesType)
		b = protowire.AppendString(b, e.Version)
	}
	if len(e.Scalars) > 0 {
		var summary []byte
		for _, s := range e.Scalars {
			summary = protowire.AppendTag(summary, 1, protowire.BytesType)
			summary = protowire.AppendBytes(summary, s.encode())
		}
		b = protowire.AppendTag(b, 5, protowire.BytesType)
		b = protowire.AppendBytes(b, summary)
	}
	if e.Restart {
		log := protowire.AppendTag(nil, 1, protowire.VarintType)
		log = protowire.AppendVarint(log, sessionStart)
		b = protowire.AppendTag(b, 7, protowire.BytesType)
		b = protowire.AppendBytes(b, log)
	}
	return b
}

func (s *Scalar) encode() []byte {
	b := protowire.AppendTag(nil, 1, protowire.BytesType)
	b = protowire.AppendString(b, s.Tag)
	b = protowire.AppendTag(b, 2, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, math.Float32bits(s.Value))
}

// Decode reads the events of a file. With an error, which tells what is cut or damaged, the events before it are valid.
func Decode(b []byte) ([]Event, error) {
	var events []Event
	for len(b) > 0 {
		data, n, err := unframe(b)
		if err != nil {
			return events, fmt.Errorf("tfevents: record %d: %w", len(events), err)
		}
		var e Event
		if err := e.decode(data); err != nil {
			return events, fmt.Errorf("tfevents: record %d: %w", len(events), err)
		}
		events = append(events, e)
		b = b[n:]
	}
	return events, nil
}

// frameBytes are those of a record beside its data: length, CRC of the length, CRC of the data.
const frameBytes = 8 + 4 + 4

var errCut = errors.New("cut")

// unframe gives the data of the first record, and the record's length.
func unframe(b []byte) (data []byte, n int, err error) {
	if len(b) < frameBytes {
		return nil, 0, errCut
	}
	if maskedCRC(b[:8]) != binary.LittleEndian.Uint32(b[8:]) {
		return nil, 0, errors.New("damaged: checksum of the length")
	}
	length := binary.LittleEndian.Uint64(b)
	if length > uint64(len(b)-frameBytes) {
		return nil, 0, errCut
	}
	n = int(length) + frameBytes
	data = b[12 : n-4]
	if maskedCRC(data) != binary.LittleEndian.Uint32(b[n-4:]) {
		return nil, 0, errors.New("damaged: checksum of the data")
	}
	return data, n, nil
}

// decode reads a message; fields that it does not know are passed over.
func (e *Event) decode(b []byte) error {
	return fields(b, func(f field) error {
		switch f.id {
		case id{1, protowire.Fixed64Type}:
			e.WallTime = math.Float64frombits(f.number)
		case id{2, protowire.VarintType}:
			e.Step = int64(f.number)
		case id{3, protowire.BytesType}:
			e.Version = string(f.bytes)
		case id{5, protowire.BytesType}:
			return fields(f.bytes, func(f field) error {
				if f.id != (id{1, protowire.BytesType}) {
					return nil
				}
				var s Scalar
				err := s.decode(f.bytes)
				e.Scalars = append(e.Scalars, s)
				return err
			})
		case id{7, protowire.BytesType}:
			return fields(f.bytes, func(f field) error {
				e.Restart = e.Restart || f.id == id{1, protowire.VarintType} && f.number == sessionStart
				return nil
			})
		}
		return nil
	})
}

func (s *Scalar) decode(b []byte) error {
	return fields(b, func(f field) error {
		switch f.id {
		case id{1, protowire.BytesType}:
			s.Tag = string(f.bytes)
		case id{2, protowire.Fixed32Type}:
			s.Value = math.Float32frombits(uint32(f.number))
		}
		return nil
	})
}

// id tells fields of a message apart.
type id struct {
	field protowire.Number
	kind  protowire.Type
}

// field is a field with its value: bytes of BytesType, else a number.
type field struct {
	id
	number uint64
	bytes  []byte
}

// fields calls f for each field of a message.
func fields(b []byte, f func(field) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		v := field{id: id{number, kind}}
		switch kind {
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var x uint32
			x, n = protowire.ConsumeFixed32(b)
			v.number = uint64(x)
		case protowire.Fixed64Type:
			v.number, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}
