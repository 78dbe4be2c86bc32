package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// settings are read from the environment:
//
//	PORT              port to listen on, default 8080
//	MESSAGE           text of the answer, default "Hello from demo-web VERSION"
//	START_DELAY       Go duration to wait before listening, default 0
//	CRASH_AFTER       Go duration after which the process exits with EXIT_CODE, default never
//	EXIT_CODE         exit code of CRASH_AFTER, default 1
//	DATABASE_URL      PostgreSQL that counts visits, default none
//	DEMO_WEB_VERSION  set by the image
type settings struct {
	port        string
	message     string
	version     string
	hostname    string
	databaseURL string // "": none
	startDelay  time.Duration
	crashAfter  time.Duration // 0: never
	exitCode    int
}

// parseSettings refuses values that it cannot use: a typing error in a duration must
// not look like a server that never crashes.
func parseSettings(getenv func(string) string) (settings, error) {
	value := func(name, fallback string) string {
		if found := getenv(name); found != "" {
			return found
		}
		return fallback
	}
	var parsed settings
	var err error
	parsed.version = value("DEMO_WEB_VERSION", "dev")
	parsed.message = value("MESSAGE", "Hello from demo-web "+parsed.version)
	parsed.databaseURL = value("DATABASE_URL", "")
	parsed.port = value("PORT", "8080")
	if port, err := strconv.Atoi(parsed.port); err != nil || port < 0 || port > 65535 {
		return settings{}, fmt.Errorf("PORT=%q is not a port number", parsed.port)
	}
	if parsed.startDelay, err = time.ParseDuration(value("START_DELAY", "0")); err != nil {
		return settings{}, fmt.Errorf("parsing START_DELAY: %w", err)
	}
	if parsed.crashAfter, err = time.ParseDuration(value("CRASH_AFTER", "0")); err != nil {
		return settings{}, fmt.Errorf("parsing CRASH_AFTER: %w", err)
	}
	if parsed.exitCode, err = parseExitCode(value("EXIT_CODE", "1")); err != nil {
		return settings{}, err
	}
	if parsed.hostname, err = os.Hostname(); err != nil {
		return settings{}, fmt.Errorf("asking for the host name: %w", err)
	}
	return parsed, nil
}

// parseExitCode accepts what a process can return.
func parseExitCode(text string) (int, error) {
	code, err := strconv.Atoi(text)
	if err != nil || code < 0 || code > 255 {
		return 0, fmt.Errorf("%q is not an exit code from 0 to 255", text)
	}
	return code, nil
}
