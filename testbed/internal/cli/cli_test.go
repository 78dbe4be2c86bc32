package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// TestInTurn: a command waits for others before it enters the network, which they may delete, and
// lets the next one go on whatever happens.
func TestInTurn(t *testing.T) {
	trouble := errors.New("trouble")
	for name, test := range map[string]struct {
		lock, enter, work error
		want              string
	}{
		"good":             {want: "lock enter work release"},
		"no lock":          {lock: trouble, want: "lock"},
		"no network":       {enter: trouble, want: "lock enter release"},
		"work that failed": {work: trouble, want: "lock enter work release"},
	} {
		var calls []string
		step := func(name string, err error) func() error {
			return func() error { calls = append(calls, name); return err }
		}
		lock := func(context.Context) (func(), error) {
			return func() { calls = append(calls, "release") }, step("lock", test.lock)()
		}
		err := inTurn(t.Context(), lock, step("enter", test.enter), step("work", test.work))
		if got := strings.Join(calls, " "); got != test.want || (err == nil) != (name == "good") {
			t.Errorf("%s: %s (%v), want %s", name, got, err, test.want)
		}
	}
}

func TestWithSbin(t *testing.T) {
	for path, want := range map[string]string{
		"":                       "/usr/local/sbin:/usr/sbin:/sbin",
		"/usr/bin":               "/usr/bin:/usr/local/sbin:/usr/sbin:/sbin",
		"/usr/sbin:/usr/bin":     "/usr/sbin:/usr/bin:/usr/local/sbin:/sbin",
		"/sbin:/usr/sbin:/usr/x": "/sbin:/usr/sbin:/usr/x:/usr/local/sbin",
	} {
		if got := withSbin(path); got != want || withSbin(got) != got {
			t.Errorf("withSbin(%q) = %q, and again %q; want %q", path, got, withSbin(got), want)
		}
	}
}

// TestPath: each command finds the machine's programs, not only those that start a cluster.
func TestPath(t *testing.T) {
	t.Setenv("PATH", "/usr/bin")
	t.Setenv("MAINSTAY_TESTBED_DIR", "/tmp/unused")
	root := New()
	root.SetOut(io.Discard)
	root.SetArgs([]string{"kubeconfig"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("PATH"); !strings.HasSuffix(path, ":/usr/sbin:/sbin") {
		t.Errorf("PATH is %s", path)
	}
}
