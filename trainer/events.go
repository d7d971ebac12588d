package trainer

import (
	"strings"

	"halfstep/runs"
)

// opening writes what is known before the first step.
func (s *Session) opening() {
	p, t := s.dev.Properties(), s.trainer
	if s.resumed == nil {
		s.emit(runs.RunStart{
			Config: s.cfg.Name, Seed: s.cfg.Seed, Device: p.Kind, DeviceName: p.Name, ISA: p.ISA, Threads: p.Threads,
			DType: t.DType().String(), TF32: t.UsesTF32(), BatchSize: s.cfg.Data.BatchSize, Epochs: s.cfg.Epochs,
			Version: runs.ReadEnvironment().Version,
		})
	}
	if s.choice != nil {
		s.emit(*s.choice)
	}
	s.emit(runs.Data{
		Dataset: s.set.Name, Split: notEmpty(s.set.EMNISTSplit()), Source: s.set.Dir,
		TrainSamples: len(s.set.TrainIndex), ValSamples: len(s.set.ValIndex), TestSamples: s.set.Test.N, Classes: s.set.Classes, Shape: t.asm.spec(1, true).Input,
		ResidentDataBytes: t.memory.ResidentData, Seconds: s.readSeconds,
	})
	s.emit(runs.Model{
		Layers: len(t.train.model.Layers), Parameters: t.parameters(), FLOPsPerStep: t.FLOPs(),
		Instructions: len(t.train.program.Instrs), Casts: t.train.casts, Fusions: t.train.fused,
	})
	s.emitMemory(false)
	for _, w := range s.opts.Warnings {
		s.warn(w.Key, w.Message)
	}
	for _, w := range t.train.model.Warnings {
		s.warn("model", w)
	}
}

// notEmpty is nil for an empty string.
func notEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (s *Session) warn(code, message string) {
	s.emit(runs.Warning{Code: strings.NewReplacer(".", "_", " ", "_").Replace(code), Message: message})
}

// parameters counts the elements of all parameters.
func (t *Trainer) parameters() int64 {
	var n int64
	for _, p := range t.params {
		n += int64(p.Elems())
	}
	return n
}

// emitMemory logs the planned memory, and after training the measured one beside it.
func (s *Session) emitMemory(measured bool) {
	m := s.trainer.memory
	e := runs.Memory{
		MemPlannedBytes: m.Peak(), ParametersBytes: m.Parameters, HalfCopiesBytes: m.HalfCopies, GradientsBytes: m.Gradients,
		OptimizerStateBytes: m.OptimizerState, ActivationsBytes: m.Activations, WorkspaceBytes: m.Workspace, ResidentDataBytes: m.ResidentData,
	}
	if measured {
		d := s.dev.Memory()
		peak, agrees := m.Measured(d)
		rss := peakRSS()
		e.MemPeakBytes, e.MemAllocatedBytes, e.MemReservedBytes, e.Agrees, e.RSSBytes = &peak, &d.Allocated, &d.Reserved, &agrees, &rss
		if d.Total > 0 {
			e.DriverFreeBytes, e.DriverTotalBytes = &d.Free, &d.Total
		}
	}
	s.emit(e)
}

// emit writes an event to the log, and shows on the console what a user must see.
func (s *Session) emit(e runs.Event) {
	if s.run != nil {
		s.run.Log(e)
	}
	if s.progress == nil {
		return
	}
	switch e := e.(type) {
	case runs.Epoch:
		s.progress.EpochDone(e, s.cfg.Epochs)
	case runs.Warning:
		s.progress.Println("warning: " + e.Code + ": " + e.Message)
	}
}

func (s *Session) show(st runs.Status) {
	if s.progress != nil {
		s.progress.Update(st)
	}
}
