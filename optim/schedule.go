package optim

import (
	"fmt"
	"math"

	"halfstep/configs"
)

// Schedule gives the learning rate of every update. Its position is the number of applied updates (per: update) or of
// epochs in which at least one update was applied (per: epoch) before: a step skipped for an overflow does not advance it.
// Apart from plateau it is a closed form of the position in float64, so that a resumed run sees the same rates.
//
// The caller asks for the Table of an epoch, trains, and reports the epoch's end with EndEpoch.
type Schedule struct {
	curve     curve    // nil: plateau
	plateau   *plateau // nil: curve
	perUpdate bool
	updates   int
	epochs    int
}

// State is what a checkpoint keeps of a schedule, as it was at the start of the current epoch.
type State struct {
	Updates int           `json:"updates"` // applied updates before this epoch
	Epochs  int           `json:"epochs"`  // epochs before this one in which an update was applied
	Plateau *PlateauState `json:"plateau,omitempty"`
}

// NewSchedule makes the configured schedule for a run of so many epochs. What a schedule spans, cosine and one_cycle, is
// epochs positions (per: epoch) or epochs·updatesPerEpoch (per: update).
func NewSchedule(c configs.Optim, epochs, updatesPerEpoch int) (*Schedule, error) {
	s := &Schedule{}
	switch c.Schedule.Per {
	case "", "epoch":
	case "update":
		s.perUpdate = true
	default:
		return nil, fmt.Errorf("optim: schedule: per: %q, want epoch or update", c.Schedule.Per)
	}
	if epochs < 1 || updatesPerEpoch < 1 {
		return nil, fmt.Errorf("optim: schedule: %d epochs of %d updates, want at least 1 of each", epochs, updatesPerEpoch)
	}
	total := epochs
	if s.perUpdate {
		total *= updatesPerEpoch
	}
	var err error
	if c.Schedule.Name == "plateau" {
		if s.perUpdate {
			return nil, fmt.Errorf("optim: schedule plateau: its metric is known once an epoch: set per: epoch")
		}
		s.plateau, err = newPlateau(c)
	} else {
		s.curve, err = newCurve(c, total)
	}
	if err != nil {
		return nil, fmt.Errorf("optim: schedule %s: %w", c.Schedule.Name, err)
	}
	return s, nil
}

// At is the learning rate and momentum at a position; the momentum is NaN unless the schedule cycles it. Plateau knows the
// present rate only and gives it at every position.
func (s *Schedule) At(position int) (lr, momentum float64) {
	if s.plateau != nil {
		return s.plateau.LR, math.NaN()
	}
	return s.curve(position)
}

// Table is the learning rate and momentum of the first n applied updates of the current epoch: the rows of
// "schedule/rates", indexed by counter program.CounterEpochUpdates. A momentum of NaN keeps the optimizer's own.
func (s *Schedule) Table(n int) [][2]float32 {
	rows := make([][2]float32, n)
	for i := range rows {
		position := s.epochs
		if s.perUpdate {
			position = s.updates + i
		}
		lr, momentum := s.At(position)
		rows[i] = [2]float32{float32(lr), float32(momentum)}
	}
	return rows
}

// EndEpoch ends the epoch with the number of updates applied in it and the monitored metric, which only plateau reads.
func (s *Schedule) EndEpoch(applied int, metric float64) {
	if applied == 0 {
		return
	}
	s.updates += applied
	s.epochs++
	if s.plateau != nil {
		s.plateau.step(metric)
	}
}

// State is the schedule's state.
func (s *Schedule) State() State {
	state := State{Updates: s.updates, Epochs: s.epochs}
	if s.plateau != nil {
		p := s.plateau.PlateauState
		state.Plateau = &p
	}
	return state
}

// SetState restores a state. A state of another kind of schedule is an error where plateau's is missing.
func (s *Schedule) SetState(state State) error {
	if state.Updates < 0 || state.Epochs < 0 {
		return fmt.Errorf("optim: schedule state: %d updates in %d epochs", state.Updates, state.Epochs)
	}
	if s.plateau != nil {
		if state.Plateau == nil {
			return fmt.Errorf("optim: schedule state: plateau's is missing")
		}
		s.plateau.PlateauState = *state.Plateau
	}
	s.updates, s.epochs = state.Updates, state.Epochs
	return nil
}
