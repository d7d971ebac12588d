package runs

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"

	"go.uber.org/zap/zapcore"
)

// Key is one key of an event or of the summary.
type Key struct {
	Name     string
	Type     string // string, int, float, bool, or [] of string or int
	Optional bool   // left out where it does not apply
}

// Keys lists the keys of an event or of Summary, in order. They come from the struct: the json tag names the key, a
// pointer or a slice may be absent.
func Keys(v any) []Key {
	var r []Key
	for _, f := range taggedFields(reflect.TypeOf(v)) {
		t, optional := f.Type, false
		if t.Kind() == reflect.Pointer {
			t, optional = t.Elem(), true
		}
		prefix := ""
		if t.Kind() == reflect.Slice {
			t, prefix, optional = t.Elem(), "[]", true
		}
		r = append(r, Key{f.Tag.Get("json"), prefix + typeName(t), optional})
	}
	return r
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Float64:
		return "float"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "int"
	}
	return t.Kind().String()
}

// taggedFields lists the fields of a struct and of those embedded in it that have a json tag.
func taggedFields(t reflect.Type) []reflect.StructField {
	var r []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("json") != "" {
			r = append(r, f)
		}
	}
	return r
}

// reasonSuffix is added to the key of a number that JSON cannot hold.
const reasonSuffix = "_reason"

// reason names a number that JSON cannot hold; empty when it can.
func reason(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	return ""
}

// unreason is the number that a reason names.
func unreason(s string) (float64, bool) {
	switch s {
	case "nan":
		return math.NaN(), true
	case "inf":
		return math.Inf(1), true
	case "-inf":
		return math.Inf(-1), true
	}
	return 0, false
}

// object writes a tagged struct as the fields of a JSON object. A number that JSON cannot hold becomes null with the
// reason beside it; zap alone would make it a string.
type object struct{ v any }

func (o object) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	v := reflect.ValueOf(o.v)
	for _, f := range taggedFields(v.Type()) {
		if err := addField(enc, f.Tag.Get("json"), v.FieldByIndex(f.Index)); err != nil {
			return err
		}
	}
	return nil
}

func addField(enc zapcore.ObjectEncoder, key string, v reflect.Value) error {
	if (v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice) && v.IsNil() {
		return nil
	}
	v = reflect.Indirect(v)
	switch v.Kind() {
	case reflect.String:
		enc.AddString(key, v.String())
	case reflect.Bool:
		enc.AddBool(key, v.Bool())
	case reflect.Int, reflect.Int64:
		enc.AddInt64(key, v.Int())
	case reflect.Uint64:
		enc.AddUint64(key, v.Uint())
	case reflect.Float64:
		if r := reason(v.Float()); r != "" {
			err := enc.AddReflected(key, nil)
			enc.AddString(key+reasonSuffix, r)
			return err
		}
		enc.AddFloat64(key, v.Float())
	case reflect.Slice:
		return enc.AddReflected(key, v.Interface())
	default:
		return fmt.Errorf("runs: key %s: no encoding for %s", key, v.Type())
	}
	return nil
}

// decode fills the tagged struct that v points to from a JSON object. Unknown keys are left alone: a later version may
// have added them.
func decode(line []byte, v any) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(line, &raw); err != nil {
		return err
	}
	return decodeKeys(raw, reflect.ValueOf(v).Elem())
}

func decodeKeys(raw map[string]json.RawMessage, v reflect.Value) error {
	for _, f := range taggedFields(v.Type()) {
		key := f.Tag.Get("json")
		value, ok := raw[key]
		if !ok {
			continue
		}
		if string(value) == "null" {
			if number, ok := unreason(strings.Trim(string(raw[key+reasonSuffix]), `"`)); ok {
				setFloat(v.FieldByIndex(f.Index), number)
			}
			continue
		}
		if err := json.Unmarshal(value, v.FieldByIndex(f.Index).Addr().Interface()); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func setFloat(v reflect.Value, number float64) {
	if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Float64 {
		v.Set(reflect.ValueOf(&number))
	} else if v.Kind() == reflect.Float64 {
		v.SetFloat(number)
	}
}
