// Package data gives the images as bytes and the labels: it finds IDX files (MNIST and all that share its format), checks
// them, splits off validation images and draws each epoch's order. GoMNIST parses the compressed files.
//
// Only Fetch touches the network.
package data

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"halfstep/configs"
	"halfstep/philox"
)

// Set is a data set in memory. An image set has Height to Classes, random data has Features and Targets.
type Set struct {
	Name  string
	Dir   string // the folder the files lie in; empty for random data
	Files []File // train images, train labels, test images, test labels
	Train Split
	Test  Split

	Height, Width, Channels int // of an image, after transposing
	Classes                 int // labels lie in 0..Classes-1

	Features, Targets int // columns of Split.Inputs and Split.Targets

	// TrainIndex and ValIndex number the images of Train that are trained on and held out, both ascending.
	TrainIndex, ValIndex []int32
}

// EMNISTSplit is the one of EMNIST's sets that the files are named for; empty where they have MNIST's names.
func (s *Set) EMNISTSplit() string {
	if len(s.Files) > 0 {
		for _, split := range configs.EMNISTSplits() {
			if strings.HasPrefix(s.Files[0].Name, "emnist-"+split+"-") {
				return split
			}
		}
	}
	return ""
}

// Split is the training or the test half of a set.
type Split struct {
	N       int
	Images  []byte    // [N,H,W]
	Labels  []int32   // [N]
	Inputs  []float32 // [N,Features], random data
	Targets []float32 // [N,Targets], random data
}

// File is one file of a set as it lies on disk.
type File struct {
	Path   string `json:"path"`
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // of the bytes on disk, in hexadecimal
	Bytes  int64  `json:"bytes"`
	Known  bool   `json:"known"` // it is the published file, compressed or not
}

// Open loads the set that cfg names and splits off its validation images; both splits and random data follow the seed.
//
// Image sets are looked for in data.dir if that is given, else in $MNIST_DIR (for mnist; $FASHION_MNIST_DIR and so on) if
// that is set, else in the user's cache and, for mnist, in the GoMNIST module, which carries the files. A folder named by
// the user is never passed over for another. Whether a file is compressed is told by its content, not by its name.
//
// Where one folder holds several of EMNIST's sets, data.split chooses.
//
// A set that is missing or damaged is an *Error, a setting that cannot be followed a *ConfigError.
func Open(cfg configs.Data, seed uint64) (*Set, error) {
	set, err := load(cfg, seed)
	if err != nil {
		return nil, err
	}
	set.TrainIndex, set.ValIndex, err = SplitValidation(set.Train.N, cfg.Validation, seed)
	if err != nil {
		return nil, err
	}
	return set, nil
}

func load(cfg configs.Data, seed uint64) (*Set, error) {
	if cfg.Name == "random" {
		return randomSet(cfg.Random, seed)
	}
	src, ok := lookup(cfg.Name)
	if !ok {
		return nil, &ConfigError{Key: "data.name", Message: fmt.Sprintf("%q is no data set, want %s or random", cfg.Name, nameList())}
	}
	src.split = cfg.Split
	paths, err := locate(src, cfg.Dir)
	if err != nil {
		return nil, err
	}
	set, err := read(src, paths)
	if err != nil {
		return nil, err
	}
	if cfg.Transpose {
		set.transpose()
	}
	return set, nil
}

// read loads the four files at once and checks that they belong together.
func read(src source, paths [parts]string) (*Set, error) {
	var (
		content [parts]idx
		files   [parts]File
		errs    [parts]error
		wg      sync.WaitGroup
	)
	for p := range parts {
		wg.Go(func() { content[p], files[p], errs[p] = readIDX(p, paths[p], src.sums[p]) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	train, err := pair(content, paths, trainImages, trainLabels)
	if err != nil {
		return nil, err
	}
	test, err := pair(content, paths, testImages, testLabels)
	if err != nil {
		return nil, err
	}
	h, w := content[trainImages].rows, content[trainImages].cols
	if c := content[testImages]; c.rows != h || c.cols != w {
		return nil, &Error{
			Step: testImages.String(), Path: paths[testImages],
			Found: fmt.Sprintf("images of %dx%d", c.rows, c.cols), Want: fmt.Sprintf("%dx%d as in %s", h, w, filepath.Base(paths[trainImages])),
		}
	}
	classes := src.classes
	if classes == 0 {
		classes = int(max(slices.Max(train.Labels), slices.Max(test.Labels))) + 1
	}
	if err := checkLabels(train.Labels, classes, trainLabels, paths); err != nil {
		return nil, err
	}
	if err := checkLabels(test.Labels, classes, testLabels, paths); err != nil {
		return nil, err
	}
	return &Set{
		Name: src.name, Dir: filepath.Dir(paths[trainImages]), Files: files[:], Train: train, Test: test,
		Height: h, Width: w, Channels: 1, Classes: classes,
	}, nil
}

// pair makes a split of an images file and its labels file.
func pair(content [parts]idx, paths [parts]string, images, labels part) (Split, error) {
	n := content[images].count
	if content[labels].count != n {
		return Split{}, &Error{
			Step: labels.String(), Path: paths[labels],
			Found: fmt.Sprintf("%d labels", content[labels].count),
			Want:  fmt.Sprintf("%d, one for each image in %s", n, filepath.Base(paths[images])),
		}
	}
	s := Split{N: n, Images: content[images].body, Labels: make([]int32, n)}
	for i, b := range content[labels].body {
		s.Labels[i] = int32(b)
	}
	return s, nil
}

func checkLabels(labels []int32, classes int, p part, paths [parts]string) error {
	for i, l := range labels {
		if int(l) >= classes {
			return &Error{
				Step: p.String(), Path: paths[p],
				Found: fmt.Sprintf("label %d of image %d", l, i), Want: fmt.Sprintf("0 to %d", classes-1),
			}
		}
	}
	return nil
}

// transpose swaps the rows and columns of every image.
func (s *Set) transpose() {
	for _, split := range []*Split{&s.Train, &s.Test} {
		split.Images = transposed(split.Images, s.Height, s.Width)
	}
	s.Height, s.Width = s.Width, s.Height
}

// transposed turns images [N,H,W] into [N,W,H].
func transposed(images []byte, h, w int) []byte {
	out := make([]byte, len(images))
	for base := 0; base < len(images); base += h * w {
		for y := range h {
			for x := range w {
				out[base+x*h+y] = images[base+y*w+x]
			}
		}
	}
	return out
}

// SplitValidation draws which of n training images are held out. Below 1, validation is their share, rounded down; from 1
// on, their number. Both lists ascend. Zero holds out none; a split with nothing on one side is a *ConfigError.
func SplitValidation(n int, validation float64, seed uint64) (train, val []int32, err error) {
	k, err := validationCount(n, validation)
	if err != nil {
		return nil, nil, err
	}
	perm := philox.NewStream(seed, philox.Split, 0, 0).Perm(n)
	val, train = perm[:k:k], perm[k:]
	slices.Sort(val)
	slices.Sort(train)
	return train, val, nil
}

func validationCount(n int, validation float64) (int, error) {
	refuse := func(format string, args ...any) (int, error) {
		return 0, &ConfigError{Key: "data.validation", Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case validation == 0:
		return 0, nil
	case !(validation > 0):
		return refuse("%v, want 0 or more", validation)
	case validation >= float64(n):
		return refuse("%v of %d training images leaves none to train on", validation, n)
	case validation >= 1 && validation != float64(int(validation)):
		return refuse("%v images, want a whole number, or a share below 1", validation)
	case validation >= 1:
		return int(validation), nil
	}
	// 0.29 is a little less than 29/100 in binary; the small term gives 29 of 100, as was written.
	k := int(validation*float64(n) + 1e-6)
	if k == 0 {
		return refuse("%v of %d training images is none", validation, n)
	}
	return min(k, n-1), nil
}

// EpochOrder is the order in which one epoch visits the images numbered in index. It depends on its arguments alone: a
// resumed run draws what an uninterrupted one would have.
func EpochOrder(seed uint64, epoch int, index []int32, shuffle bool) []int32 {
	if !shuffle {
		return slices.Clone(index)
	}
	order := philox.NewStream(seed, philox.Order, uint32(epoch), 0).Perm(len(index))
	for i, j := range order {
		order[i] = index[j]
	}
	return order
}
