package server

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// versionLine matches the output of valkey-server --version: Valkey server v=8.1.1 sha=00000000:0
// malloc=...
var versionLine = regexp.MustCompile(`^Valkey server v=([0-9]{1,3})\.`)

// The major versions that are supported.
const oldest, newest = 8, 9

// FindVersion finds out the major version of the server's program, such as 8. It must be called
// before anything else. From then on data of a newer version are refused before anything is
// changed.
func (e *Engine) FindVersion(ctx context.Context) (string, error) {
	path, err := e.lookPath(program)
	if err != nil {
		return "", err
	}
	var output bytes.Buffer
	command := &exec.Cmd{Path: path, Args: []string{program, "--version"}, Env: e.Environment, Dir: e.Run, Stdout: &output}
	if err := e.Supervisor.Start(command, e.Supervisor.Kills()); err != nil {
		return "", fmt.Errorf("asking the server for its version: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() })
	defer stop()
	if err := e.Supervisor.Wait(command); err != nil {
		return "", fmt.Errorf("asking the server for its version: %w", err)
	}
	if e.programs, err = majorOf(output.String()); err != nil {
		return "", err
	}
	return e.programs, nil
}

func majorOf(said string) (string, error) {
	if found := versionLine.FindStringSubmatch(said); found != nil {
		if major, err := strconv.Atoi(found[1]); err == nil && major >= oldest && major <= newest {
			return found[1], nil
		}
	}
	return "", fmt.Errorf("the image's program %s says that it is %.60q: it must be Valkey %d or %d",
		program, strings.TrimSpace(said), oldest, newest)
}
