package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// goTest is a go test command.
type goTest struct {
	directory string
	arguments []string
	// parts is among how many commands the tests are dealt, if it is more than 1: each has a process, and whatever TestMain starts, for itself. The
	// last argument is then the one package that has the tests.
	parts int
}

// isTest matches what -run chooses from, in the lines of `go test -list`.
var isTest = regexp.MustCompile(`^(Test|Fuzz|Example)\w*$`)

// deal makes the commands of one. An error comes with none, for to leave out tests in silence is worse than to fail.
func (g goTest) deal(ctx context.Context, further []string) ([]goTest, error) {
	if g.parts <= 1 {
		return []goTest{g}, nil
	}
	listed, err := g.command(ctx, further, "-list", ".").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tests of %s: %w\n%s", g.arguments[len(g.arguments)-1], err, listed)
	}
	return g.among(strings.Fields(string(listed)))
}

// among deals the tests in turn, so that those of one file, which take about as long as each other, come to different commands.
func (g goTest) among(listed []string) ([]goTest, error) {
	tests := slices.DeleteFunc(listed, func(word string) bool { return !isTest.MatchString(word) })
	last := len(g.arguments) - 1
	if len(tests) < g.parts {
		return nil, fmt.Errorf("%s: %d tests can't be dealt among %d commands", g.arguments[last], len(tests), g.parts)
	}
	hands := make([][]string, g.parts)
	for i, test := range tests {
		hands[i%g.parts] = append(hands[i%g.parts], test)
	}
	var dealt []goTest
	for _, hand := range hands {
		arguments := append(slices.Clone(g.arguments[:last]), "-run", "^("+strings.Join(hand, "|")+")$", g.arguments[last])
		dealt = append(dealt, goTest{directory: g.directory, arguments: arguments})
	}
	return dealt, nil
}

// counts are what became of tests. Parents of subtests count too, as `go test` shows them.
type counts struct {
	passed, failed int
	skipped        []string
}

func (c *counts) add(more counts) {
	c.passed += more.passed
	c.failed += more.failed
	c.skipped = append(c.skipped, more.skipped...)
}

// event is a line of `go test -json`.
//
// Source: go doc test2json.
type event struct {
	Action, Package, Test, Output string
	// Key and Value are what a test says of itself, with T.Attr.
	Key, Value string
	Elapsed    float64
}

// command is go test with these options, and those of its own.
func (g goTest) command(ctx context.Context, further []string, options ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", slices.Concat([]string{"test"}, options, g.arguments)...)
	command.Dir = g.directory
	command.Env = environment(further)
	command.Stderr = os.Stdout
	// A test that is told to end may still clean up: it is killed only later.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 2 * time.Minute
	return command
}

// run runs one go test command. It shows each package and each failure as it happens, and
// slow tests when they end.
func (g goTest) run(ctx context.Context, log *step.Log, further []string, total *counts) error {
	command := g.command(ctx, further, "-count=1", "-json")
	stdout, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("running go test: %w", err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("running go test: %w", err)
	}
	total.read(log, stdout)
	if err := command.Wait(); err != nil {
		return fmt.Errorf("go test %s in %s: %w", strings.Join(g.arguments, " "), g.directory, err)
	}
	return nil
}

// slow is from when on a test is worth a line of its own.
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
		key := line.Package + " " + line.Test
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
			log.Say("BUILD FAILED %s\n%s", line.Package, output[key])
		}
	}
}

// count notes one test or package that has ended.
func (c *counts) count(log *step.Log, line event, output string) {
	took := time.Duration(line.Elapsed * float64(time.Second)).Round(100 * time.Millisecond)
	switch {
	case line.Test == "" && line.Action == "fail":
		log.Say("FAIL %s (%s)\n%s", line.Package, took, output)
	case line.Test == "":
		if line.Action == "pass" {
			log.Say("  ok %s (%s)", line.Package, took)
		}
	case line.Action == "skip":
		c.skipped = append(c.skipped, line.Package+" "+line.Test)
	case line.Action == "fail":
		c.failed++
		log.Say("FAIL %s %s (%s)\n%s", line.Package, line.Test, took, output)
	default:
		c.passed++
		if took >= slow {
			log.Say("  ok %s (%s)", line.Test, took)
		}
	}
}

// summarize writes what ran, and reports whether all of it passed. The last line has the form
// that test runners of any language share.
func summarize(out io.Writer, all []ended, chosen int, took time.Duration) bool {
	var sum counts
	good := len(all) == chosen
	_, _ = fmt.Fprintf(out, "\n%-12s %8s %8s %8s %8s %8s\n", "layer", "passed", "failed", "skipped", "took", "budget")
	for _, layer := range all {
		note := ""
		if layer.err != nil {
			good = false
			note = "  FAILED"
		} else if layer.took > layer.budget {
			note = "  over its budget"
		}
		_, _ = fmt.Fprintf(out, "%-12s %8d %8d %8d %8s %8s%s\n", layer.name, layer.passed, layer.failed, len(layer.skipped), layer.took, layer.budget, note)
		sum.add(layer.counts)
	}
	for _, skipped := range sum.skipped {
		_, _ = fmt.Fprintf(out, "skipped: %s\n", skipped)
	}
	if len(all) != chosen {
		_, _ = fmt.Fprintf(out, "interrupted: %d of %d layers ran\n", len(all), chosen)
	}
	if !good && sum.failed == 0 {
		sum.failed = 1 // a layer that could not run
	}
	_, _ = fmt.Fprintf(out, "took %s\n%d passed, %d failed, %d skipped\n", took, sum.passed, sum.failed, len(sum.skipped))
	return good
}
