package program

// CountersName is the persistent Int32 value that every step reads and advances. The host writes it at the start of an
// epoch and after a resume; nothing else in a step comes from the host.
const CountersName = "step/counters"

// The elements of the counters.
const (
	CounterEpoch            = iota // epoch number, from 0: the stream of dropout masks and augmentation
	CounterPosition                // samples consumed in this epoch: where the next batch starts in the order
	CounterAttempts                // attempted updates in the run: the row of the metrics ring
	CounterEpochUpdates            // applied updates in this epoch: the index into the learning-rate table
	CounterUpdates                 // applied updates in the run; after StepControl it is the t of Adam's bias correction
	CounterSkipped                 // skipped updates in the run
	CounterConsecutiveSkips        // skipped updates since the last applied one
	CounterGrowthTracker           // GradScaler: finite steps since the scale last changed
	NumCounters
)

// ControlName is what StepControl decides for the optimizer: a Float32 value of NumControls elements.
const ControlName = "step/control"

// The elements of the control value.
const (
	ControlApply     = iota // 1 when every gradient is finite, else 0: the update changes nothing
	ControlGradScale        // factor for each raw gradient: 1/(loss scale) times the clipping coefficient
	ControlLR               // learning rate of this update
	ControlMomentum         // momentum (SGD) or beta1 (Adam) of this update, where a schedule cycles it; else NaN
	ControlGradNorm         // 2-norm over all unscaled gradients, before clipping
	ControlLossScale        // the loss scale that this step's gradients carry
	NumControls
)

// A row of the metrics ring.
const (
	RingLoss      = iota // mean loss over the batch, unscaled
	RingCorrect          // correctly classified samples; 0 where there are no classes
	RingCount            // samples of the batch
	RingGradNorm         // 2-norm over all unscaled gradients, before clipping; evaluation: 0
	RingLossScale        // the loss scale used
	RingSkipped          // 1 when the update was skipped
	RingLR               // learning rate
	RingFirstBad         // 1 + index (in the flags value) of the first gradient that was not finite; 0 when none
	NumRing
)
