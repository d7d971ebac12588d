package data

import (
	"strings"

	"halfstep/configs"
)

// part is one of the four files of a set.
type part int

const (
	trainImages part = iota
	trainLabels
	testImages
	testLabels
	parts
)

// String is the part as messages name it.
func (p part) String() string {
	return [...]string{"train-images", "train-labels", "test-images", "test-labels"}[p]
}

func (p part) images() bool { return p == trainImages || p == testImages }
func (p part) test() bool   { return p == testImages || p == testLabels }

// published is the name the file is distributed under.
func (p part) published() string {
	return [...]string{
		"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz",
	}[p]
}

// sum tells a published file. An empty hash matches nothing.
type sum struct {
	gz      string // SHA-256 of the file as distributed
	bytes   int64  // its size
	content string // SHA-256 of what it holds
}

// source is what is known of a set before it is read.
type source struct {
	name    string
	torch   string // its folder under torchvision's root
	env     string
	classes int // 0: the largest label and one
	// splits are the several sets that one distribution holds, in files named emnist-SPLIT-train-images-idx3-ubyte.
	splits  []string
	split   string // the one of them that is wanted; empty: any
	sums    [parts]sum
	mirrors []string
	byHand  string // how to get it where there is no mirror
}

func nameList() string {
	return strings.Join([]string{"mnist", "fashion_mnist", "kmnist", "emnist", "idx"}, ", ")
}

func lookup(name string) (source, bool) {
	switch name {
	case "mnist":
		return mnist(), true
	case "fashion_mnist":
		return fashionMNIST(), true
	case "kmnist":
		return kmnist(), true
	case "emnist":
		return source{
			name: name, torch: "EMNIST", env: "EMNIST_DIR", splits: configs.EMNISTSplits(),
			byHand: "unpack https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip and name its folder in data.dir",
		}, true
	case "idx":
		return source{name: name, env: "IDX_DIR", splits: configs.EMNISTSplits(), byHand: "name the folder of the four IDX files in data.dir"}, true
	}
	return source{}, false
}

func mnist() source {
	return source{
		name: "mnist", torch: "MNIST", env: "MNIST_DIR", classes: 10,
		sums: [parts]sum{
			trainImages: {
				"440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9912422,
				"ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
			},
			trainLabels: {
				"3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881,
				"65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
			},
			testImages: {
				"8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1648877,
				"0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
			},
			testLabels: {
				"f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542,
				"ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
			},
		},
		mirrors: []string{
			"https://ossci-datasets.s3.amazonaws.com/mnist/",
			"https://storage.googleapis.com/cvdf-datasets/mnist/",
			"https://azureopendatastorage.blob.core.windows.net/mnist/",
		},
	}
}

func fashionMNIST() source {
	return source{
		name: "fashion_mnist", torch: "FashionMNIST", env: "FASHION_MNIST_DIR", classes: 10,
		sums: [parts]sum{
			trainImages: {gz: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", bytes: 26421880},
			trainLabels: {gz: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", bytes: 29515},
			testImages:  {gz: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", bytes: 4422102},
			testLabels:  {gz: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", bytes: 5148},
		},
		mirrors: []string{
			"https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
			"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
			"https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
		},
	}
}

func kmnist() source {
	return source{
		name: "kmnist", torch: "KMNIST", env: "KMNIST_DIR", classes: 10,
		sums: [parts]sum{
			trainImages: {gz: "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4", bytes: 18165135},
			trainLabels: {gz: "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17", bytes: 29497},
			testImages:  {gz: "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5", bytes: 3041136},
			testLabels:  {gz: "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c", bytes: 5120},
		},
		mirrors: []string{
			"https://codh.rois.ac.jp/kmnist/dataset/kmnist/",
			"http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
		},
	}
}
