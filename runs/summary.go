package runs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.uber.org/zap/zapcore"
)

// Summary is what a run came to: summary.json and the run_end event. docs/LOGS.md gives the meaning of each key.
type Summary struct {
	Config            string   `json:"config"`
	Seed              uint64   `json:"seed"`
	Device            string   `json:"device"`
	DType             string   `json:"dtype"`
	TF32              bool     `json:"tf32"`
	BatchSize         int      `json:"batch_size"`
	Epochs            int      `json:"epochs"`
	Steps             int      `json:"steps"`
	Seconds           float64  `json:"seconds"`
	ImagesPerS        float64  `json:"images_per_s"`
	TestAccuracy      *float64 `json:"test_accuracy"`
	TestLoss          *float64 `json:"test_loss"`
	BestValAccuracy   *float64 `json:"best_val_accuracy"`
	SkippedSteps      int      `json:"skipped_steps"`
	FinalLossScale    float64  `json:"final_loss_scale"`
	MemPlannedBytes   int64    `json:"mem_planned_bytes"`
	MemPeakBytes      int64    `json:"mem_peak_bytes"`
	ResidentDataBytes int64    `json:"resident_data_bytes"`
	ExitReason        string   `json:"exit_reason"` // completed | max_steps | interrupted | diverged | failed
	ExitCode          int      `json:"exit_code"`
}

// SummaryFile is the summary's name in the run folder. It is written last: a run that has it has ended.
const SummaryFile = "summary.json"

// writeSummary writes summary.json, the run's id before the keys of Summary.
func writeSummary(dir, id string, s Summary) error {
	line, err := encodeJSON(id, s)
	if err != nil {
		return fmt.Errorf("runs: summary: %w", err)
	}
	err = writeAtomic(filepath.Join(dir, SummaryFile), func(w io.Writer) error {
		_, err := w.Write(line)
		return err
	})
	if err != nil {
		return fmt.Errorf("runs: summary: %w", err)
	}
	return nil
}

// encodeJSON is a tagged struct as an indented JSON object that starts with the run's id.
func encodeJSON(id string, v any) ([]byte, error) {
	enc := zapcore.NewJSONEncoder(zapcore.EncoderConfig{SkipLineEnding: true})
	enc.AddString("run", id)
	if err := (object{v}).MarshalLogObject(enc); err != nil {
		return nil, err
	}
	line, err := enc.EncodeEntry(zapcore.Entry{}, nil)
	if err != nil {
		return nil, err
	}
	defer line.Free()
	var b bytes.Buffer
	if err := json.Indent(&b, line.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// readSummary reads summary.json; nil when the run has none.
func readSummary(dir string) (*Summary, error) {
	b, err := os.ReadFile(filepath.Join(dir, SummaryFile))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("runs: summary: %w", err)
	}
	s := new(Summary)
	if err := decode(b, s); err != nil {
		return nil, fmt.Errorf("runs: summary: %w", err)
	}
	return s, nil
}
