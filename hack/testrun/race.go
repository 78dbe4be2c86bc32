package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// module is the product's module.
const module = "github.com/mainstay-platform/mainstay"

// pure are the packages whose tests need nothing but Go.
var pure = []string{
	"./api/...", "./changelog/...", "./charts/...", "./cmd/...", "./docs/...", "./hack/...", "./internal/...",
	"./test/cases/...", "./test/faults/campaign/...", "./test/faults/proxy/...", "./test/fuzz/...", "./test/golden/...",
	"./test/ledger/...", "./test/perf/...", "./test/simulation/...", "./test/testenv/...",
}

// concurrent are the pure packages whose tests run with the race detector, which makes them two to
// ten times as slow and needs a second build of all that they import. TestConcurrent fails if a
// package with goroutines is missing.
var concurrent = []string{
	"internal/access",
	"internal/aggregated",
	"internal/aggregated/crdstorage",
	"internal/aggregated/farmpod",
	"internal/aggregated/ownerchain",
	"internal/aggregated/llama",
	"internal/install/apiservice",
	"internal/install/certificates",
	"internal/install/loop",
	"internal/instance",
	"internal/instance/peers",
	"internal/instance/pooler",
	"internal/instance/supervise",
	"internal/kit/transport/leaseguard",
	"internal/kinds/appconfig/appconfigcontroller",
	"internal/kinds/postgresql/postgresqlcontroller",
	"internal/kit/apply",
	"internal/kit/reconciler",
	"internal/kit/metrics",
	"internal/kit/optionalapi",
	"internal/kit/trace",
	"internal/setup",
	"internal/kit/transport/retrytransport",
	"internal/tracing",
	"internal/install/webhooks",
	"internal/workload/observe",
	"internal/workload/workloadcontroller",
	"test/faults/campaign",
	"test/faults/proxy",
	"test/ledger",
	"test/simulation",
	"test/testenv",
}

// sequential are packages that look concurrent to TestConcurrent but have no concurrent tests, with
// the reason.
var sequential = map[string]string{
	"hack/demo":                  "a select waits for the end of the context; the tests only read the farm",
	"hack/internal/step":         "a goroutine shows signs of life, and a counter is atomic; the test only ends a context",
	"hack/testrun":               "the commands of a layer run beside each other, and the counts are added under a lock",
	"internal/install/crds":      "a sync.OnceValues reads what the chart carries",
	"internal/kit/bounded":       "a sync.Map remembers the fields of types; each entry is written once, with the same content",
	"internal/kit/jsonpatch":     "a channel is the example of a value that JSON can't express",
	"internal/instance/engine":   "synctest is there for its clock, and a channel is in the interface only",
	"internal/instance/cluster":  "a lock guards what was logged last; the tests ask one thing after the other",
	"internal/instance/program":  "what runs beside the tests of settings and probes is tried with real servers",
	"internal/instance/volume":   "a lock keeps the removal of old data apart from the making of new; the tests use neither at once",
	"internal/postgres":          "a sync.OnceValue reads the table of parameters",
	"internal/postgres/server":   "what runs beside its tests is tried in the layer postgresql, with real servers",
	"internal/valkey/server":     "what runs beside its tests is tried in the layer instances, with real servers",
	"internal/registration":      "synctest is there for its clock; nothing runs beside the tests",
	"internal/install/uninstall": "synctest is there for its clock; nothing runs beside the tests",
	"internal/kinds/instrumentation/instrumentationcontroller": "synctest is there for its clock; nothing runs beside the tests",
	"test/perf":       "the tests only compare figures; what measures is not run by them",
	"internal/policy": "a list is cleaned once, by one goroutine",
}

// testedPackages returns the pure packages that have tests, as
// ./internal/kit/transport/retrytransport: those that need the race detector, and the others.
// Packages without tests are omitted, because go test would compile them for nothing.
func testedPackages(ctx context.Context, root string) (racing, others []string, err error) {
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"},
		pure...)...)
	list.Dir = root
	output, err := list.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("listing the pure packages: %w", withStderr(err))
	}
	for path := range strings.FieldsSeq(string(output)) {
		at := strings.TrimPrefix(path, module+"/")
		if slices.Contains(concurrent, at) {
			racing = append(racing, "./"+at)
		} else {
			others = append(others, "./"+at)
		}
	}
	return racing, others, nil
}

// withStderr adds a command's standard error to its error.
func withStderr(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
