package server

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
)

// versionLine matches the output of postgres -V: postgres (PostgreSQL) 17.2 (Debian 17.2-1), or
// 18beta1. Derivatives of PostgreSQL have other names in the parentheses.
var versionLine = regexp.MustCompile(`^postgres \([^()]{1,60}\) ([0-9]{1,3})[^0-9]`)

// FindVersion finds out the major version of the server's programs, such as 17. It must be called
// before anything else. From then on data of another version are refused before anything is
// changed.
func (e *Engine) FindVersion(ctx context.Context) (string, error) {
	command, err := e.command("postgres", "-V")
	if err != nil {
		return "", err
	}
	var output bytes.Buffer
	command.Stdout = &output
	if err := e.Supervisor.Start(command, e.Supervisor.Kills()); err != nil {
		return "", fmt.Errorf("asking the server for its version: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() })
	defer stop()
	if err := e.Supervisor.Wait(command); err != nil {
		return "", fmt.Errorf("asking the server for its version: %w", err)
	}
	major, err := majorOf(output.String())
	if err != nil {
		return "", err
	}
	e.programs = major
	return strconv.Itoa(major), nil
}

func majorOf(said string) (int, error) {
	major := 0
	if found := versionLine.FindStringSubmatch(said); found != nil {
		major, _ = strconv.Atoi(found[1]) // It consists of digits.
	}
	if !isKnown(major) {
		return 0, fmt.Errorf("the image's program postgres says that it is %.60q: it must be PostgreSQL 12 to 18", strings.TrimSpace(said))
	}
	return major, nil
}

// isKnown reports whether a major version is supported.
func isKnown(major int) bool { return major >= 12 && major <= 18 }

// checkMajor returns an error for data of another major version than the server's, if that is
// known.
func (e *Engine) checkMajor(major int) error {
	if e.programs == 0 || major == e.programs {
		return nil
	}
	return foreign(strconv.Itoa(major), strconv.Itoa(e.programs))
}

func foreign(found, needed string) error {
	return &engine.ForeignError{Found: "the data of PostgreSQL " + found, Needed: "those of PostgreSQL " + needed}
}
