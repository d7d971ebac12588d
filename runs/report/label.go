package report

import (
	"fmt"
	"slices"
	"strings"

	"halfstep/runs"
)

// labels name the runs by what tells them apart from those of the same configuration: "cnn float16, batch 512, seed 2". Where
// that leaves two runs alike, and where a run has no summary, the ids without their dates stand instead.
func labels(records []*runs.Record) []string {
	keys := map[string][]string{}
	dtypes, seeds := map[string]bool{}, map[uint64]bool{}
	for _, r := range records {
		if r.Summary == nil {
			return shortNames(records)
		}
		dtypes[r.Summary.DType], seeds[r.Summary.Seed] = true, true
		if name := r.Summary.Config; keys[name] == nil {
			same := slices.DeleteFunc(slices.Clone(records), func(o *runs.Record) bool { return o.Summary == nil || o.Summary.Config != name })
			keys[name] = append([]string{}, runs.NewTable(same).Keys...)
		}
	}
	var names []string
	for _, r := range records {
		name := label(r, keys[r.Summary.Config], len(dtypes) > 1, len(seeds) > 1)
		if slices.Contains(names, name) {
			return shortNames(records)
		}
		names = append(names, name)
	}
	return names
}

// label tells the values of the keys, and dtype and seed if asked for.
func label(r *runs.Record, keys []string, dtype, seed bool) string {
	name := r.Summary.Config
	if dtype {
		name += " " + r.Summary.DType
	}
	parts := []string{name}
	for _, key := range keys {
		switch _, last, _ := strings.Cut(key, "."); {
		case key == "name", key == "amp.enabled", key == "amp.dtype":
		case key == "data.batch_size":
			parts = append(parts, fmt.Sprintf("batch %d", r.Summary.BatchSize))
		case r.Config[key] != "":
			parts = append(parts, last+" "+r.Config[key])
		}
	}
	if seed {
		parts = append(parts, fmt.Sprintf("seed %d", r.Summary.Seed))
	}
	return strings.Join(parts, ", ")
}

func shortNames(records []*runs.Record) []string {
	names := make([]string, len(records))
	for i, r := range records {
		names[i] = shortName(r.ID)
	}
	return names
}

// shortName is a run's id without its date.
func shortName(id string) string {
	if date, rest, ok := strings.Cut(id, "-"); ok && len(date) == len("20060102T150405Z") && date[8] == 'T' {
		return rest
	}
	return id
}
