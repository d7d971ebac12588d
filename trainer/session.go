package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/device/devices"
	"halfstep/runs"
)

// SessionOptions say how a training run shows itself. The zero value shows nothing.
type SessionOptions struct {
	Resume   string    // run folder to go on with; empty: a new run
	Allow    []string  // keys that may differ from the resumed run's configuration
	Echo     io.Writer // gets a copy of the log's lines
	Console  io.Writer // gets the progress bar or lines, and warnings
	FastDev  bool      // a few steps and one batch of evaluation, no run folder
	Warnings []configs.Problem
}

// fastDevSteps is how many updates a fast development run makes.
const fastDevSteps = 3

// Session is a training run with its data, device and run folder.
type Session struct {
	cfg      configs.Config
	resolved *configs.Resolved
	opts     SessionOptions
	set      *data.Set
	dev      device.Device
	trainer  *Trainer
	run      *runs.Run
	progress *runs.Progress
	resumed  *runs.Checkpoint

	readSeconds float64 // to read the data
	saveErr     error   // first checkpoint that could not be saved
}

// Train runs a configuration from data to summary. The summary is valid, as far as the run came, also with an error.
func Train(ctx context.Context, r *configs.Resolved, o SessionOptions) (*runs.Summary, string, error) {
	s, err := Prepare(r, o)
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	if err := s.openRun(); err != nil {
		return nil, "", err
	}
	summary, err := s.fit(ctx)
	dir := ""
	if s.run != nil {
		dir = s.run.Dir
	}
	return summary, dir, err
}

// Prepare opens data and device and builds the trainer, without training.
func Prepare(r *configs.Resolved, o SessionOptions) (*Session, error) {
	s := &Session{cfg: r.Config, resolved: r, opts: o}
	if o.FastDev {
		s.cfg.Epochs, s.cfg.MaxSteps, s.cfg.Log.Every = 1, fastDevSteps, 1
	}
	if o.Resume != "" {
		if err := s.checkResume(); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	var err error
	if s.set, err = data.Open(s.cfg.Data, s.cfg.Seed); err != nil {
		return nil, err
	}
	if o.FastDev {
		truncate(&s.set.Test, evalBatch(s.cfg), s.set)
	}
	s.readSeconds = time.Since(start).Seconds()
	if s.dev, err = s.openDevice(); err != nil {
		return nil, err
	}
	if o.Console != nil {
		s.progress = runs.NewProgress(o.Console)
	}
	s.trainer, err = New(s.cfg, s.set, s.dev, Options{Emit: s.emit, Save: s.save, Progress: s.show})
	if err != nil {
		return nil, errors.Join(err, s.dev.Close())
	}
	if s.resumed != nil {
		warnings, err := s.trainer.Restore(s.resumed)
		if err != nil {
			return nil, err
		}
		for _, w := range warnings {
			s.opts.Warnings = append(s.opts.Warnings, configs.Problem{Key: "resume", Message: w})
		}
	}
	return s, nil
}

// Trainer is the prepared trainer.
func (s *Session) Trainer() *Trainer { return s.trainer }

// Device is the opened device.
func (s *Session) Device() device.Device { return s.dev }

// Set is the opened data.
func (s *Session) Set() *data.Set { return s.set }

// Close frees trainer and device.
func (s *Session) Close() error { return errors.Join(s.trainer.Close(), s.dev.Close()) }

// truncate keeps the first n samples of a split of images.
func truncate(p *data.Split, n int, set *data.Set) {
	if p.N > n {
		p.N, p.Images, p.Labels = n, p.Images[:n*set.Height*set.Width*set.Channels], p.Labels[:n]
	}
}

func (s *Session) openDevice() (device.Device, error) {
	name := s.cfg.Device
	if name == "auto" {
		name = "cpu"
	}
	return devices.Open(name, s.cfg.Threads)
}

// checkResume loads the run's newest checkpoint and refuses a configuration that differs from the run's.
func (s *Session) checkResume() error {
	old, err := configs.Load(filepath.Join(s.opts.Resume, runs.ConfigFile), nil)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	var differ []string
	for _, d := range configs.Diff(old.Config, s.cfg) {
		if !slices.Contains(s.opts.Allow, d.Key) {
			differ = append(differ, fmt.Sprintf("%s: %s in the run, %s now", d.Key, d.A, d.B))
		}
	}
	if len(differ) > 0 {
		return &ConfigError{Key: "resume", Message: fmt.Sprintf("the configuration differs from that of %s:\n  %s\nallow it with --allow KEY, or start a new run",
			s.opts.Resume, strings.Join(differ, "\n  "))}
	}
	c, warnings, err := runs.Latest(filepath.Join(s.opts.Resume, runs.CheckpointsDir))
	for _, w := range warnings {
		s.opts.Warnings = append(s.opts.Warnings, configs.Problem{Key: "checkpoint", Message: w})
	}
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	s.resumed = c
	return nil
}

// openRun makes or reopens the run folder and writes the run's first events.
func (s *Session) openRun() error {
	if s.opts.FastDev {
		return nil
	}
	env := runs.ReadEnvironment()
	p := s.dev.Properties()
	env.Device, env.ISA, env.Threads = p.Kind, p.ISA, p.Threads
	if p.Kind == "cuda" {
		env.GPU, env.GPUBytes = p.Name, p.Memory
	}
	text, err := s.cfg.YAML()
	if err != nil {
		return err
	}
	o := runs.Options{Config: text, Sources: s.resolved.Source, Environment: env, Level: s.cfg.Log.Level, Echo: s.opts.Echo}
	if s.resumed != nil {
		epoch, position, step := s.trainer.Position()
		s.run, err = runs.Resume(s.opts.Resume, runs.Resumed{Epoch: epoch, Step: step, Position: position, Path: s.resumed.Path}, o)
	} else {
		s.run, err = runs.Create(s.cfg.RunsDir, s.cfg.Name, time.Now(), o)
	}
	return err
}

// opening writes what is known before the first step.
func (s *Session) opening() {
	p, t := s.dev.Properties(), s.trainer
	if s.resumed == nil {
		s.emit(runs.RunStart{
			Config: s.cfg.Name, Seed: s.cfg.Seed, Device: p.Kind, DeviceName: p.Name, ISA: p.ISA, Threads: p.Threads,
			DType: t.DType().String(), BatchSize: s.cfg.Data.BatchSize, Epochs: s.cfg.Epochs, Version: runs.ReadEnvironment().Version,
		})
	}
	s.emit(runs.Data{
		Dataset: s.set.Name, Source: s.set.Dir, TrainSamples: len(s.set.TrainIndex), ValSamples: len(s.set.ValIndex),
		TestSamples: s.set.Test.N, Classes: s.set.Classes, Shape: t.asm.spec(1, true).Input,
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

func (s *Session) warn(code, message string) {
	s.emit(runs.Warning{Code: strings.NewReplacer(".", "_", " ", "_").Replace(code), Message: message})
	if s.opts.Console != nil {
		fmt.Fprintf(s.opts.Console, "warning: %s: %s\n", code, message)
	}
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

func (s *Session) emit(e runs.Event) {
	if s.run != nil {
		s.run.Log(e)
	}
	if epoch, ok := e.(runs.Epoch); ok && s.progress != nil {
		s.progress.EpochDone(epoch, s.cfg.Epochs)
	}
}

func (s *Session) show(st runs.Status) {
	if s.progress != nil {
		s.progress.Update(st)
	}
}

// save stores a checkpoint. One that cannot be stored does not end the run: the last whole one stays, and the run ends with
// an error.
func (s *Session) save(epoch, step int, c *runs.Checkpoint, best bool) error {
	if s.run == nil {
		return nil
	}
	start := time.Now()
	write := runs.SaveCheckpoint
	if best {
		write = runs.SaveBest
	}
	path, err := write(s.run.CheckpointDir(), step, c)
	if err != nil {
		s.saveErr = errors.Join(s.saveErr, err)
		s.warn("checkpoint", err.Error())
		return nil
	}
	var size int64
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	s.emit(runs.CheckpointSaved{Epoch: epoch, Step: step, Path: path, Bytes: size, Seconds: time.Since(start).Seconds(), Best: best})
	return runs.PruneCheckpoints(s.run.CheckpointDir(), s.cfg.Checkpoint.Keep)
}

// fit trains and writes the end of the log and the summary.
func (s *Session) fit(ctx context.Context) (*runs.Summary, error) {
	s.opening()
	result, err := s.trainer.Fit(ctx)
	if s.progress != nil {
		s.progress.Close()
	}
	if err == nil && s.saveErr != nil {
		err = fmt.Errorf("training is complete, but a checkpoint could not be saved: %w", s.saveErr)
	}
	s.emitMemory(true)
	if err != nil && !errors.Is(err, ErrInterrupted) {
		s.emit(failure(err, result.Steps))
	}
	p := s.dev.Properties()
	summary := &runs.Summary{
		Config: s.cfg.Name, Seed: s.cfg.Seed, Device: p.Kind, DType: s.trainer.DType().String(), BatchSize: s.cfg.Data.BatchSize,
		Epochs: result.Epochs, Steps: result.Steps, Seconds: result.Seconds, ImagesPerS: result.ImagesPerS,
		BestValAccuracy: result.BestVal, SkippedSteps: result.Skipped, FinalLossScale: result.FinalLossScale,
		MemPlannedBytes: result.MemPlanned, MemPeakBytes: result.MemPeak, ResidentDataBytes: result.ResidentData,
		ExitReason: exitReason(err, result.MaxSteps), ExitCode: ExitCode(err),
	}
	if result.Test != nil {
		summary.TestLoss, summary.TestAccuracy = &result.Test.Loss, number(result.Test.Accuracy)
	}
	if s.run == nil {
		return summary, err
	}
	if end := s.run.Finish(*summary); end != nil && err == nil {
		err = fmt.Errorf("training is complete, but the run folder is not: %w", end)
	}
	return summary, err
}

func failure(err error, step int) runs.Failure {
	f := runs.Failure{Message: err.Error(), ExitCode: ExitCode(err), Step: &step}
	var d *DivergedError
	if errors.As(err, &d) {
		f.FirstBadTensor, f.Step = &d.Tensor, &d.Step
	}
	return f
}
