// Package logging makes the log of our programs out of their flags.
package logging

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
)

// Options are what flags say.
type Options struct {
	// Format is json or text.
	Format string
	// Level 0 tells changes of state, 1 and above more.
	Level int
}

// AddFlags adds --log-format and --log-level.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Format, "log-format", "json", "json or text")
	flags.IntVar(&o.Level, "log-level", 0, "0 tells changes of state, 1 everything")
}

// Logger writes to a stream. It fails for a format that there is not.
func (o *Options) Logger(to io.Writer) (logr.Logger, error) {
	options := &slog.HandlerOptions{Level: slog.Level(-o.Level), ReplaceAttr: plainLevel}
	switch o.Format {
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(to, options)), nil
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(to, options)), nil
	default:
		return logr.Logger{}, fmt.Errorf("--log-format: %q is neither json nor text", o.Format)
	}
}

// plainLevel names logr's levels as people expect: slog would call V(1) DEBUG+3.
func plainLevel(groups []string, attribute slog.Attr) slog.Attr {
	if level, ok := attribute.Value.Any().(slog.Level); ok && len(groups) == 0 && attribute.Key == slog.LevelKey && level < slog.LevelInfo {
		attribute.Value = slog.StringValue(slog.LevelDebug.String())
	}
	return attribute
}
