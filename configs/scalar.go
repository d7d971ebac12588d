package configs

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// YAML 1.1 reads 010 as eight, 1:30 as ninety, no as false and 1e-3 as text; people mean none of these. Numbers here are
// decimal, as in JSON with an optional sign and point, and booleans are true and false.
var (
	integer    = regexp.MustCompile(`^[-+]?[0-9]+$`)
	number     = regexp.MustCompile(`^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
	leadZero   = regexp.MustCompile(`^[-+]?0[0-9]`)
	notFinite  = regexp.MustCompile(`^[-+]?\.?(?i:inf|infinity|nan)$`)
	oldBoolean = regexp.MustCompile(`^(?i:y|yes|on|true|n|no|off|false)$`)
)

// setScalar parses a scalar node strictly by the type of dst.
func setScalar(n *yaml.Node, dst reflect.Value) error {
	want := wanted(dst)
	quoted := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return fmt.Errorf("tags such as %s are not supported; want %s", n.Tag, want)
	case dst.Kind() == reflect.String:
		return setText(n, quoted, dst)
	case quoted:
		return fmt.Errorf("want %s, got the text %q", want, n.Value)
	case n.ShortTag() == "!!null":
		return fmt.Errorf("no value; want %s", want)
	}
	switch dst.Kind() {
	case reflect.Bool:
		return setBool(n.Value, dst)
	case reflect.Float32, reflect.Float64:
		return setFloat(n.Value, dst)
	default:
		return setInt(n.Value, dst)
	}
}

// wanted says in words what a field holds.
func wanted(dst reflect.Value) string {
	switch dst.Kind() {
	case reflect.Struct:
		return "keys with values"
	case reflect.Slice:
		if dst.Type().Elem().Kind() == reflect.Struct {
			return "a list of layers"
		}
		return "a list of whole numbers"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "a whole number"
	}
}

// setText takes plain text that other readers of YAML take for text too. The scaler's auto | true | false may be plain.
func setText(n *yaml.Node, quoted bool, dst reflect.Value) error {
	switch tag := n.ShortTag(); {
	case quoted || tag == "!!str" || tag == "!!timestamp" || tag == "!!bool":
		dst.SetString(n.Value)
		return nil
	case tag == "!!null":
		return fmt.Errorf(`no value; want text, "" if it is empty`)
	default:
		return fmt.Errorf("want text, got %s; write %q with the quotes", n.Value, n.Value)
	}
}

func setBool(text string, dst reflect.Value) error {
	if text != "true" && text != "false" {
		if oldBoolean.MatchString(text) {
			yes := strings.ContainsAny(text[:1], "yYtT") || strings.EqualFold(text, "on")
			return fmt.Errorf("want true or false, got %s; write %t", text, yes)
		}
		return fmt.Errorf("want true or false, got %s", text)
	}
	dst.SetBool(text == "true")
	return nil
}

// setInt takes -2^31 < i < 2^31, for counters on devices are int32; the seed (uint64) takes all of its range.
func setInt(text string, dst reflect.Value) error {
	switch {
	case !integer.MatchString(text):
		if v, err := strconv.ParseFloat(text, 64); err == nil && v == math.Trunc(v) && math.Abs(v) < 1e15 && number.MatchString(text) {
			return fmt.Errorf("want a whole number, got %s; write %.0f", text, v)
		}
		return fmt.Errorf("want a whole number, got %s", text)
	case leadZero.MatchString(text):
		return leadingZero(text)
	case dst.Kind() == reflect.Uint64:
		v, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 64)
		if err != nil {
			return fmt.Errorf("want 0 to %d, got %s", uint64(math.MaxUint64), text)
		}
		dst.SetUint(v)
	default:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v > math.MaxInt32 || v < -math.MaxInt32 {
			return fmt.Errorf("want a whole number up to %d, got %s", math.MaxInt32, text)
		}
		dst.SetInt(v)
	}
	return nil
}

func setFloat(text string, dst reflect.Value) error {
	bits := dst.Type().Bits()
	switch {
	case notFinite.MatchString(text):
		return fmt.Errorf("want a finite number, got %s", text)
	case !number.MatchString(text):
		return fmt.Errorf("want a number, got %s", text)
	case leadZero.MatchString(text):
		return leadingZero(text)
	}
	v, err := strconv.ParseFloat(text, bits)
	if err != nil {
		return fmt.Errorf("%s is too large for a float%d", text, bits)
	}
	if v == 0 && strings.ContainsAny(strings.FieldsFunc(text, func(r rune) bool { return r == 'e' || r == 'E' })[0], "123456789") {
		return fmt.Errorf("%s is too small for a float%d", text, bits)
	}
	dst.SetFloat(v)
	return nil
}

func leadingZero(text string) error {
	sign := strings.TrimRight(text[:1], "0123456789")
	digits := strings.TrimLeft(text[len(sign):], "0")
	if digits == "" || strings.ContainsAny(digits[:1], ".eE") {
		digits = "0" + digits
	}
	return fmt.Errorf("%s has a leading zero, which YAML may read as octal; write %s", text, sign+digits)
}
