package configs

import "reflect"

// Default is the config of an empty file, which lacks only a model. Defaults are PyTorch's where it has one.
func Default() Config {
	return Config{
		Seed:    42,
		Device:  "auto",
		Epochs:  10,
		RunsDir: "runs",
		Data:    defaultData("mnist"),
		Loss:    defaultLoss("cross_entropy"),
		AMP: AMP{DType: "float16", GradScaler: GradScaler{
			Enabled: "auto", InitScale: 65536, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 2000,
			MinScale: 1, MaxScale: 1 << 24, MaxConsecutiveSkips: 100,
		}},
		Optim:      defaultOptim("adam"),
		CUDA:       CUDA{Graph: true},
		Log:        Log{Level: "info", Every: 50},
		Checkpoint: Checkpoint{Every: 1, Keep: 2},
	}
}

// setDefaults fills a section with the defaults of one variant.
func setDefaults(section reflect.Value, name string) {
	switch s := section.Addr().Interface().(type) {
	case *Data:
		*s = defaultData(name)
	case *Layer:
		*s = defaultLayer(name)
	case *Init:
		*s = defaultInit(name)
	case *Loss:
		*s = defaultLoss(name)
	case *Optim:
		*s = defaultOptim(name)
	case *Schedule:
		*s = defaultSchedule(name)
	}
}

// defaultData normalises by the mean and the standard deviation of the training pixels, as published for each set
// (EMNIST: its "balanced" split), and leaves pixels in 0..1 where nothing is known.
func defaultData(name string) Data {
	d := Data{Name: name, BatchSize: 128, Shuffle: true, Resident: true, Normalize: Normalize{Mean: 0, Std: 1}}
	switch name {
	case "mnist":
		d.Normalize = Normalize{Mean: 0.1307, Std: 0.3081}
	case "fashion_mnist":
		d.Normalize = Normalize{Mean: 0.2860, Std: 0.3530}
	case "kmnist":
		d.Normalize = Normalize{Mean: 0.1918, Std: 0.3483}
	case "emnist":
		d.Normalize = Normalize{Mean: 0.1751, Std: 0.3332}
		d.Transpose = true
	}
	return d
}

func defaultLayer(kind string) Layer {
	l := Layer{Kind: kind}
	switch kind {
	case "conv2d":
		l.Stride = 1
		fallthrough
	case "linear":
		l.Bias, l.Trainable = true, true
		l.Init, l.BiasInit = defaultInit("default"), defaultInit("default")
	case "batch_norm":
		l.Eps, l.Momentum, l.Trainable = 1e-5, 0.1, true
	case "dropout":
		l.Rate = 0.5
	case "gelu":
		l.Approximate = "none"
	}
	return l
}

func defaultInit(name string) Init {
	switch name {
	case "normal":
		return Init{Name: name, Mean: 0, Std: 1}
	case "uniform":
		return Init{Name: name, Low: 0, High: 1}
	}
	return Init{Name: name}
}

func defaultLoss(name string) Loss {
	if name == "cross_entropy" {
		return Loss{Name: name}
	}
	return Loss{Name: name, Reduction: "mean"}
}

func defaultOptim(name string) Optim {
	o := Optim{Name: name, LR: 1e-3, Accumulate: 1, Schedule: defaultSchedule("constant")}
	switch name {
	case "adam", "adamw":
		o.Beta1, o.Beta2, o.Eps = 0.9, 0.999, 1e-8
		if name == "adamw" {
			o.WeightDecay = 0.01
		}
	case "adadelta":
		o.LR, o.Rho, o.Eps = 1, 0.9, 1e-6
	case "rmsprop":
		o.LR, o.Alpha, o.Eps = 0.01, 0.99, 1e-8
	case "adagrad":
		o.LR, o.Eps = 0.01, 1e-10
	}
	return o
}

func defaultSchedule(name string) Schedule {
	s := Schedule{Name: name, Per: "epoch"}
	switch name {
	case "step", "multistep":
		s.Gamma = 0.1
	case "cosine":
		s.WarmupFactor = 1.0 / 3
	case "linear_warmup":
		s.Warmup, s.WarmupFactor = 5, 1.0/3
	case "one_cycle":
		s.Per = "update" // as PyTorch's users step it
		s.PctStart, s.Anneal, s.DivFactor, s.FinalDiv = 0.3, "cos", 25, 1e4
		s.CycleMomentum, s.BaseMomentum, s.MaxMomentum = true, 0.85, 0.95
	case "plateau":
		s.Monitor, s.Factor, s.Patience, s.Threshold, s.ThresholdMode = "val_loss", 0.1, 10, 1e-4, "rel"
	}
	return s
}
