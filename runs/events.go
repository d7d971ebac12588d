package runs

import "go.uber.org/zap/zapcore"

// Event is one kind of line of the log: a struct whose json tags are the keys. docs/LOGS.md gives the meaning and unit of
// each; a pointer is nil where the key does not apply. Steps are attempted updates since the start of the run, epochs
// count from 1, accuracies are shares of 1, memory is in bytes, times are in seconds.
type Event interface {
	Name() string
	Level() zapcore.Level
}

// events has a zero value of every event.
func events() []Event {
	return []Event{
		RunStart{},
		DeviceChoice{},
		Data{},
		Model{},
		Memory{},
		Step{},
		SkippedStep{},
		ScaleChange{},
		Epoch{},
		Evaluation{},
		CheckpointSaved{},
		Resumed{},
		Warning{},
		Failure{},
		RunEnd{},
	}
}

// RunStart is the first event of a process that trains.
type RunStart struct {
	Config     string `json:"config"`
	Seed       uint64 `json:"seed"`
	Device     string `json:"device"`
	DeviceName string `json:"device_name"`
	ISA        string `json:"isa"`
	Threads    int    `json:"threads"`
	DType      string `json:"dtype"`
	TF32       bool   `json:"tf32"`
	BatchSize  int    `json:"batch_size"`
	Epochs     int    `json:"epochs"`
	Version    string `json:"version"`
}

// DeviceChoice tells what device: auto came to.
type DeviceChoice struct {
	Device        string   `json:"device"`
	Reason        string   `json:"reason"` // faster | only_usable | resumed
	CPUMSPerStep  *float64 `json:"cpu_ms_per_step"`
	CUDAMSPerStep *float64 `json:"cuda_ms_per_step"`
	NotUsable     []string `json:"not_usable"`
	Seconds       float64  `json:"seconds"`
}

// Data tells what is trained on.
type Data struct {
	Dataset           string  `json:"dataset"`
	Split             *string `json:"split"`
	Source            string  `json:"source"`
	TrainSamples      int     `json:"train_samples"`
	ValSamples        int     `json:"val_samples"`
	TestSamples       int     `json:"test_samples"`
	Classes           int     `json:"classes"`
	Shape             []int   `json:"shape"`
	ResidentDataBytes int64   `json:"resident_data_bytes"`
	Seconds           float64 `json:"seconds"`
}

// Model tells what is trained.
type Model struct {
	Layers       int   `json:"layers"`
	Parameters   int64 `json:"parameters"`
	FLOPsPerStep int64 `json:"flops_per_step"`
	Instructions int   `json:"instructions"`
	Casts        int   `json:"casts"`
	Fusions      int   `json:"fusions"`
}

// Memory compares what was planned with what the device measured.
type Memory struct {
	MemPlannedBytes     int64  `json:"mem_planned_bytes"`
	ParametersBytes     int64  `json:"parameters_bytes"`
	HalfCopiesBytes     int64  `json:"half_copies_bytes"`
	GradientsBytes      int64  `json:"gradients_bytes"`
	OptimizerStateBytes int64  `json:"optimizer_state_bytes"`
	ActivationsBytes    int64  `json:"activations_bytes"`
	WorkspaceBytes      int64  `json:"workspace_bytes"`
	ResidentDataBytes   int64  `json:"resident_data_bytes"`
	MemPeakBytes        *int64 `json:"mem_peak_bytes"`
	MemAllocatedBytes   *int64 `json:"mem_allocated_bytes"`
	MemReservedBytes    *int64 `json:"mem_reserved_bytes"`
	RSSBytes            *int64 `json:"rss_bytes"`
	DriverFreeBytes     *int64 `json:"driver_free_bytes"`
	DriverTotalBytes    *int64 `json:"driver_total_bytes"`
	Agrees              *bool  `json:"agrees"`
}

// Step sums up the steps since the last such event.
type Step struct {
	Epoch         int      `json:"epoch"`
	Step          int      `json:"step"`
	TrainLoss     float64  `json:"train_loss"`
	TrainAccuracy *float64 `json:"train_accuracy"`
	LR            float64  `json:"lr"`
	Momentum      *float64 `json:"momentum"`
	ImagesPerS    float64  `json:"images_per_s"`
	LossScale     float64  `json:"loss_scale"`
	SkippedSteps  int      `json:"skipped_steps"`
	GradNorm      float64  `json:"grad_norm"`
}

// SkippedStep is an update that was not applied because a gradient was inf or NaN.
type SkippedStep struct {
	Epoch            int     `json:"epoch"`
	Step             int     `json:"step"`
	LossScaleBefore  float64 `json:"loss_scale_before"`
	LossScale        float64 `json:"loss_scale"`
	FirstBadTensor   string  `json:"first_bad_tensor"`
	SkippedSteps     int     `json:"skipped_steps"`
	ConsecutiveSkips int     `json:"consecutive_skips"`
}

// ScaleChange is a new loss scale, or one that would be smaller were it not for the floor.
type ScaleChange struct {
	Epoch           int     `json:"epoch"`
	Step            int     `json:"step"`
	LossScaleBefore float64 `json:"loss_scale_before"`
	LossScale       float64 `json:"loss_scale"`
	Cause           string  `json:"cause"` // growth | backoff | min_scale
}

// Epoch sums up an epoch and the evaluation after it; it is also a row of metrics.csv.
type Epoch struct {
	Epoch           int      `json:"epoch"`
	Step            int      `json:"step"`
	TrainLoss       float64  `json:"train_loss"`
	TrainAccuracy   *float64 `json:"train_accuracy"`
	TestLoss        *float64 `json:"test_loss"`
	TestAccuracy    *float64 `json:"test_accuracy"`
	ValLoss         *float64 `json:"val_loss"`
	ValAccuracy     *float64 `json:"val_accuracy"`
	LR              float64  `json:"lr"`
	Seconds         float64  `json:"seconds"`
	EvalSeconds     float64  `json:"eval_seconds"`
	ImagesPerS      float64  `json:"images_per_s"`
	LossScale       float64  `json:"loss_scale"`
	SkippedSteps    int      `json:"skipped_steps"`
	GradNorm        float64  `json:"grad_norm"`
	MemPlannedBytes int64    `json:"mem_planned_bytes"`
	MemPeakBytes    int64    `json:"mem_peak_bytes"`
}

// Evaluation is one pass over a split without training.
type Evaluation struct {
	Split        string   `json:"split"` // test | validation
	Epoch        int      `json:"epoch"`
	Step         int      `json:"step"`
	Samples      int      `json:"samples"`
	TestLoss     *float64 `json:"test_loss"`
	TestAccuracy *float64 `json:"test_accuracy"`
	ValLoss      *float64 `json:"val_loss"`
	ValAccuracy  *float64 `json:"val_accuracy"`
	Seconds      float64  `json:"seconds"`
	ImagesPerS   float64  `json:"images_per_s"`
}

// CheckpointSaved is a checkpoint that is on the disk.
type CheckpointSaved struct {
	Epoch   int     `json:"epoch"`
	Step    int     `json:"step"`
	Path    string  `json:"path"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Best    bool    `json:"best"`
}

// Resumed tells where training goes on, and on what. Lines before it with a larger step, and epoch lines of its epoch, were
// undone by it.
type Resumed struct {
	Epoch    int    `json:"epoch"`
	Step     int    `json:"step"`
	Position int    `json:"position"`
	Path     string `json:"path"`

	Device     string `json:"device"`
	DeviceName string `json:"device_name"`
}

// Warning is something that the user should look at.
type Warning struct {
	Code    string `json:"code"` // snake_case, stable: double_softmax, min_scale, ...
	Message string `json:"message"`
	Step    *int   `json:"step"`
}

// Failure is why a run ends early.
type Failure struct {
	Message        string  `json:"message"`
	ExitCode       int     `json:"exit_code"`
	Step           *int    `json:"step"`
	FirstBadTensor *string `json:"first_bad_tensor"`
}

// RunEnd is the last event, with the same keys as summary.json.
type RunEnd struct{ Summary }

func (RunStart) Name() string        { return "run_start" }
func (DeviceChoice) Name() string    { return "device_choice" }
func (Data) Name() string            { return "data" }
func (Model) Name() string           { return "model" }
func (Memory) Name() string          { return "memory" }
func (Step) Name() string            { return "step" }
func (SkippedStep) Name() string     { return "skipped_step" }
func (ScaleChange) Name() string     { return "scale_change" }
func (Epoch) Name() string           { return "epoch" }
func (Evaluation) Name() string      { return "evaluation" }
func (CheckpointSaved) Name() string { return "checkpoint" }
func (Resumed) Name() string         { return "resume" }
func (Warning) Name() string         { return "warning" }
func (Failure) Name() string         { return "error" }
func (RunEnd) Name() string          { return "run_end" }

func (RunStart) Level() zapcore.Level        { return zapcore.InfoLevel }
func (DeviceChoice) Level() zapcore.Level    { return zapcore.InfoLevel }
func (Data) Level() zapcore.Level            { return zapcore.InfoLevel }
func (Model) Level() zapcore.Level           { return zapcore.InfoLevel }
func (Memory) Level() zapcore.Level          { return zapcore.InfoLevel }
func (Step) Level() zapcore.Level            { return zapcore.InfoLevel }
func (SkippedStep) Level() zapcore.Level     { return zapcore.InfoLevel }
func (ScaleChange) Level() zapcore.Level     { return zapcore.InfoLevel }
func (Epoch) Level() zapcore.Level           { return zapcore.InfoLevel }
func (Evaluation) Level() zapcore.Level      { return zapcore.InfoLevel }
func (CheckpointSaved) Level() zapcore.Level { return zapcore.InfoLevel }
func (Resumed) Level() zapcore.Level         { return zapcore.InfoLevel }
func (Warning) Level() zapcore.Level         { return zapcore.WarnLevel }
func (Failure) Level() zapcore.Level         { return zapcore.ErrorLevel }
func (RunEnd) Level() zapcore.Level          { return zapcore.InfoLevel }
