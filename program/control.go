package program

import "math"

// Decide is StepControl's definition: it fills control, moves the loss scale and counts the attempt. rates has pairs of
// learning rate and momentum; past its end the last pair holds.
func (o StepControl) Decide(control []float32, flags []int32, squares []float64, rates, scale []float32, counters []int32) {
	var total float64
	bad := false
	for n, f := range flags {
		bad = bad || f != 0
		total += squares[n]
	}
	norm := math.Sqrt(total)
	row := min(int(counters[CounterEpochUpdates]), len(rates)/2-1)
	control[ControlLR], control[ControlMomentum] = rates[2*row], rates[2*row+1]
	control[ControlLossScale] = scale[0]
	control[ControlGradNorm] = float32(norm)
	control[ControlGradScale] = o.gradScale(scale[0], norm)
	control[ControlApply] = 1
	if bad {
		control[ControlApply] = 0
	}
	count(counters, !bad)
	scale[0], counters[CounterGrowthTracker] = o.Scaler.Update(scale[0], counters[CounterGrowthTracker], bad)
}

// gradScale unscales and clips in one factor. Clipping is torch.nn.utils.clip_grad_norm_'s: max/(norm + 1e-6), at most 1.
func (o StepControl) gradScale(scale float32, norm float64) float32 {
	inv := float32(1)
	if !o.Unscaled {
		inv = InverseScale(scale)
	}
	if o.ClipNorm > 0 {
		return inv * float32(min(1, float64(o.ClipNorm)/(norm+1e-6)))
	}
	return inv
}

// count moves the counters past an attempted update.
func count(counters []int32, applied bool) {
	counters[CounterAttempts]++
	if applied {
		counters[CounterEpochUpdates]++
		counters[CounterUpdates]++
		counters[CounterConsecutiveSkips] = 0
		return
	}
	counters[CounterSkipped]++
	counters[CounterConsecutiveSkips]++
}

// Fill is RingRow's definition: it writes the row of the current attempt. correct, control and flags are nil where the
// program has none.
func (o RingRow) Fill(ring []float32, counters []int32, loss float32, correct []int32, control []float32, flags []int32) {
	rows := len(ring) / NumRing
	row := ring[(int(counters[CounterAttempts])-1)%rows*NumRing:][:NumRing]
	clear(row)
	row[RingLoss], row[RingCount] = loss, float32(o.Samples)
	if correct != nil {
		row[RingCorrect] = float32(correct[0])
	}
	if control == nil {
		return
	}
	row[RingGradNorm], row[RingLossScale], row[RingLR] = control[ControlGradNorm], control[ControlLossScale], control[ControlLR]
	row[RingSkipped] = 1 - control[ControlApply]
	for n, f := range flags {
		if f != 0 {
			row[RingFirstBad] = float32(n + 1)
			break
		}
	}
}
