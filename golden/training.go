package golden

import (
	"embed"
	"math"
)

//go:embed testdata/train_*.json
var trainingFiles embed.FS

// Training holds training runs of PyTorch in float64 from the same float32 initial values.
type Training struct {
	Params []struct {
		Name   string `json:"name"`
		Tensor Tensor `json:"tensor"`
	} `json:"initial_parameters"`
	Steps   int           `json:"steps"`
	Inputs  Tensor        `json:"inputs"`  // of random data
	Targets Tensor        `json:"targets"` // of random data
	Runs    []TrainingRun `json:"runs"`
}

// TrainingRun is one run. Loss and Norm, and their tolerances, hold a value for each step.
type TrainingRun struct {
	Name  string    `json:"name"`
	Batch int       `json:"batch"`
	LR    float64   `json:"learning_rate"`
	Loss  []float64 `json:"loss_before_step_float64"`
	Norm  []float64 `json:"gradient_norm_float64"` // over all parameters
	Grads []struct {
		Name  string    `json:"name"`
		Norm  float64   `json:"norm"`
		First []float64 `json:"first_values"`
	} `json:"gradients_at_first_step_float64"`
	Params []struct {
		Name      string    `json:"name"`
		Sum       float64   `json:"sum_float64"`
		Abs       float64   `json:"sum_of_absolute_values_float64"`
		First     []float64 `json:"first_values_float64"`
		Tolerance struct {
			Element float64 `json:"element"`
			Sum     float64 `json:"sum"`
			Abs     float64 `json:"sum_of_absolute_values"`
		} `json:"suggested_absolute_tolerance"`
	} `json:"parameters_after_last_step"`
	Tolerance struct {
		Loss []float64 `json:"loss_relative"` // for Limit
		Norm []float64 `json:"gradient_norm_relative"`
	} `json:"suggested_tolerance"`
}

// LoadTraining reads one of this package's files: "train_seedcnn.json", "train_mlp16.json" or "train_tutorial.json". The field
// "about" of each tells the network, the data and where the tolerances come from.
func LoadTraining(name string) (*Training, error) {
	b, err := trainingFiles.ReadFile("testdata/" + name)
	if err != nil {
		return nil, err
	}
	var f Training
	return &f, decode(name, b, &f)
}

// Limit is the largest |got-want| that a relative tolerance of these files allows.
func Limit(tolerance, want float64) float64 { return tolerance*max(math.Abs(want), 0.01) + 1e-6 }
