package configs

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Validate checks a config that was not loaded, or was changed after loading. Its error is an *Error.
func (c *Config) Validate() error {
	v := &validator{}
	v.config(c)
	return newError(v.problems)
}

// validator checks values that have the right type.
type validator struct {
	at       map[string]Position // where keys were written; nil when that is not known
	problems []Problem
}

func (v *validator) problem(key, format string, args ...any) {
	v.problems = append(v.problems, Problem{v.position(key), key, fmt.Sprintf(format, args...)})
}

// position is where a key was written, or else the nearest section around it.
func (v *validator) position(key string) Position {
	for {
		if p, ok := v.at[key]; ok || key == "" {
			return p
		}
		key = key[:max(0, strings.LastIndexByte(key, '.'))]
	}
}

// without leaves out what only follows from problems found before: with keys that could not be read, or were misspelt.
func (v *validator) without(earlier []Problem, meant []string) []Problem {
	for _, e := range earlier {
		meant = append(meant, e.Key)
	}
	return slices.DeleteFunc(v.problems, func(p Problem) bool {
		return slices.ContainsFunc(meant, func(key string) bool {
			return key == p.Key || strings.HasPrefix(p.Key, key+".") || strings.HasPrefix(key, p.Key+".")
		})
	})
}

func (v *validator) config(c *Config) {
	if strings.ContainsAny(c.Name, `/\`) || c.Name == "." || c.Name == ".." {
		v.problem("name", "want a name without / and \\, got %s", c.Name)
	}
	if !device.MatchString(c.Device) {
		v.problem("device", "want auto, cpu, cuda, cuda:N or gorgonia, got %s", c.Device)
	}
	atLeast(v, "threads", c.Threads, 0)
	atLeast(v, "epochs", c.Epochs, 1)
	atLeast(v, "max_steps", c.MaxSteps, 0)
	if c.RunsDir == "" {
		v.problem("runs_dir", "want a folder")
	}
	v.data(&c.Data)
	v.model(&c.Model)
	v.loss(c)
	v.amp(&c.AMP)
	v.optim(&c.Optim)
	v.schedule(c)
	v.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	atLeast(v, "log.every", c.Log.Every, 1)
	atLeast(v, "checkpoint.every", c.Checkpoint.Every, 0)
	atLeast(v, "checkpoint.steps", c.Checkpoint.Steps, 0)
	atLeast(v, "checkpoint.keep", c.Checkpoint.Keep, 1)
	if c.Checkpoint.Best {
		v.needsValidation("checkpoint.best", c)
		if c.Data.Name == "random" {
			v.problem("checkpoint.best", "random targets have no accuracy to compare")
		}
	}
}

var device = regexp.MustCompile(`^(auto|cpu|gorgonia|cuda(:(0|[1-9][0-9]{0,3}))?)$`)

func (v *validator) data(d *Data) {
	if !v.variant("data.name", d.Name, reflect.TypeFor[Data]()) {
		return
	}
	atLeast(v, "data.batch_size", d.BatchSize, 1)
	atLeast(v, "data.validation", d.Validation, 0)
	if d.Validation >= 1 && d.Validation != math.Trunc(d.Validation) {
		v.problem("data.validation", "want a share below 1 or a whole number of samples, got %v", d.Validation)
	}
	if d.Name == "random" {
		v.random(d)
		return
	}
	if d.Split != "" {
		v.oneOf("data.split", d.Split, EMNISTSplits()...)
	}
	positive(v, "data.normalize.std", d.Normalize.Std)
	atLeast(v, "data.augment.shift", d.Augment.Shift, 0)
	if d.Name == "idx" && d.Dir == "" {
		v.problem("data.dir", "idx needs the folder that holds the files")
	}
}

func (v *validator) random(d *Data) {
	v.needed("data.random.samples", d.Random.Samples, "random data")
	v.needed("data.random.features", d.Random.Features, "random data")
	v.needed("data.random.targets", d.Random.Targets, "random data")
	samples := float64(d.Random.Samples)
	if d.Validation < 1 {
		samples -= math.Floor(samples * d.Validation)
	} else {
		samples -= d.Validation
	}
	switch {
	case d.Random.Samples < 1:
	case samples < 1:
		v.problem("data.validation", "%v leaves none of the %d samples to train on", d.Validation, d.Random.Samples)
	case d.DropLast && samples < float64(d.BatchSize):
		v.problem("data.drop_last", "drops the only batch: %v samples are fewer than batch_size %d", samples, d.BatchSize)
	}
}

func (v *validator) loss(c *Config) {
	if !v.variant("loss.name", c.Loss.Name, reflect.TypeFor[Loss]()) {
		return
	}
	if c.Loss.Name != "cross_entropy" {
		v.oneOf("loss.reduction", c.Loss.Reduction, "mean", "sum", "batch_mean")
		return
	}
	within(v, "loss.label_smoothing", c.Loss.LabelSmoothing, 0, 1)
	if c.Data.Name == "random" {
		v.problem("loss.name", "cross_entropy needs labels, random data has none; use mse")
	}
}

func (v *validator) amp(a *AMP) {
	v.oneOf("amp.dtype", a.DType, "float16", "bfloat16")
	s, key := a.GradScaler, "amp.grad_scaler."
	v.oneOf(key+"enabled", s.Enabled, "auto", "true", "false")
	positive(v, key+"init_scale", s.InitScale)
	if s.GrowthFactor <= 1 {
		v.problem(key+"growth_factor", "want more than 1, got %v", s.GrowthFactor)
	}
	if s.BackoffFactor <= 0 || s.BackoffFactor >= 1 {
		v.problem(key+"backoff_factor", "want more than 0 and less than 1, got %v", s.BackoffFactor)
	}
	atLeast(v, key+"growth_interval", s.GrowthInterval, 1)
	atLeast(v, key+"min_scale", s.MinScale, 0)
	atLeast(v, key+"max_scale", s.MaxScale, 0)
	atLeast(v, key+"max_consecutive_skips", s.MaxConsecutiveSkips, 1)
	switch {
	case s.MaxScale > 0 && s.MaxScale < s.MinScale:
		v.problem(key+"max_scale", "is %v, below min_scale %v", s.MaxScale, s.MinScale)
	case s.InitScale < s.MinScale:
		v.problem(key+"init_scale", "is %v, below min_scale %v", s.InitScale, s.MinScale)
	case s.MaxScale > 0 && s.InitScale > s.MaxScale:
		v.problem(key+"init_scale", "is %v, above max_scale %v", s.InitScale, s.MaxScale)
	}
}

// needsValidation refuses a key that would otherwise have to look at the test set.
func (v *validator) needsValidation(key string, c *Config) {
	if c.Data.Validation == 0 {
		v.problem(key, "needs data.validation above 0, for the test set is not looked at in training")
	}
}

// variant checks the name that decides which other keys of a section count.
func (v *validator) variant(key, name string, section reflect.Type) bool {
	return v.oneOf(key, name, names(variants(section))...)
}

func (v *validator) oneOf(key, got string, want ...string) bool {
	if slices.Contains(want, got) {
		return true
	}
	message := fmt.Sprintf("want %s, got %s", strings.Join(want, " | "), strconv.Quote(got))
	if near := nearest(got, want); near != "" {
		message += "; did you mean " + near + "?"
	}
	v.problem(key, "%s", message)
	return false
}

// needed checks a count that has no default.
func (v *validator) needed(key string, got int, owner string) {
	if _, written := v.at[key]; got == 0 && !written {
		v.problem(key, "%s needs it, at least 1", owner)
		return
	}
	atLeast(v, key, got, 1)
}

func atLeast[T cmp.Ordered](v *validator, key string, got, low T) {
	if !(got >= low) {
		v.problem(key, "want at least %v, got %v", low, got)
	}
}

func positive[T float32 | float64](v *validator, key string, got T) {
	if !(got > 0) {
		v.problem(key, "want more than 0, got %v", got)
	}
}

func within[T float32 | float64](v *validator, key string, got, low, high T) {
	if !(got >= low && got <= high) {
		v.problem(key, "want %v to %v, got %v", low, high, got)
	}
}

// below takes low <= got < high.
func below[T float32 | float64](v *validator, key string, got, low, high T) {
	if !(got >= low && got < high) {
		v.problem(key, "want at least %v and less than %v, got %v", low, high, got)
	}
}
