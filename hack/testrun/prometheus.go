package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// prometheus finds Prometheus and promtool in the PATH, or else unpacks Debian's package into a
// cache. It does not install it, because that would start a server. Without them only the tests
// that need them fail, with a message.
func prometheus(ctx context.Context, log *step.Log) ([]string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding a folder for Prometheus: %w", err)
	}
	found, err := findPrometheus(ctx, log, filepath.Join(cache, "mainstay", "prometheus"))
	if err != nil {
		log.Say("Prometheus is not available: %v", err)
		return nil, nil
	}
	return []string{"PROMETHEUS=" + filepath.Join(found, "prometheus"), "PROMTOOL=" + filepath.Join(found, "promtool")}, nil
}

// finding lets one lane fetch Prometheus while the other waits for it.
var finding sync.Mutex

// findPrometheus returns the folder that has both programs.
func findPrometheus(ctx context.Context, log *step.Log, cache string) (string, error) {
	finding.Lock()
	defer finding.Unlock()
	if at, err := exec.LookPath("prometheus"); err == nil && isProgram(filepath.Join(filepath.Dir(at), "promtool")) {
		return filepath.Dir(at), nil
	}
	unpacked := filepath.Join(cache, "usr", "bin")
	if isProgram(filepath.Join(unpacked, "prometheus")) && isProgram(filepath.Join(unpacked, "promtool")) {
		return unpacked, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", errors.New("apt-get not found: put prometheus and promtool on the PATH")
	}
	if err := os.MkdirAll(filepath.Dir(cache), 0o750); err != nil {
		return "", fmt.Errorf("making a folder for Prometheus: %w", err)
	}
	// Renamed when complete: an interrupted run leaves nothing that looks like it.
	fresh, err := os.MkdirTemp(filepath.Dir(cache), "prometheus-")
	if err != nil {
		return "", fmt.Errorf("making a folder for Prometheus: %w", err)
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	// A machine that has never run apt-get update knows no packages.
	fetch := exec.CommandContext(ctx, "sh", "-ec",
		"apt-get download prometheus || { apt-get update; apt-get download prometheus; }; dpkg-deb --extract prometheus_*.deb .; rm prometheus_*.deb")
	fetch.Dir = fresh
	if err := log.Do(ctx, "fetching Prometheus (Debian's package, 19 MB)", fetch); err != nil {
		return "", err
	}
	if err := os.RemoveAll(cache); err != nil {
		return "", fmt.Errorf("replacing Prometheus: %w", err)
	}
	if err := os.Rename(fresh, cache); err != nil {
		return "", fmt.Errorf("keeping Prometheus: %w", err)
	}
	return unpacked, nil
}

func isProgram(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// both runs two preparations in order.
func both(first, second func(context.Context, *step.Log) ([]string, error)) func(context.Context, *step.Log) ([]string, error) {
	return func(ctx context.Context, log *step.Log) ([]string, error) {
		environment, err := first(ctx, log)
		if err != nil {
			return nil, err
		}
		further, err := second(ctx, log)
		return append(environment, further...), err
	}
}
