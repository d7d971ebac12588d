package data

import "strings"

// Error is data that is missing, damaged or not what it should be. A command that fails with it exits with code 3.
type Error struct {
	Step  string // what was at hand: "train-labels", "mnist", "fetch"
	Path  string // the file or folder, where there is one
	Found string
	Want  string
	Hint  string // what the user can do
	Err   error  // what the system said
}

// Error gives the parts that are set, as "data: train-labels: FILE: magic 0x00000803, want 0x00000801 (hint): cause".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("data: " + e.Step)
	if e.Path != "" {
		b.WriteString(": " + e.Path)
	}
	if e.Found != "" {
		b.WriteString(": " + e.Found)
	}
	if e.Want != "" {
		b.WriteString(", want " + e.Want)
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// ConfigError is a setting under `data` that cannot be followed. A command that fails with it exits with code 2.
type ConfigError struct {
	Key     string // "data.validation"
	Message string
}

// Error names the key.
func (e *ConfigError) Error() string { return e.Key + ": " + e.Message }
