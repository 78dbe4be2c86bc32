// Package logging makes the logger of our programs from their flags.
package logging

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
)

// Options are the values of the flags.
type Options struct {
	// Format is json or text.
	Format string
	// Level 0 logs changes of state, 1 and above more.
	Level int
}

// AddFlags adds --log-format and --log-level.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Format, "log-format", "json", "json or text")
	flags.IntVar(&o.Level, "log-level", 0, "0 logs changes of state, 1 everything")
}

// Logger returns a logger that writes to a stream. It fails for an unknown format.
func (o *Options) Logger(to io.Writer) (logr.Logger, error) {
	options := &slog.HandlerOptions{Level: slog.Level(-o.Level), ReplaceAttr: plainLevel}
	switch o.Format {
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(to, options)), nil
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(to, options)), nil
	default:
		return logr.Logger{}, fmt.Errorf("--log-format: Invalid value: %q: must be json or text", o.Format)
	}
}

// plainLevel names the levels of logr in the usual way: slog would call V(1) DEBUG+3.
func plainLevel(groups []string, attribute slog.Attr) slog.Attr {
	if level, ok := attribute.Value.Any().(slog.Level); ok && len(groups) == 0 && attribute.Key == slog.LevelKey && level < slog.LevelInfo {
		attribute.Value = slog.StringValue(slog.LevelDebug.String())
	}
	return attribute
}
