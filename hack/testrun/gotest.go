package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// goTest is a go test command.
type goTest struct {
	directory string
	arguments []string
	// race runs the tests with the race detector, which needs a second build of everything that they
	// import.
	race bool
	// mayBeEmpty is true for a package that is only compiled if it has no tests. Any other command in
	// which no test runs has failed: its tests have other names now, or build tags.
	mayBeEmpty bool
	// inCluster runs the tests in the test cluster's network.
	inCluster bool
	// nice lowers the priority of the command, as nice(1) does.
	nice int
	// environment is in addition to that of the layer.
	environment []string
}

// counts are the results and the duration of tests. Parents of subtests count too, as in `go test`.
type counts struct {
	passed, failed int
	// broken has what failed, with the end of its output.
	broken   []string
	skipped  []string
	tests    []timed
	commands []spent
}

func (c *counts) add(more counts) {
	c.passed += more.passed
	c.failed += more.failed
	c.broken = append(c.broken, more.broken...)
	c.skipped = append(c.skipped, more.skipped...)
	c.tests = append(c.tests, more.tests...)
	c.commands = append(c.commands, more.commands...)
}

// sum adds up the counts of all layers.
func sum(all []ended) counts {
	var total counts
	for _, layer := range all {
		total.add(layer.counts)
	}
	return total
}

// event is a line of `go test -json`.
//
// Source: go doc test2json, go help buildjson.
type event struct {
	Action, Package, Test, Output string
	// ImportPath is what is built, in place of Package; "p [p.test]" for the tests of p.
	ImportPath string
	// FailedBuild is the ImportPath that failed, because of which a package has.
	FailedBuild string
	// Key and Value are attributes that a test sets with T.Attr.
	Key, Value string
	Elapsed    float64
}

// command returns the go command with these options, and those of the test.
func (g goTest) command(ctx context.Context, further []string, options ...string) *exec.Cmd {
	arguments := slices.Concat([]string{"go", "test"}, options)
	if g.race {
		arguments = append(arguments, "-race")
	}
	if g.inCluster {
		arguments = append(arguments, "-exec", absolute(step.Testbed)+" exec --")
	}
	arguments = append(arguments, g.arguments...)
	if g.nice > 0 {
		arguments = append([]string{"nice", "-n", strconv.Itoa(g.nice)}, arguments...)
	}
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Dir = g.directory
	command.Env = environment(g.race, slices.Concat(further, g.environment))
	command.Stderr = os.Stdout
	// go passes no signal on to the test that it runs. So both get it, as from a terminal, of which
	// they are no longer in the foreground group. A test may still clean up: it is killed only later.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return signalGroup(command, syscall.SIGINT) }
	command.WaitDelay = 2 * time.Minute
	return command
}

// signalGroup sends a signal to a command that leads a process group, and to all that it has
// started in it.
func signalGroup(command *exec.Cmd, sent syscall.Signal) error {
	err := syscall.Kill(-command.Process.Pid, sent)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// environment returns the environment of this process with additions. Only the race detector needs
// C: without it, Go's build cache shares packages between tests and programs.
func environment(race bool, further []string) []string {
	kept := slices.DeleteFunc(inherited(), func(variable string) bool {
		return strings.HasPrefix(variable, "KUBECONFIG=") || strings.HasPrefix(variable, "CGO_ENABLED=")
	})
	if race {
		return slices.Concat(kept, []string{"CGO_ENABLED=1"}, further)
	}
	return slices.Concat(kept, []string{"CGO_ENABLED=0"}, further)
}

// inherited returns the environment of this process. In it, garbage is collected less often, unless
// GOGC is set: that was a quarter of the processor time of tests and of kube-apiserver. Pods and
// instances have environments of their own.
func inherited() []string {
	const gc = "GOGC"
	if os.Getenv(gc) != "" {
		return os.Environ()
	}
	return append(os.Environ(), gc+"=400")
}

// absolute returns the path of a file in the repository, for a command that may run in another
// folder.
func absolute(name string) string {
	here, err := os.Getwd()
	if err != nil {
		return name
	}
	return filepath.Join(here, name)
}

// run runs one go test command. It shows each package and each failure as it happens, and
// slow tests when they end.
func (g goTest) run(ctx context.Context, log *step.Log, further []string, total *counts) error {
	start := time.Now()
	// Linters check more than the vet that go test runs. The time limit may be overridden: go test's
	// own is ten minutes.
	command := g.command(ctx, further, "-count=1", "-json", "-vet=off", "-timeout="+hangs)
	stdout, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("running go test: %w", err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("running go test: %w", err)
	}
	var counted counts
	counted.read(log, stdout)
	counted.showInputs(log, g.folder())
	err = command.Wait()
	if ctx.Err() != nil {
		_ = signalGroup(command, syscall.SIGKILL) // what is left of it, after the delay
	}
	total.add(counted)
	total.commands = append(total.commands, spent{
		What: g.String(), Wall: time.Since(start), CPU: command.ProcessState.UserTime() + command.ProcessState.SystemTime(),
	})
	if err == nil && !g.mayBeEmpty && counted.passed+counted.failed+len(counted.skipped) == 0 {
		err = errors.New("no test ran")
	}
	if err != nil {
		return fmt.Errorf("go test %s in %s: %w", strings.Join(g.arguments, " "), g.directory, err)
	}
	return nil
}

// folder is that of the package that the command tests, or of the first of them.
func (g goTest) folder() string {
	at := slices.IndexFunc(g.arguments, func(argument string) bool { return strings.HasPrefix(argument, "./") })
	if at < 0 {
		return g.directory
	}
	return filepath.Join(g.directory, g.arguments[at])
}

// String names the command in a table.
func (g goTest) String() string {
	text := strings.Join(g.arguments, " ")
	if len(text) > 60 {
		text = text[:57] + "..."
	}
	if g.race {
		text = "-race " + text
	}
	return g.directory + ": " + text
}

// slow is the duration from which a test gets a line of its own.
const slow = 10 * time.Second

// read counts events until the stream ends.
func (c *counts) read(log *step.Log, stream io.Reader) {
	output := map[string]*strings.Builder{}
	scanner := bufio.NewScanner(stream)
	scanner.Buffer(nil, 1<<24)
	for scanner.Scan() {
		var line event
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			log.Say("%s", scanner.Text()) // a compiler's message, say
			continue
		}
		key := cmp.Or(line.Package, line.ImportPath) + " " + line.Test
		if output[key] == nil {
			output[key] = &strings.Builder{}
		}
		switch line.Action {
		case "output", "build-output":
			output[key].WriteString(line.Output)
		case "pass", "fail", "skip":
			c.count(log, line, output[key].String())
			delete(output, key)
		case "attr":
			log.Say("     %s", line.Value)
		case "build-fail":
			c.failed++
			text := fmt.Sprintf("BUILD FAILED %s\n", line.ImportPath)
			c.broken = append(c.broken, text+end(output[key].String()))
			log.Say("%s%s", text, output[key])
			delete(output, key)
		}
	}
	if err := scanner.Err(); err != nil {
		c.failed++
		log.Say("reading the output of go test: %v", err)
		_, _ = io.Copy(io.Discard, stream) // or it waits for a reader
	}
}

// count counts a test or package that has ended.
func (c *counts) count(log *step.Log, line event, output string) {
	took := time.Duration(line.Elapsed * float64(time.Second)).Round(100 * time.Millisecond)
	if line.Test != "" {
		c.tests = append(c.tests, timed{Test: strings.TrimPrefix(line.Package, module+"/") + " " + line.Test, Took: took})
	}
	switch {
	case line.Test == "" && line.Action == "fail":
		text := fmt.Sprintf("FAIL %s (%s)\n", line.Package, took)
		hasTest := func(earlier string) bool { return strings.HasPrefix(earlier, "FAIL "+line.Package+" Test") }
		if line.FailedBuild == "" && (strings.Contains(output, "panic: ") || !slices.ContainsFunc(c.broken, hasTest)) {
			c.broken = append(c.broken, text+end(output)) // not its build, nor only a test of it, but its set-up, or a time-out
		}
		log.Say("%s%s", text, output)
	case line.Test == "":
		if line.Action == "pass" {
			log.Say("  ok %s (%s)", line.Package, took)
		}
	case line.Action == "skip":
		c.skipped = append(c.skipped, line.Package+" "+line.Test)
	case line.Action == "fail":
		c.failed++
		text := fmt.Sprintf("FAIL %s %s (%s)\n", line.Package, line.Test, took)
		c.broken = append(c.broken, text+end(output))
		log.Say("%s%s", text, output)
	default:
		c.passed++
		if took >= slow {
			log.Say("  ok %s (%s)", line.Test, took)
		}
	}
}

// message is the first line of what a test logs itself: go test indents it by four characters for
// each level of subtests, and names the file.
var message = regexp.MustCompile(`(?m)^(?: {4})+\w+\.go:\d+: .*$`)

// end returns the last lines of an output, at most 4,000 bytes of them, and after them what they
// leave out of the test's own messages: a test that fails may print logs of some 60,000 bytes last.
func end(output string) string {
	const most, messages, length = 4000, 20, 400
	if len(output) <= most {
		return output
	}
	before, last := output[:len(output)-most], output[len(output)-most:]
	if _, whole, found := strings.Cut(last, "\n"); found {
		before, last = output[:len(output)-len(whole)], whole
	}
	own := message.FindAllString(before, -1)
	if len(own) == 0 {
		return "[...]\n" + last
	}
	own = own[max(0, len(own)-messages):]
	for i, line := range own {
		own[i] = line[:min(len(line), length)]
	}
	return "[...]\n" + last + "the test's messages before that:\n" + strings.Join(own, "\n") + "\n"
}

// summarize writes what ran, and reports whether all of it passed.
func summarize(out io.Writer, all []ended, chosen int, took time.Duration) bool {
	good := len(all) == chosen
	_, _ = fmt.Fprintf(out, "\n%-14s %-8s %7s %7s %7s %8s %8s %8s\n", "layer", "lane", "passed", "failed", "skipped", "wall", "cpu", "budget")
	for _, layer := range all {
		note := ""
		if layer.err != nil {
			good = false
			note = "  FAILED"
		} else if layer.took > layer.limit() {
			note = "  over its budget"
		}
		_, _ = fmt.Fprintf(out, "%-14s %-8s %7d %7d %7d %8s %8s %8s%s\n", layer.name, layer.lane, layer.passed, layer.failed, len(layer.skipped),
			layer.took, layer.cpu().Round(time.Second), layer.limit(), note)
	}
	for _, skipped := range sum(all).skipped {
		_, _ = fmt.Fprintf(out, "skipped: %s\n", skipped)
	}
	if len(all) != chosen {
		_, _ = fmt.Fprintf(out, "interrupted: %d of %d layers ran\n", len(all), chosen)
	}
	_, _ = fmt.Fprintf(out, "took %s\n", took)
	return good
}
