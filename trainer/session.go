package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
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
	choice   *runs.DeviceChoice // nil: the configuration names the device
	trainer  *Trainer
	run      *runs.Run
	progress *runs.Progress
	resumed  *runs.Checkpoint

	readSeconds float64 // to read the data
	saveErr     error   // first checkpoint that could not be saved
	lastSaveErr error   // of the newest checkpoint
}

// Train runs a configuration from data to summary. The summary is valid, as far as the run came, also with an error. A run
// that is resumed when nothing is left to do keeps its summary.
func Train(ctx context.Context, r *configs.Resolved, o SessionOptions) (*runs.Summary, string, error) {
	s, err := Prepare(r, o)
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	if summary := s.complete(); summary != nil {
		return summary, o.Resume, nil
	}
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
		s.shorten(evalBatch(s.cfg))
	}
	s.readSeconds = time.Since(start).Seconds()
	if err := s.openDevice(); err != nil {
		return nil, err
	}
	if o.Console != nil {
		s.progress = runs.NewProgress(o.Console)
	}
	s.trainer, err = New(s.cfg, s.set, s.dev, Options{Emit: s.emit, Save: s.save, Progress: s.show})
	if err != nil {
		return nil, errors.Join(err, s.dev.Close())
	}
	if err := s.restore(); err != nil {
		return nil, errors.Join(err, s.Close())
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

// shorten leaves n samples to evaluate on.
func (s *Session) shorten(n int) {
	if p := &s.set.Test; p.N > n {
		p.N, p.Images, p.Labels = n, p.Images[:n*s.set.Height*s.set.Width*s.set.Channels], p.Labels[:n]
	}
	s.set.ValIndex = s.set.ValIndex[:min(n, len(s.set.ValIndex))]
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
	o := runs.Options{
		Config: text, Sources: s.resolved.Source, Environment: env, Level: s.cfg.Log.Level, Echo: s.opts.Echo,
		TensorBoard: s.cfg.Log.TensorBoard,
	}
	if s.opts.Resume != "" {
		epoch, position, step := s.trainer.Position()
		at := runs.Resumed{Epoch: epoch, Step: step, Position: position, Device: p.Kind, DeviceName: p.Name}
		if s.resumed != nil {
			at.Path = relative(s.opts.Resume, s.resumed.Path)
		}
		s.run, err = runs.Resume(s.opts.Resume, at, o)
	} else {
		s.run, err = runs.Create(s.cfg.RunsDir, s.cfg.Name, time.Now(), o)
	}
	return err
}

// relative is a path as seen from dir, or as it is where that cannot be told.
func relative(dir, path string) string {
	if r, err := filepath.Rel(dir, path); err == nil {
		return filepath.ToSlash(r)
	}
	return path
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
	s.lastSaveErr = err
	if err != nil {
		if s.saveErr == nil {
			s.saveErr = err
		}
		s.warn("checkpoint", fmt.Sprintf("not saved, training goes on: %v", err))
		return nil
	}
	var size int64
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	s.emit(runs.CheckpointSaved{
		Epoch: epoch, Step: step, Path: relative(s.run.Dir, path), Bytes: size, Seconds: time.Since(start).Seconds(), Best: best,
	})
	if err := runs.PruneCheckpoints(s.run.CheckpointDir(), s.cfg.Checkpoint.Keep); err != nil {
		s.warn("checkpoint", err.Error())
	}
	return nil
}

// fit trains and writes the end of the log and the summary.
func (s *Session) fit(ctx context.Context) (*runs.Summary, error) {
	s.opening()
	result, err := s.trainer.Fit(ctx)
	if s.progress != nil {
		s.progress.Close()
	}
	err = s.outcome(err)
	s.emitMemory(true)
	if err == nil && s.run != nil {
		err = s.writePredictions()
	}
	if err != nil && !errors.Is(err, ErrInterrupted) {
		s.emit(failure(err, result.Steps))
	}
	summary := s.summary(result, err)
	if s.run == nil {
		return summary, err
	}
	if end := s.run.Finish(*summary); end != nil && err == nil {
		err = fmt.Errorf("training is complete, but the run folder is not: %w", end)
	}
	return summary, err
}

// outcome is the error that the run ends with, where training itself ended with err.
func (s *Session) outcome(err error) error {
	var d *DivergedError
	switch {
	case errors.Is(err, ErrInterrupted) && s.lastSaveErr != nil:
		return fmt.Errorf("interrupted, and the state could not be saved: %w", s.lastSaveErr)
	case errors.As(err, &d):
		d.Message += s.replayCommand(d.Step)
	case err != nil:
	case s.saveErr != nil:
		return fmt.Errorf("training is complete, but a checkpoint could not be saved: %w", s.saveErr)
	case s.run != nil && s.run.Err() != nil:
		return fmt.Errorf("training is complete, but the log is not: %w", s.run.Err())
	}
	return err
}

func (s *Session) summary(r *Result, err error) *runs.Summary {
	p := s.dev.Properties()
	summary := &runs.Summary{
		Config: s.cfg.Name, Seed: s.cfg.Seed, Device: p.Kind, DType: s.trainer.DType().String(), TF32: s.trainer.UsesTF32(),
		BatchSize: s.cfg.Data.BatchSize, Epochs: r.Epochs, Steps: r.Steps, Seconds: r.Seconds, ImagesPerS: r.ImagesPerS, SkippedSteps: r.Skipped,
		FinalLossScale: r.FinalLossScale, MemPlannedBytes: r.MemPlanned, MemPeakBytes: r.MemPeak, ResidentDataBytes: r.ResidentData,
		ExitReason: exitReason(err, r.MaxSteps), ExitCode: ExitCode(err),
	}
	if s.set.Classes > 0 {
		summary.BestValAccuracy = r.BestVal
	}
	if r.Test != nil {
		summary.TestLoss, summary.TestAccuracy = &r.Test.Loss, number(r.Test.Accuracy)
	}
	return summary
}

func failure(err error, step int) runs.Failure {
	f := runs.Failure{Message: err.Error(), ExitCode: ExitCode(err), Step: &step}
	var d *DivergedError
	if errors.As(err, &d) {
		f.FirstBadTensor, f.Step = &d.Tensor, &d.Step
	}
	return f
}
