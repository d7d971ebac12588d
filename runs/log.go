package runs

import (
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TimeLayout is RFC 3339 in UTC with milliseconds, the form of the key ts.
const TimeLayout = "2006-01-02T15:04:05.000Z07:00"

func parseLevel(s string) (zapcore.Level, error) {
	switch s {
	case "debug":
		return zapcore.DebugLevel, nil
	case "", "info":
		return zapcore.InfoLevel, nil
	case "warn":
		return zapcore.WarnLevel, nil
	case "error":
		return zapcore.ErrorLevel, nil
	}
	return 0, fmt.Errorf("runs: log level %q: want debug, info, warn or error", s)
}

// logger writes events as JSON lines to the log and, when asked for, to a second writer. It uses zap's cores directly,
// since a zap.Logger hides write errors.
type logger struct {
	mu    sync.Mutex
	clock func() time.Time
	file  zapcore.Core
	echo  zapcore.Core // nil: none
}

func newLogger(run string, level zapcore.Level, clock func() time.Time, file, echo io.Writer) *logger {
	l := &logger{clock: clock, file: newCore(run, level, file)}
	if echo != nil {
		l.echo = newCore(run, level, echo)
	}
	return l
}

func newCore(run string, level zapcore.Level, w io.Writer) zapcore.Core {
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		TimeKey:     "ts",
		LevelKey:    "level",
		MessageKey:  "event",
		EncodeLevel: zapcore.LowercaseLevelEncoder,
		EncodeTime: func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
			enc.AppendString(t.UTC().Format(TimeLayout))
		},
	})
	return zapcore.NewCore(encoder, zapcore.AddSync(w), level).With([]zap.Field{zap.String("run", run)})
}

func (l *logger) write(e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.file.Enabled(e.Level()) {
		return nil
	}
	entry := zapcore.Entry{Level: e.Level(), Time: l.clock(), Message: e.Name()}
	fields := []zap.Field{zap.Inline(object{e})}
	err := l.file.Write(entry, fields)
	if err != nil {
		err = fmt.Errorf("runs: %s: %w", LogFile, err)
	}
	if l.echo != nil {
		if echoErr := l.echo.Write(entry, fields); err == nil && echoErr != nil {
			err = fmt.Errorf("runs: copy of the log: %w", echoErr)
		}
	}
	return err
}
