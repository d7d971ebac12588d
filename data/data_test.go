package data

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"halfstep/configs"
	"halfstep/philox"
)

// mnistHere opens the real MNIST of the GoMNIST module, which building this package downloads.
func mnistHere(t testing.TB) *Set {
	t.Helper()
	t.Setenv("MNIST_DIR", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // so that the module is reached
	set, err := Open(configs.Data{Name: "mnist"}, 42)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The expected figures are those of the published files: counts and labels from PyTorch (sum of pixels of the first 128
// images in the training traces), images per class from the data set's authors.
func TestRealMNIST(t *testing.T) {
	set := mnistHere(t)
	if set.Train.N != 60000 || set.Test.N != 10000 || set.Height != 28 || set.Width != 28 || set.Channels != 1 || set.Classes != 10 {
		t.Fatalf("%d + %d images of %dx%dx%d in %d classes", set.Train.N, set.Test.N, set.Height, set.Width, set.Channels, set.Classes)
	}
	if len(set.Train.Images) != 60000*28*28 || len(set.Test.Images) != 10000*28*28 {
		t.Errorf("%d and %d bytes", len(set.Train.Images), len(set.Test.Images))
	}
	if got, want := set.Train.Labels[:16], []int32{5, 0, 4, 1, 9, 2, 1, 3, 1, 4, 3, 5, 3, 6, 1, 7}; !slices.Equal(got, want) {
		t.Errorf("first labels %v, want %v", got, want)
	}
	sum := 0
	for _, b := range set.Train.Images[:128*28*28] {
		sum += int(b)
	}
	if sum != 3261487 {
		t.Errorf("the first 128 images sum to %d, want 3261487", sum)
	}
	for p, f := range set.Files {
		if want := mnist().sums[p]; !f.Known || f.Bytes != want.bytes {
			t.Errorf("%s with %d bytes and SHA-256 %s is not known, want %d bytes", f.Path, f.Bytes, f.SHA256, want.bytes)
		}
	}
	d := Describe(set)
	if want := []int{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}; !slices.Equal(d.Train.PerClass, want) {
		t.Errorf("training images per class %v, want %v", d.Train.PerClass, want)
	}
	if want := []int{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}; !slices.Equal(d.Test.PerClass, want) {
		t.Errorf("test images per class %v, want %v", d.Test.PerClass, want)
	}
	// PyTorch's examples normalise by 0.1307 and 0.3081: the figures to four digits.
	if d.Mean < 0.13065 || d.Mean > 0.13075 || d.Std < 0.30805 || d.Std > 0.30815 {
		t.Errorf("mean %.6f and deviation %.6f, want 0.1307 and 0.3081", d.Mean, d.Std)
	}
	t.Logf("mean %.6f, deviation %.6f", d.Mean, d.Std)
}

// The real files uncompressed, and compressed anew, are recognised too, and read the same.
func TestRealMNISTRecompressed(t *testing.T) {
	set := mnistHere(t)
	raw := append([]byte{0, 0, 8, 3, 0, 0, 0x27, 0x10, 0, 0, 0, 28, 0, 0, 0, 28}, set.Test.Images...)
	labels := []byte{0, 0, 8, 1, 0, 0, 0x27, 0x10}
	for _, l := range set.Test.Labels {
		labels = append(labels, byte(l))
	}
	for _, c := range []struct {
		what string
		p    part
		file []byte
		want bool
	}{
		{"raw images", testImages, raw, true},
		{"images compressed anew", testImages, gz(t, raw), true},
		{"raw labels", testLabels, labels, true},
		{"labels compressed anew", testLabels, gz(t, labels), true},
		{"one bit changed", testLabels, append(slices.Clone(labels[:len(labels)-1]), labels[len(labels)-1]^1), false},
	} {
		dir := writeFiles(t, t.TempDir(), map[string][]byte{"file": c.file})
		x, f, err := readIDX(c.p, dir+"/file", mnist().sums[c.p])
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if f.Known != c.want {
			t.Errorf("%s: known %v", c.what, f.Known)
		}
		if c.p == testImages && !bytes.Equal(x.body, set.Test.Images) {
			t.Errorf("%s: other pixels", c.what)
		}
	}
}

// GoMNIST's reading of compressed files against our reading of uncompressed ones.
func TestGzipAndRawReadTheSame(t *testing.T) {
	want := open(t, "mnist", writeFiles(t, t.TempDir(), small()))
	got := open(t, "mnist", writeFiles(t, t.TempDir(), smallGz(t)))
	if !bytes.Equal(got.Train.Images, want.Train.Images) || !slices.Equal(got.Train.Labels, want.Train.Labels) ||
		!bytes.Equal(got.Test.Images, want.Test.Images) || !slices.Equal(got.Test.Labels, want.Test.Labels) {
		t.Error("gzip and raw differ")
	}
	if !bytes.Equal(want.Train.Images, imagesIDX(4, 3, 5, 1)[16:]) || !slices.Equal(want.Train.Labels, []int32{3, 0, 9, 1}) {
		t.Errorf("%v %v", want.Train.Images, want.Train.Labels)
	}
	if want.Height != 3 || want.Width != 5 || want.Classes != 10 {
		t.Errorf("%dx%d, %d classes", want.Height, want.Width, want.Classes)
	}
}

func TestCompressionIsToldByContent(t *testing.T) {
	files := small()
	files["train-images-idx3-ubyte"] = gz(t, files["train-images-idx3-ubyte"])
	files["train-labels-idx1-ubyte.gz"] = files["train-labels-idx1-ubyte"]
	delete(files, "train-labels-idx1-ubyte")
	set := open(t, "mnist", writeFiles(t, t.TempDir(), files))
	if !bytes.Equal(set.Train.Images, imagesIDX(4, 3, 5, 1)[16:]) || !slices.Equal(set.Train.Labels, []int32{3, 0, 9, 1}) {
		t.Errorf("%v %v", set.Train.Images, set.Train.Labels)
	}
}

func TestTranspose(t *testing.T) {
	dir := writeFiles(t, t.TempDir(), small())
	plain := open(t, "mnist", dir)
	turned, err := Open(configs.Data{Name: "mnist", Dir: dir, Transpose: true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if turned.Height != 5 || turned.Width != 3 {
		t.Fatalf("%dx%d, want 5x3", turned.Height, turned.Width)
	}
	for n := range plain.Test.N {
		for y := range 3 {
			for x := range 5 {
				if got, want := turned.Test.Images[n*15+x*3+y], plain.Test.Images[n*15+y*5+x]; got != want {
					t.Fatalf("image %d, row %d, column %d: %d, want %d", n, y, x, got, want)
				}
			}
		}
	}
}

func TestClassesFollowTheLabels(t *testing.T) {
	files := small()
	files["t10k-labels-idx1-ubyte"] = labelsIDX(26, 1)
	if set := open(t, "idx", writeFiles(t, t.TempDir(), files)); set.Classes != 27 {
		t.Errorf("%d classes, want 27", set.Classes)
	}
}

func TestValidationCount(t *testing.T) {
	for _, c := range []struct {
		n          int
		validation float64
		want       int
	}{
		{60000, 0, 0},
		{60000, 0.1, 6000},
		{60000, 5000, 5000},
		{100, 0.29, 29}, // 0.29 is below 29/100 in binary
		{10, 0.19, 1},
		{10, 1, 1},
		{10, 9, 9},
		{10, 0.999999999999, 9},
	} {
		train, val, err := SplitValidation(c.n, c.validation, 7)
		if err != nil {
			t.Errorf("%v of %d: %v", c.validation, c.n, err)
			continue
		}
		if len(val) != c.want || len(train) != c.n-c.want {
			t.Errorf("%v of %d: %d held out and %d trained on, want %d held out", c.validation, c.n, len(val), len(train), c.want)
		}
		if !slices.IsSorted(val) || !slices.IsSorted(train) {
			t.Errorf("%v of %d: not ascending", c.validation, c.n)
		}
		all := slices.Concat(train, val)
		slices.Sort(all)
		for i, v := range all {
			if int(v) != i {
				t.Errorf("%v of %d: image %d missing or twice", c.validation, c.n, i)
				break
			}
		}
	}
}

func TestSplitIsThePhiloxPermutation(t *testing.T) {
	_, val, err := SplitValidation(1000, 100, 5)
	if err != nil {
		t.Fatal(err)
	}
	want := philox.NewStream(5, philox.Split, 0, 0).Perm(1000)[:100]
	slices.Sort(want)
	if !slices.Equal(val, want) {
		t.Error("other images held out than the stream says")
	}
	if _, other, _ := SplitValidation(1000, 100, 6); slices.Equal(val, other) {
		t.Error("another seed holds out the same images")
	}
}

func TestValidationRefused(t *testing.T) {
	dir := writeFiles(t, t.TempDir(), small())
	for _, c := range []struct {
		validation float64
		want       string
	}{
		{4, "data.validation: 4 of 4 training images leaves none to train on"},
		{60000, "data.validation: 60000 of 4 training images leaves none to train on"},
		{1.5, "data.validation: 1.5 images, want a whole number, or a share below 1"},
		{-1, "data.validation: -1, want 0 or more"},
		{0.1, "data.validation: 0.1 of 4 training images is none"},
	} {
		_, err := Open(configs.Data{Name: "mnist", Dir: dir, Validation: c.validation}, 1)
		if config := (*ConfigError)(nil); !errors.As(err, &config) || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestEpochOrder(t *testing.T) {
	index := []int32{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37}
	if got := EpochOrder(9, 3, index, false); !slices.Equal(got, index) {
		t.Errorf("unshuffled %v", got)
	}
	order := EpochOrder(9, 3, index, true)
	want := philox.NewStream(9, philox.Order, 3, 0).Perm(len(index))
	for i := range order {
		if order[i] != index[want[i]] {
			t.Fatalf("place %d: %d, want %d", i, order[i], index[want[i]])
		}
	}
	if slices.Equal(order, index) || slices.Equal(order, EpochOrder(9, 4, index, true)) || slices.Equal(order, EpochOrder(10, 3, index, true)) {
		t.Error("an order that epoch, seed or shuffle does not change")
	}
	slices.Sort(order)
	if !slices.Equal(order, index) {
		t.Errorf("visits %v", order)
	}
}

func TestDescribe(t *testing.T) {
	files := small()
	files["train-images-idx3-ubyte"] = append(imagesIDX(4, 1, 1, 0)[:16], 0, 255, 255, 0)
	files["t10k-images-idx3-ubyte"] = imagesIDX(2, 1, 1, 0)
	set, err := Open(configs.Data{Name: "idx", Dir: writeFiles(t, t.TempDir(), files), Validation: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	d := Describe(set)
	// Half the pixels 0, half 1: mean and deviation are 1/2.
	if d.Mean != 0.5 || d.Std != 0.5 || d.TrainedOn != 3 || d.HeldOut != 1 || d.Train.N != 4 || d.Test.N != 2 || len(d.Files) != 4 {
		t.Errorf("%+v", d)
	}
	if !slices.Equal(d.Train.PerClass, []int{1, 1, 0, 1, 0, 0, 0, 0, 0, 1}) || !slices.Equal(d.Test.PerClass, []int{0, 0, 1, 0, 1, 0, 0, 0, 0, 0}) {
		t.Errorf("per class %v and %v", d.Train.PerClass, d.Test.PerClass)
	}
}

func TestUnknownName(t *testing.T) {
	_, err := Open(configs.Data{Name: "mnits"}, 1)
	want := `data.name: "mnits" is no data set, want mnist, fashion_mnist, kmnist, emnist, idx or random`
	if config := (*ConfigError)(nil); !errors.As(err, &config) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func BenchmarkOpenMNIST(b *testing.B) {
	mnistHere(b)
	for b.Loop() {
		if _, err := Open(configs.Data{Name: "mnist"}, 42); err != nil {
			b.Fatal(err)
		}
	}
}
