package runs

import (
	"fmt"
	"slices"
	"strings"
)

// settings are what can make a difference to a run's result.
func settings(r *Record) map[string]string {
	s := map[string]string{}
	for key, value := range r.Config {
		if key == "seed" || key == "runs_dir" || strings.HasPrefix(key, "log.") || strings.HasPrefix(key, "checkpoint.") {
			continue
		}
		s[key] = value
	}
	if r.Summary != nil { // what `device: auto` came to
		s["device"] = r.Summary.Device
	}
	for key, value := range map[string]string{
		"environment.cpu": r.Environment.CPU, "environment.isa": r.Environment.ISA, "environment.gpu": r.Environment.GPU,
	} {
		if value != "" {
			s[key] = value
		}
	}
	return s
}

func groupKey(r *Record) string {
	s := settings(r)
	var b strings.Builder
	for _, key := range sortedKeys(s) {
		b.WriteString(key + "\x00" + s[key] + "\x00")
	}
	return b.String()
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// layersKey is the key of the list of layers, and of its short form in tables.
const layersKey = "model.layers"

// tellingKeys lists the keys that tell the settings apart, sorted: those whose values differ. A key that only some of the
// settings have, such as optim.rho, is there because of another that differs, such as optim.name; it counts only where its
// values differ too. Where the layers are not the same list, they count as one key, and their short form is added to the
// settings. Where all this leaves two settings alike, every differing key counts.
func tellingKeys(all []map[string]string) []string {
	every := differing(all)
	if !slices.ContainsFunc(every, func(key string) bool { return !inAll(all, key) }) {
		return every
	}
	var keys []string
	for _, key := range every {
		layer := strings.HasPrefix(key, layersKey+".")
		if !layer && differs(all, key) {
			keys = append(keys, key)
		}
	}
	if slices.ContainsFunc(every, func(key string) bool { return strings.HasPrefix(key, layersKey+".") }) {
		for _, s := range all {
			s[layersKey] = shortLayers(s)
		}
		keys = append(keys, layersKey)
		slices.Sort(keys)
	}
	if !distinct(all, keys) {
		return every
	}
	return keys
}

// differing lists the keys that do not have one value in all of the settings, sorted.
func differing(all []map[string]string) []string {
	union := map[string]string{}
	for _, s := range all {
		for key := range s {
			union[key] = ""
		}
	}
	return slices.DeleteFunc(sortedKeys(union), func(key string) bool { return inAll(all, key) && !differs(all, key) })
}

func inAll(all []map[string]string, key string) bool {
	return !slices.ContainsFunc(all, func(s map[string]string) bool { _, ok := s[key]; return !ok })
}

// differs reports whether the settings that have the key have more than one value of it.
func differs(all []map[string]string, key string) bool {
	seen := map[string]bool{}
	for _, s := range all {
		if value, ok := s[key]; ok {
			seen[value] = true
		}
	}
	return len(seen) > 1
}

// distinct reports whether no two settings are alike in the keys.
func distinct(all []map[string]string, keys []string) bool {
	seen := map[string]bool{}
	for _, s := range all {
		var b strings.Builder
		for _, key := range keys {
			b.WriteString(s[key] + "\x00")
		}
		seen[b.String()] = true
	}
	return len(seen) == len(all)
}

// shortLayers names the layers that have weights, with their size: "conv2d 32, conv2d 64, linear 128, linear 10".
func shortLayers(s map[string]string) string {
	var names []string
	for i := 0; ; i++ {
		prefix := fmt.Sprintf("%s.%d", layersKey, i)
		has := slices.ContainsFunc(sortedKeys(s), func(key string) bool { return key == prefix || strings.HasPrefix(key, prefix+".") })
		if !has {
			return strings.Join(names, ", ")
		}
		for _, size := range []string{"conv2d.filters", "linear.units"} {
			if n, ok := s[prefix+"."+size]; ok {
				kind, _, _ := strings.Cut(size, ".")
				names = append(names, kind+" "+n)
			}
		}
	}
}
