package data

import "math"

// Description is what `train data` shows of a set.
type Description struct {
	Name     string           `json:"name"`
	Dir      string           `json:"dir"`
	Files    []File           `json:"files"`
	Height   int              `json:"height"`
	Width    int              `json:"width"`
	Channels int              `json:"channels"`
	Classes  int              `json:"classes"`
	Features int              `json:"features,omitempty"`
	Targets  int              `json:"targets,omitempty"`
	Train    SplitDescription `json:"train"`
	Test     SplitDescription `json:"test"`
	// TrainedOn and HeldOut count the training images on both sides of the validation split.
	TrainedOn int `json:"trained_on"`
	HeldOut   int `json:"held_out"`
	// Mean and Std are those of the training pixels in 0..1 (the deviation over all pixels), for data.normalize.
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
}

// SplitDescription counts the images of a split.
type SplitDescription struct {
	N        int   `json:"n"`
	PerClass []int `json:"per_class"` // [Classes]
}

// Describe counts what a set holds.
func Describe(s *Set) Description {
	d := Description{
		Name: s.Name, Dir: s.Dir, Files: s.Files, Height: s.Height, Width: s.Width, Channels: s.Channels, Classes: s.Classes,
		Features: s.Features, Targets: s.Targets, Train: describe(s.Train, s.Classes), Test: describe(s.Test, s.Classes),
		TrainedOn: len(s.TrainIndex), HeldOut: len(s.ValIndex),
	}
	d.Mean, d.Std = moments(s.Train.Images)
	return d
}

func describe(s Split, classes int) SplitDescription {
	d := SplitDescription{N: s.N, PerClass: make([]int, classes)}
	for _, l := range s.Labels {
		d.PerClass[l]++
	}
	return d
}

// moments sums through a histogram of the 256 values: exact and in one pass.
func moments(pixels []byte) (mean, std float64) {
	if len(pixels) == 0 {
		return 0, 0
	}
	var counts [256]int
	for _, p := range pixels {
		counts[p]++
	}
	var sum, squares float64
	for v, n := range counts {
		x := float64(v) / 255
		sum += float64(n) * x
		squares += float64(n) * x * x
	}
	mean = sum / float64(len(pixels))
	return mean, math.Sqrt(max(0, squares/float64(len(pixels))-mean*mean))
}
