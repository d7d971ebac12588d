package trainer

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	"halfstep/program"
)

// state is where training stands; with the store it is all that a checkpoint needs.
type state struct {
	Epoch    int  `json:"epoch"`    // current one, from 0
	Position int  `json:"position"` // samples consumed in it
	Sums     sums `json:"sums"`     // of this epoch so far
	// Recent is what the next step event sums up, so that it is the same after an interruption in between.
	Recent        sums    `json:"recent"`
	RecentSeconds float64 `json:"recent_seconds"`
	EpochSeconds  float64 `json:"epoch_seconds"` // of training in this epoch so far
	GradNorm      float   `json:"grad_norm"`
	LR            float64 `json:"lr"`
	// Momentum is that of the last update where the schedule moves it.
	Momentum *float64 `json:"momentum"`
	// BestVal is the best validation accuracy (or the negated loss, where there are no classes) so far.
	BestVal *float64 `json:"best_val"`
	Seconds float64  `json:"seconds"` // of training so far, evaluation included
	Trained float64  `json:"trained"` // seconds inside training steps
	Samples int64    `json:"samples"` // trained on so far

	EpochStart int32 `json:"epoch_start"` // attempts before the current epoch
	// WarnedMinScale: the log has the warning that the loss scale fell to its floor.
	WarnedMinScale bool `json:"warned_min_scale"`

	counters [program.NumCounters]int32
	scale    float32 // of the next step
}

// float is a float64 that is saved also where it is not finite, which JSON has no number for: "NaN", "+Inf", "-Inf".
type float float64

// MarshalJSON implements json.Marshaler.
func (f float) MarshalJSON() ([]byte, error) {
	if x := float64(f); math.IsNaN(x) || math.IsInf(x, 0) {
		return json.Marshal(strconv.FormatFloat(x, 'g', -1, 64))
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *float) UnmarshalJSON(b []byte) error {
	x, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*f = float(x)
	return err
}

// attempts is the number of updates attempted so far: the log's step.
func (s *state) attempts() int { return int(s.counters[program.CounterAttempts]) }

// Result is what a run came to.
type Result struct {
	Epochs, Steps  int
	Seconds        float64
	ImagesPerS     float64 // over training steps alone
	Test           *Evaluation
	BestVal        *float64
	Skipped        int
	FinalLossScale float64
	MemPlanned     int64
	MemPeak        int64
	ResidentData   int64
	MaxSteps       bool // ended by max_steps
}

// ErrInterrupted says that the context ended; the state has been saved.
var ErrInterrupted = errors.New("interrupted")

// DivergedError says that training cannot go on: a gradient is not finite and no smaller loss scale can help.
type DivergedError struct {
	Step    int
	Tensor  string // first one that was not finite
	Skips   int    // consecutive ones; 0 without loss scaling
	Message string
}

func (e *DivergedError) Error() string { return e.Message }
