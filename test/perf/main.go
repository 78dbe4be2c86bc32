// Command perf measures Mainstay on a real API server, and compares the figures with the committed
// baseline. See docs/performance.md.
//
//	perf                    everything
//	perf creation webhook   the named parts
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// bench is what the parts of a run share.
type bench struct {
	out    io.Writer
	start  time.Time
	report *Report
	// directory has the logs, one folder for each part.
	directory string
	simulator
	// apps is the number of WebApps of most parts. many is that of the part many.
	apps, many int
	// postgreSQLs is the number of PostgreSQLs of the part databases.
	postgreSQLs int
	// stacks is the number of AppStacks of the part stacks.
	stacks int
	// users are how many Deployments of the part fanout use one ConfigMap, one number after the other.
	users []int
}

// say prints a line of progress.
func (b *bench) say(format string, arguments ...any) {
	_, _ = fmt.Fprintf(b.out, "[%6s] %s\n", time.Since(b.start).Round(time.Second), fmt.Sprintf(format, arguments...))
}

// add adds figures to the report.
func (b *bench) add(figures ...Figure) {
	for _, figure := range figures {
		b.say("%s: %.4g %s", figure.Name, figure.Value, figure.Unit)
	}
	b.report.Figures = append(b.report.Figures, figures...)
}

// parts are the parts in the order in which they run. Each has its own API servers.
var parts = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"creation", (*bench).creation},
	{"simulated", (*bench).simulated},
	{"rest", (*bench).rest},
	{"webhook", (*bench).webhook},
	{"policy", (*bench).policy},
	{"panic", (*bench).panicking},
	{"config", (*bench).configuration},
	{"fanout", (*bench).fanOutBesideOthers},
	{"sources", (*bench).sources},
	{"injection", (*bench).injection},
	{"databases", (*bench).databases},
	{"served", (*bench).served},
	{"stacks", (*bench).appStacks},
	{"many", (*bench).manyObjects},
}

func main() {
	child := map[string]func(string) error{
		childCommand: runManager, listCommand: runList, cachesCommand: runCaches, noopCommand: runNoop,
		servedCommand: runServed, informerCommand: runInformer,
	}
	if len(os.Args) == 3 && child[os.Args[1]] != nil {
		if err := child[os.Args[1]](os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "perf "+os.Args[1]+":", err)
			os.Exit(1)
		}
		return
	}
	// The libraries' logs are of no use to readers of figures.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("perf", flag.ContinueOnError)
	b := &bench{out: out, start: time.Now(), report: newReport()}
	flags.StringVar(&b.assets, "assets", "", "folder of etcd, kube-apiserver and the other programs")
	flags.StringVar(&b.kwok, "kwok", "bin/kwok", "path of kwok")
	flags.StringVar(&b.stages, "stages", "", "folder of the stages that come with kwok")
	flags.IntVar(&b.apps, "apps", 1000, "WebApps of most parts")
	flags.IntVar(&b.many, "many", 10000, "WebApps of the part `many`")
	flags.IntVar(&b.postgreSQLs, "postgresqls", 500, "PostgreSQLs of the part `databases`")
	flags.IntVar(&b.stacks, "stacks", 2000, "AppStacks of the part `stacks`")
	flags.Func("users", "Deployments of the part `fanout`, instead of 200 and 1000; may be repeated", func(text string) error {
		count, err := strconv.Atoi(text)
		b.users = append(b.users, count)
		return err
	})
	output := flags.String("output", "bin/bench.json", "file for the figures")
	page := flags.String("page", "", "page to write the figures into; empty writes none")
	baseline := flags.String("baseline", "test/perf/baseline.json", "file to compare with; empty compares with nothing")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := os.Setenv("KUBEBUILDER_ASSETS", b.assets); err != nil {
		return err
	}
	var err error
	if b.directory, err = os.MkdirTemp("", "mainstay-bench-"); err != nil {
		return err
	}
	b.say("logs are in %s", b.directory)
	if err := checkNames(flags.Args()); err != nil {
		return err
	}
	complete, failed := b.runParts(ctx, flags.Args())
	if _, err := io.WriteString(out, b.report.table()); err != nil {
		return err
	}
	if failed != nil {
		return failed // without writing anything: figures that are missing would no longer be compared
	}
	if err := b.report.save(*output); err != nil {
		return err
	}
	if *page != "" {
		if err := b.report.writePage(*page); err != nil {
			return err
		}
	}
	if err := b.check(*baseline, complete); err != nil {
		return err
	}
	return os.RemoveAll(b.directory)
}

// checkNames returns an error if one of the names is not that of a part.
func checkNames(names []string) error {
	known := make([]string, 0, len(parts))
	for _, part := range parts {
		known = append(known, part.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("unknown part %q: must be one of %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// runParts runs the named parts, and reports whether these are all. A part that fails does not stop
// the next one, because a run is long; an interrupt does.
func (b *bench) runParts(ctx context.Context, names []string) (complete bool, failed error) {
	for _, part := range parts {
		if len(names) > 0 && !slices.Contains(names, part.name) {
			continue
		}
		if ctx.Err() != nil {
			return false, errors.Join(failed, ctx.Err())
		}
		b.say("== %s", part.name)
		if err := part.run(b, ctx); err != nil {
			b.say("%s failed: %v", part.name, err)
			failed = errors.Join(failed, fmt.Errorf("%s: %w", part.name, err))
		}
	}
	return len(names) == 0, failed
}

// check fails if a figure is worse than in the baseline, or worse than promised.
func (b *bench) check(path string, complete bool) error {
	baseline := &Report{}
	if path != "" {
		var err error
		if baseline, err = loadReport(path); err != nil {
			return err
		}
	}
	if worse := b.report.compare(baseline, complete); len(worse) > 0 {
		return fmt.Errorf("worse than %s, or than promised:\n  %s", path, strings.Join(worse, "\n  "))
	}
	return nil
}

// plane starts an API server for one part, after its preparations.
func (b *bench) plane(ctx context.Context, name string, prepare ...preparation) (*plane, error) {
	return newPlane(ctx, filepath.Join(b.directory, name), prepare...)
}

// managedPlane starts an API server, and returns the path of the kubeconfig for the manager.
func (b *bench) managedPlane(ctx context.Context, name string) (*plane, string, error) {
	p, err := b.plane(ctx, name)
	if err != nil {
		return nil, "", err
	}
	kubeconfig, _, err := p.user(managerUser)
	if err != nil {
		b.end(p)
	}
	return p, kubeconfig, err
}
