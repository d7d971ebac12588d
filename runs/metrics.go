package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strconv"
	"strings"
)

// metricsHeader is the first line of metrics.csv: the keys of Epoch.
func metricsHeader() []byte {
	var names []string
	for _, k := range Keys(Epoch{}) {
		names = append(names, k.Name)
	}
	return []byte(strings.Join(names, ",") + "\n")
}

// metricsRow is an epoch as a line of metrics.csv. What does not apply is empty; nan, inf and -inf stand as such.
func metricsRow(e Epoch) []byte {
	v := reflect.ValueOf(e)
	var cells []string
	for _, f := range taggedFields(v.Type()) {
		cells = append(cells, csvCell(v.FieldByIndex(f.Index)))
	}
	return []byte(strings.Join(cells, ",") + "\n")
}

func csvCell(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return ""
	}
	v = reflect.Indirect(v)
	if v.Kind() != reflect.Float64 {
		return fmt.Sprint(v)
	}
	if r := reason(v.Float()); r != "" {
		return r
	}
	return strconv.FormatFloat(v.Float(), 'g', -1, 64)
}

// readMetrics reads metrics.csv; a missing file has no epochs. A last line without its end is left out, and so is a line
// that was cut when the disk was full: the log has them too. Columns are found by name.
func readMetrics(path string) ([]Epoch, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(b), "\n")
	lines = lines[:len(lines)-1] // what follows the last newline is not a whole line
	if len(lines) == 0 {
		return nil, nil
	}
	names := strings.Split(strings.TrimSuffix(lines[0], "\r"), ",")
	var epochs []Epoch
	for _, line := range lines[1:] {
		cells := strings.Split(strings.TrimSuffix(line, "\r"), ",")
		if len(cells) != len(names) {
			continue
		}
		var e Epoch
		if err := decodeKeys(csvToJSON(names, cells), reflect.ValueOf(&e).Elem()); err == nil {
			epochs = append(epochs, e)
		}
	}
	return epochs, nil
}

// csvToJSON turns a row into the keys of an event.
func csvToJSON(names, cells []string) map[string]json.RawMessage {
	raw := map[string]json.RawMessage{}
	for i, cell := range cells {
		if _, ok := unreason(cell); ok {
			raw[names[i]] = json.RawMessage("null")
			raw[names[i]+reasonSuffix] = json.RawMessage(cell)
		} else if cell != "" {
			raw[names[i]] = json.RawMessage(cell)
		}
	}
	return raw
}
