package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// PredictionsFile is the name of Predictions in the run folder. Only a run that ended well has it.
const PredictionsFile = "predictions.json"

// Predictions are what the final parameters make of a split of images with classes.
type Predictions struct {
	Split     string   `json:"split"` // test
	Step      int      `json:"step"`
	Samples   int      `json:"samples"`
	Confusion [][]int  `json:"confusion"` // [label][predicted], numbers of samples
	Shape     []int    `json:"shape"`     // of one image: height, width, channels
	Worst     []Sample `json:"worst"`     // those of the largest loss, largest first
}

// Sample is one image and what was predicted for it.
type Sample struct {
	Index     int `json:"index"` // in the split, from 0
	Label     int `json:"label"`
	Predicted int `json:"predicted"`
	// Probability is the model's of the predicted class, and Loss the negative logarithm of its of the label; nil where the
	// outputs are not finite.
	Probability *float64 `json:"probability"`
	Loss        *float64 `json:"loss"`
	Pixels      []byte   `json:"pixels"` // [H,W,C] in 0..255, base64 in the file
}

// WritePredictions writes predictions.json.
func (r *Run) WritePredictions(p *Predictions) error {
	b, err := json.Marshal(struct {
		Run string `json:"run"`
		*Predictions
	}{r.ID, p})
	if err == nil {
		err = writeAtomic(filepath.Join(r.Dir, PredictionsFile), func(w io.Writer) error {
			_, err := w.Write(append(b, '\n'))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("runs: %s: %w", PredictionsFile, err)
	}
	return nil
}

// readPredictions reads predictions.json; nil when the run has none.
func readPredictions(dir string) (*Predictions, error) {
	b, err := os.ReadFile(filepath.Join(dir, PredictionsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := new(Predictions)
	if err := json.Unmarshal(b, p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, nil
}

// check refuses what no run writes, so that a reader may index without fear.
func (p *Predictions) check() error {
	classes := len(p.Confusion)
	for _, row := range p.Confusion {
		if len(row) != classes {
			return fmt.Errorf("confusion: a row of %d in %d classes", len(row), classes)
		}
	}
	if len(p.Shape) != 3 || min(p.Shape[0], p.Shape[1], p.Shape[2]) < 1 {
		return fmt.Errorf("shape %v, want height, width, channels", p.Shape)
	}
	for _, s := range p.Worst {
		if len(s.Pixels) != p.Shape[0]*p.Shape[1]*p.Shape[2] {
			return fmt.Errorf("image %d has %d bytes, want shape %v", s.Index, len(s.Pixels), p.Shape)
		}
		if s.Label < 0 || s.Label >= classes {
			return fmt.Errorf("image %d has label %d of %d classes", s.Index, s.Label, classes)
		}
		if s.Predicted < 0 || s.Predicted >= classes {
			return fmt.Errorf("image %d has prediction %d of %d classes", s.Index, s.Predicted, classes)
		}
	}
	return nil
}
