// Command train trains, measures and inspects image classifiers. Its subcommands parse, call and print; no logic lives
// here.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"halfstep/trainer"
)

func main() { os.Exit(run()) }

// run is main with deferred calls honoured. The first interrupt ends training after the step at hand, which is then saved;
// the second ends the process at once.
func run() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		fmt.Fprintln(os.Stderr, "\ninterrupted: stopping; once more to leave at once")
		cancel()
		<-signals
		os.Exit(trainer.ExitInterrupted)
	}()

	err := newRoot().ExecuteContext(ctx)
	switch {
	case err == nil:
		return trainer.ExitDone
	case errors.Is(err, trainer.ErrInterrupted), errors.Is(err, context.Canceled):
		return trainer.ExitInterrupted
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		fmt.Fprintln(os.Stderr, "error:", line)
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return trainer.ExitUsage
	}
	return trainer.ExitCode(err)
}

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }
