package trainer

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"halfstep/configs"
	"halfstep/runs"
)

// checkResume refuses a configuration that differs from the run's and loads the run's newest checkpoint.
func (s *Session) checkResume() error {
	old, err := configs.Load(filepath.Join(s.opts.Resume, runs.ConfigFile), nil)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	var differ []string
	for _, d := range configs.Diff(old.Config, s.cfg) {
		if !allowed(s.opts.Allow, d.Key) {
			differ = append(differ, fmt.Sprintf("%s: %s in the run, %s now", d.Key, text(d.A), text(d.B)))
		}
	}
	if len(differ) > 0 {
		return &ConfigError{Key: "resume", Message: fmt.Sprintf("the configuration differs from that of %s:\n  %s\nallow it with --allow KEY, or start a new run",
			s.opts.Resume, strings.Join(differ, "\n  "))}
	}
	c, warnings, err := runs.Latest(filepath.Join(s.opts.Resume, runs.CheckpointsDir))
	for _, w := range warnings {
		s.doubt("checkpoint", w)
	}
	switch {
	case errors.Is(err, runs.ErrNoCheckpoint): // stopped before the first one, or all are damaged
		s.doubt("resume", "the run has no whole checkpoint: it starts from the beginning")
	case err != nil:
		return fmt.Errorf("resume: %w", err)
	}
	s.resumed = c
	return nil
}

// doubt keeps a warning for the opening of the log.
func (s *Session) doubt(key, message string) {
	s.opts.Warnings = append(slices.Clone(s.opts.Warnings), configs.Problem{Key: key, Message: message})
}

// allowed reports whether a key, or a section around it, may differ.
func allowed(list []string, key string) bool {
	return slices.ContainsFunc(list, func(a string) bool { return key == a || strings.HasPrefix(key, a+".") })
}

// text shows a value; a key that is not there has none.
func text(v string) string {
	if v == "" {
		return "not set"
	}
	return v
}

// restore puts the resumed run's state back.
func (s *Session) restore() error {
	if s.resumed == nil {
		return nil
	}
	warnings, err := s.trainer.Restore(s.resumed)
	for _, w := range warnings {
		s.doubt("resume", w)
	}
	return err
}

// complete is the summary of a resumed run that has nothing left to do and ended well; else nil.
func (s *Session) complete() *runs.Summary {
	if s.opts.Resume == "" || !s.trainer.Done() {
		return nil
	}
	r, err := runs.Open(s.opts.Resume)
	if err != nil || r.Summary == nil || r.Summary.ExitCode != ExitDone {
		return nil
	}
	if s.progress != nil {
		s.progress.Println(fmt.Sprintf("%s is complete after %d epochs and %d steps: nothing to do", r.ID, r.Summary.Epochs, r.Summary.Steps))
	}
	return r.Summary
}

// replayCommand tells how to run up to a step again: from the newest checkpoint, or from the start where there is none.
func (s *Session) replayCommand(step int) string {
	if s.run == nil {
		return ""
	}
	again := "--config " + filepath.Join(s.run.Dir, runs.ConfigFile)
	if list, err := runs.ListCheckpoints(s.run.CheckpointDir()); err == nil && len(list) > 0 {
		again = fmt.Sprintf("--resume %s --allow max_steps", s.run.Dir)
	}
	return fmt.Sprintf("\nreplay it with: train %s max_steps=%d", again, step)
}
