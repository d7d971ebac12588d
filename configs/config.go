// Package configs is the experiment file: its schema, strict loading, key=value overrides and validation. docs/CONFIG.md
// describes every key, its type, default and allowed values.
//
// Load reads a file into a Resolved: the Config, where each of its values came from, and warnings. What is wrong with a
// config is always an *Error, which lists every problem and not only the first.
package configs

// Config is one experiment, as written in a YAML file.
type Config struct {
	Name       string     `yaml:"name"` // in reports and run folders; default: the file's base name without .yaml
	Seed       uint64     `yaml:"seed"`
	Device     string     `yaml:"device"`  // auto | cpu | cuda | cuda:N | gorgonia
	Threads    int        `yaml:"threads"` // CPU threads; 0: as many as the machine or its quota gives
	Epochs     int        `yaml:"epochs"`
	MaxSteps   int        `yaml:"max_steps"` // stop after so many attempted updates; 0: no limit
	RunsDir    string     `yaml:"runs_dir"`
	Data       Data       `yaml:"data"`
	Model      Model      `yaml:"model"`
	Loss       Loss       `yaml:"loss"`
	AMP        AMP        `yaml:"amp"`
	Optim      Optim      `yaml:"optim"`
	CUDA       CUDA       `yaml:"cuda"`
	Log        Log        `yaml:"log"`
	Checkpoint Checkpoint `yaml:"checkpoint"`
}

// Data says what is trained on and how batches are made.
type Data struct {
	Name       string    `yaml:"name"`  // mnist | fashion_mnist | kmnist | emnist | idx | random
	Dir        string    `yaml:"dir"`   // holds the IDX files; empty: the usual places
	Split      string    `yaml:"split"` // emnist, idx: one of EMNISTSplits; empty: the one set that is there
	BatchSize  int       `yaml:"batch_size"`
	DropLast   bool      `yaml:"drop_last"`
	Shuffle    bool      `yaml:"shuffle"`
	Validation float64   `yaml:"validation"` // below 1: share of the training images; else their number
	Normalize  Normalize `yaml:"normalize"`
	Transpose  bool      `yaml:"transpose"` // images are stored column by column (EMNIST)
	Resident   bool      `yaml:"resident"`  // false: batches are decoded and copied from the host, as loaders do
	Augment    Augment   `yaml:"augment"`
	Random     Random    `yaml:"random"` // with name: random
}

// EMNISTSplits are the sets that EMNIST's archive holds.
func EMNISTSplits() []string {
	return []string{"balanced", "byclass", "bymerge", "digits", "letters", "mnist"}
}

// Normalize is applied to pixels in 0..1.
type Normalize struct {
	Mean float32 `yaml:"mean"`
	Std  float32 `yaml:"std"`
}

// Augment changes training images; zero values change nothing.
type Augment struct {
	Shift int `yaml:"shift"` // each image moves by up to so many pixels, both ways
}

// Random is a set of normally distributed float32 inputs and targets.
type Random struct {
	Samples  int `yaml:"samples"`
	Features int `yaml:"features"`
	Targets  int `yaml:"targets"`
}

// Model is a list of layers.
type Model struct {
	Layers []Layer `yaml:"layers"`
}

// Layer is one entry of the list, `- relu` or `- conv2d: {filters: 32, kernel: 3}`. Only the fields of its kind are set.
type Layer struct {
	// Kind is conv2d, linear, relu, sigmoid, tanh, gelu, softmax, max_pool2d, avg_pool2d, batch_norm, dropout, flatten or
	// residual.
	Kind        string
	Filters     int     `yaml:"filters"`     // conv2d
	Kernel      int     `yaml:"kernel"`      // conv2d
	Size        int     `yaml:"size"`        // pools
	Stride      int     `yaml:"stride"`      // conv2d (1), pools (their size)
	Padding     int     `yaml:"padding"`     // conv2d
	Units       int     `yaml:"units"`       // linear
	Bias        bool    `yaml:"bias"`        // conv2d, linear
	Trainable   bool    `yaml:"trainable"`   // conv2d, linear, batch_norm
	Init        Init    `yaml:"init"`        // conv2d, linear: weights
	BiasInit    Init    `yaml:"bias_init"`   // conv2d, linear
	Rate        float32 `yaml:"rate"`        // dropout
	Eps         float32 `yaml:"eps"`         // batch_norm
	Momentum    float32 `yaml:"momentum"`    // batch_norm
	Approximate string  `yaml:"approximate"` // gelu: none | tanh
	Layers      []Layer `yaml:"layers"`      // residual: y = x + layers(x)
}

// Init names an initialisation. The default is PyTorch's: uniform in ±1/sqrt(fan_in) for weights and biases.
type Init struct {
	// Name is default, normal, uniform, kaiming_normal, kaiming_uniform, xavier_normal, xavier_uniform or zeros.
	Name string  `yaml:"name"`
	Mean float32 `yaml:"mean"` // normal
	Std  float32 `yaml:"std"`  // normal
	Low  float32 `yaml:"low"`  // uniform
	High float32 `yaml:"high"` // uniform
}

// Loss is what is minimised.
type Loss struct {
	Name           string  `yaml:"name"`            // cross_entropy | mse | bce_with_logits
	Reduction      string  `yaml:"reduction"`       // mse, bce_with_logits: mean | sum | batch_mean
	LabelSmoothing float32 `yaml:"label_smoothing"` // cross_entropy
}

// AMP is automatic mixed precision.
type AMP struct {
	Enabled    bool       `yaml:"enabled"`
	DType      string     `yaml:"dtype"` // float16 | bfloat16
	GradScaler GradScaler `yaml:"grad_scaler"`
}

// GradScaler is dynamic loss scaling.
type GradScaler struct {
	Enabled             string  `yaml:"enabled"` // auto | true | false; auto: float16 only
	InitScale           float32 `yaml:"init_scale"`
	GrowthFactor        float32 `yaml:"growth_factor"`
	BackoffFactor       float32 `yaml:"backoff_factor"`
	GrowthInterval      int     `yaml:"growth_interval"`
	MinScale            float32 `yaml:"min_scale"`
	MaxScale            float32 `yaml:"max_scale"` // 0: only the last finite power limits it
	MaxConsecutiveSkips int     `yaml:"max_consecutive_skips"`
}

// Optim is the optimizer with its schedule. Only the fields of its name count; the others are zero.
type Optim struct {
	Name         string   `yaml:"name"` // sgd | adam | adamw | adadelta | rmsprop | adagrad
	LR           float64  `yaml:"lr"`
	Momentum     float64  `yaml:"momentum"`     // sgd, rmsprop
	Dampening    float64  `yaml:"dampening"`    // sgd
	Nesterov     bool     `yaml:"nesterov"`     // sgd
	Beta1        float64  `yaml:"beta1"`        // adam, adamw
	Beta2        float64  `yaml:"beta2"`        // adam, adamw
	AMSGrad      bool     `yaml:"amsgrad"`      // adam, adamw
	Rho          float64  `yaml:"rho"`          // adadelta
	Alpha        float64  `yaml:"alpha"`        // rmsprop
	Centered     bool     `yaml:"centered"`     // rmsprop
	LRDecay      float64  `yaml:"lr_decay"`     // adagrad
	Eps          float64  `yaml:"eps"`          // all but sgd
	WeightDecay  float64  `yaml:"weight_decay"` // all
	Schedule     Schedule `yaml:"schedule"`
	ClipGradNorm float32  `yaml:"clip_grad_norm"` // 0: none
	Accumulate   int      `yaml:"accumulate"`     // micro-batches an update
}

// Schedule moves the learning rate. Only the fields of its name count. A position is an epoch or an applied update (Per).
type Schedule struct {
	// Name is constant, step, multistep, exponential, cosine, linear_warmup, one_cycle or plateau.
	Name          string  `yaml:"name"`
	Per           string  `yaml:"per"`              // epoch | update: what one position of the schedule is
	StepSize      int     `yaml:"step_size"`        // step
	Gamma         float64 `yaml:"gamma"`            // step, multistep, exponential
	Milestones    []int   `yaml:"milestones"`       // multistep
	EtaMin        float64 `yaml:"eta_min"`          // cosine
	Warmup        int     `yaml:"warmup"`           // positions of linear warm-up before the schedule proper; linear_warmup, cosine
	WarmupFactor  float64 `yaml:"warmup_factor"`    // the first rate's share of lr
	MaxLR         float64 `yaml:"max_lr"`           // one_cycle
	PctStart      float64 `yaml:"pct_start"`        // one_cycle: share of the run with a rising rate
	Anneal        string  `yaml:"anneal"`           // one_cycle: cos | linear
	DivFactor     float64 `yaml:"div_factor"`       // one_cycle: max_lr over the first rate
	FinalDiv      float64 `yaml:"final_div_factor"` // one_cycle: first rate over the last
	CycleMomentum bool    `yaml:"cycle_momentum"`   // one_cycle: momentum or beta1 moves against the rate
	BaseMomentum  float64 `yaml:"base_momentum"`    // one_cycle
	MaxMomentum   float64 `yaml:"max_momentum"`     // one_cycle
	Monitor       string  `yaml:"monitor"`          // plateau: val_loss | val_accuracy
	Factor        float64 `yaml:"factor"`           // plateau
	Patience      int     `yaml:"patience"`         // plateau: epochs without improvement that are let pass
	Threshold     float64 `yaml:"threshold"`        // plateau: smallest improvement that counts
	ThresholdMode string  `yaml:"threshold_mode"`   // plateau: rel | abs
	Cooldown      int     `yaml:"cooldown"`         // plateau: epochs after a cut before counting starts again
	MinLR         float64 `yaml:"min_lr"`           // plateau
}

// CUDA says how an NVIDIA GPU computes. It changes nothing on other devices.
type CUDA struct {
	Graph     bool `yaml:"graph"`      // a step is one captured graph; false: its kernels are launched one by one
	AllowTF32 bool `yaml:"allow_tf32"` // float32 products on tensor cores, 10 bits of fraction; capability 8.0 and later
}

// Log says what is written and how often.
type Log struct {
	Level       string `yaml:"level"`       // debug | info | warn | error
	Every       int    `yaml:"every"`       // updates between two reads of the metrics ring
	TensorBoard bool   `yaml:"tensorboard"` // metrics also as a TensorBoard event file
}

// Checkpoint says when the run is saved.
type Checkpoint struct {
	Every int  `yaml:"every"` // epochs; 0: only at the end
	Steps int  `yaml:"steps"` // updates; 0: by epochs only
	Keep  int  `yaml:"keep"`  // newest ones kept
	Best  bool `yaml:"best"`  // keep the one with the best validation accuracy too
}
