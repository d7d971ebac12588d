package trainer

import (
	"cmp"
	"context"
	"slices"

	"halfstep/picture"
)

// Prediction is what a model makes of one image.
type Prediction struct {
	File string  `json:"file"`
	Top  []Class `json:"top"` // most probable first
}

// Class is a class with its probability.
type Class struct {
	Class       int     `json:"class"`
	Probability float64 `json:"probability"`
}

// Predict classifies images [N,H,W,C], one for each file, and gives the top most probable classes of each.
func (k *Classifier) Predict(ctx context.Context, files []string, images []byte, top int) ([]Prediction, error) {
	p, err := k.Probabilities(ctx, images)
	if err != nil {
		return nil, err
	}
	r := make([]Prediction, len(files))
	for i, file := range files {
		classes := make([]Class, k.width)
		for j := range classes {
			classes[j] = Class{j, p[i*k.width+j]}
		}
		slices.SortStableFunc(classes, func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) })
		r[i] = Prediction{file, classes[:max(1, min(top, len(classes)))]}
	}
	return r, nil
}

// PredictFiles classifies image files by the model of a run folder.
func PredictFiles(ctx context.Context, dir string, files []string, top int, o UseOptions) ([]Prediction, error) {
	k, err := OpenClassifier(dir, o)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	if err := k.checkImages(); err != nil {
		return nil, err
	}
	h, w, _, _ := k.Shape()
	var images []byte
	for _, path := range files {
		b, err := picture.Load(path, picture.For(k.Dataset(), h, w))
		if err != nil {
			return nil, err
		}
		images = append(images, b...)
	}
	return k.Predict(ctx, files, images, top)
}
