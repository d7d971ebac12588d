package trainer

import (
	"errors"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device/devices"
	"halfstep/picture"
)

// The exit codes of the command.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2 // usage or config
	ExitData        = 3
	ExitDevice      = 4
	ExitDiverged    = 5
	ExitInterrupted = 130
)

// ExitCode is the code that an error ends the process with.
func ExitCode(err error) int {
	var config *configs.Error
	var dataConfig *data.ConfigError
	var own *ConfigError
	var files *data.Error
	var image *picture.Error
	var dev *devices.Error
	var diverged *DivergedError
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, ErrInterrupted):
		return ExitInterrupted
	case errors.As(err, &config), errors.As(err, &dataConfig), errors.As(err, &own):
		return ExitUsage
	case errors.As(err, &files), errors.As(err, &image):
		return ExitData
	case errors.As(err, &dev):
		return ExitDevice
	case errors.As(err, &diverged):
		return ExitDiverged
	}
	return ExitFailed
}

// exitReason is the summary's word for an error.
func exitReason(err error, maxSteps bool) string {
	switch ExitCode(err) {
	case ExitDone:
		if maxSteps {
			return "max_steps"
		}
		return "completed"
	case ExitInterrupted:
		return "interrupted"
	case ExitDiverged:
		return "diverged"
	}
	return "failed"
}
