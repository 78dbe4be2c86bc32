package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-platform/mainstay/testbed/internal/layout"
)

func newLogs() *cobra.Command {
	var follow bool
	command := &cobra.Command{
		Use:   "logs [COMPONENT]",
		Short: "Print a component's log, or list the logs",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			dir, err := layout.Default()
			if err != nil {
				return err
			}
			if len(arguments) == 0 {
				return listLogs(command.OutOrStdout(), dir)
			}
			return printLog(command.Context(), command.OutOrStdout(), dir.Log(arguments[0]), follow)
		},
	}
	command.Flags().BoolVarP(&follow, "follow", "f", false, "follow the log")
	return command
}

func listLogs(out io.Writer, dir layout.Dir) error {
	files, err := filepath.Glob(dir.Log("*"))
	if err != nil {
		return fmt.Errorf("listing the logs: %w", err)
	}
	if len(files) == 0 {
		return errors.New("no logs: start the cluster with `testbed up`")
	}
	for _, file := range files {
		component := strings.TrimSuffix(filepath.Base(file), ".log")
		if _, err := fmt.Fprintf(out, "%-28s %s\n", component, file); err != nil {
			return fmt.Errorf("listing the logs: %w", err)
		}
	}
	return nil
}

// printLog prints a log. With follow, it continues until the command is interrupted.
func printLog(ctx context.Context, out io.Writer, path string, follow bool) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no log at %s: `testbed logs` lists the components", path)
	}
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer func() { _ = file.Close() }()
	for {
		if _, err := io.Copy(out, file); err != nil {
			return fmt.Errorf("copying the log: %w", err)
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollLog):
		}
	}
}

// pollLog is the interval between two reads of a followed log.
const pollLog = 300 * time.Millisecond
