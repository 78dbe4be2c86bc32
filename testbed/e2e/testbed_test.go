//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// testbed is a built command, and the environment for users of its cluster.
type testbed struct {
	t       *testing.T
	program string
	kubectl string
	config  string
}

// newTestbed returns the tool named by the variable MAINSTAY_TESTBED, or builds it.
func newTestbed(t *testing.T) *testbed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root")
	}
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MAINSTAY_TESTBED_SOURCE", source)
	program := os.Getenv("MAINSTAY_TESTBED")
	if program == "" {
		program = filepath.Join(t.TempDir(), "testbed")
		run(t, "go", "build", "-o", program, "../cmd/testbed")
	}
	b := &testbed{t: t, program: program}
	assets := strings.TrimSpace(run(t, program, "assets"))
	b.kubectl = filepath.Join(assets, "kubectl")
	b.config = strings.TrimSpace(run(t, program, "kubeconfig"))
	return b
}

func run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	output, err := try(name, arguments...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(arguments, " "), err, output)
	}
	return output
}

// try returns stdout, and stderr after it when the command failed.
func try(name string, arguments ...string) (string, error) {
	command := exec.Command(name, arguments...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

// tryKube runs kubectl in the cluster's network.
func (b *testbed) tryKube(arguments ...string) (string, error) {
	return try(b.program, append([]string{"exec", "--", b.kubectl, "--kubeconfig", b.config}, arguments...)...)
}

func (b *testbed) kube(arguments ...string) string {
	b.t.Helper()
	output, err := b.tryKube(arguments...)
	if err != nil {
		b.t.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return output
}

// eventually repeats a command until its output contains the text.
func (b *testbed) eventually(timeout time.Duration, text, name string, arguments ...string) {
	b.t.Helper()
	var output string
	var err error
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(250 * time.Millisecond) {
		if output, err = try(name, arguments...); err == nil && strings.Contains(output, text) {
			return
		}
	}
	b.t.Fatalf("%s %v never printed %q (%v):\n%s", filepath.Base(name), arguments, text, err, output)
}

// fetch is a program that gets a page with tools of every Debian, because this process is not in
// the network of a named cluster.
const fetch = `exec 3<>"/dev/tcp/$1/$2"; printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$3" "$1" >&3; cat <&3`

// eventuallyFetch gets a page until it contains the text.
func (b *testbed) eventuallyFetch(timeout time.Duration, text, host, port, path string) {
	b.t.Helper()
	b.eventually(timeout, text, b.program, "exec", "--", "timeout", "30", "bash", "-c", fetch, "bash", host, port, path)
}

func (b *testbed) eventuallyKube(text string, arguments ...string) {
	b.t.Helper()
	b.eventually(patience, text, b.program, append([]string{"exec", "--", b.kubectl, "--kubeconfig", b.config}, arguments...)...)
}

// patience limits waits that take seconds on an idle machine.
const patience = 5 * time.Minute

// secondUp is how long `up` may take when everything runs already: less than a first one. On an
// idle machine it takes about a second.
const secondUp = 3 * time.Minute

// TestUp starts a cluster of two nodes, checks that it works, and leaves it running without the
// objects of the test. It records the state of the machine before for TestDown. test/e2e tests a
// disconnected node, with an application on it.
func TestUp(t *testing.T) {
	b := newTestbed(t)
	run(t, b.program, "down")
	observeMachine(t).save(t)
	t.Cleanup(func() {
		if t.Failed() {
			_, _ = try(b.program, "down")
		}
	})

	run(t, b.program, "up", "--nodes", "2")
	start := time.Now()
	run(t, b.program, "up")
	t.Logf("a second up took %s", time.Since(start).Round(time.Millisecond))
	if elapsed := time.Since(start); elapsed > secondUp {
		t.Errorf("a second up took %s, want at most %s", elapsed, secondUp)
	}
	testShare(b, 2)
	b.kube("apply", "-f", "testdata/objects.yaml")
	b.kube("wait", "--for=condition=Ready", "pod", "--all", "--timeout=5m")
	t.Run("works", func(t *testing.T) {
		for name, test := range map[string]func(*testbed){
			"network and volume": func(b *testbed) { testNetwork(b); testVolume(b) }, // both use the pod client
			"metrics":            testMetrics,
			"java":               testJava,
			"postgresql":         testPostgreSQL,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				own := *b
				own.t = t
				test(&own)
			})
		}
	})
	testRestart(b)
	b.kube("delete", "-f", "testdata/objects.yaml", "--ignore-not-found", "--timeout=5m")
}

// TestDown ends the cluster, and compares the machine with its state before TestUp.
func TestDown(t *testing.T) {
	b := newTestbed(t)
	before := loadMachine(t)
	run(t, b.program, "down")
	after := observeMachine(t)
	if !before.Alone || !after.Alone {
		before, after = before.own(), after.own()
	}
	if difference := cmp.Diff(before, after, cmpopts.EquateEmpty()); difference != "" {
		t.Errorf("down left the machine different (-before +after):\n%s", difference)
	}
}

// testShare checks that the pods of the nodes together have a share of processor time like that of
// so many machines.
func testShare(b *testbed, nodes int) {
	b.t.Helper()
	found := 0
	for pattern, one := range map[string]int{"/sys/fs/cgroup/cpu*/%s/cpu.shares": 1024, "/sys/fs/cgroup/%s/cpu.weight": 100} {
		files, err := filepath.Glob(fmt.Sprintf(pattern, "mainstay-testbed"+suffix()))
		if err != nil {
			b.t.Fatal(err)
		}
		found += len(files)
		for _, file := range files {
			if got, want := strings.TrimSpace(run(b.t, "cat", file)), strconv.Itoa(nodes*runtime.NumCPU()*one); got != want {
				b.t.Errorf("%s contains %s, want %s", file, got, want)
			}
		}
	}
	if found == 0 {
		b.t.Error("no control group limits the pods' share of processor time")
	}
}

// testNetwork calls a Service from this machine, and by its name from a pod.
func testNetwork(b *testbed) {
	address := strings.TrimSpace(b.kube("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"))
	b.eventuallyFetch(patience, "Hello from demo-web 1.0", address, "80", "/")
	b.eventuallyKube("web.default.svc.cluster.local", "exec", "client", "--",
		"getent", "hosts", "web.default.svc.cluster.local")
	// perl is in every Debian root file system; it also proves pod to pod over two nodes.
	// kube-proxy may take a second or more to know both pods.
	const program = `use IO::Socket::INET; my %pods; for my $i (1..20) {
		my $s = IO::Socket::INET->new(PeerAddr => "web", PeerPort => 80, Timeout => 10) or die "connect: $@";
		print $s "GET / HTTP/1.0\r\n\r\n"; $pods{$_} = 1 for grep { /^pod:/ } <$s> }
		print scalar(keys %pods), " pods answered"`
	b.eventuallyKube("2 pods answered", "exec", "client", "--", "perl", "-e", program)
}

// testVolume fills a volume beyond its size, and then enlarges it.
func testVolume(b *testbed) {
	write := []string{"exec", "client", "--", "dd", "if=/dev/zero", "of=/data/file", "bs=1M", "count=400"}
	output, err := b.tryKube(write...)
	if err == nil || !strings.Contains(output, "No space left on device") {
		b.t.Fatalf("400 MB fitted into a volume of 320 MiB (%v): %s", err, output)
	}
	b.kube("patch", "pvc", "data", "-p", `{"spec":{"resources":{"requests":{"storage":"800Mi"}}}}`)
	b.eventuallyKube("800Mi", "get", "pvc", "data", "-o", "jsonpath={.status.capacity.storage}")
	b.kube(write...)
	b.kube("delete", "pod", "client", "--grace-period=0", "--force")
	b.kube("delete", "pvc", "data")
	b.eventuallyKube("0", "get", "pv", "-o", "go-template={{len .items}}")
}

func testMetrics(b *testbed) {
	b.eventuallyKube("web-", "top", "pods")
}

// testJava runs a Java program without an agent, with one from an init container, and with a broken
// one.
func testJava(b *testbed) {
	tarballs := strings.Fields(run(b.t, b.program, "image", "build", "demo-java", "demo-agent"))
	run(b.t, b.program, append([]string{"image", "load"}, tarballs...)...)
	b.kube("apply", "-f", "testdata/java.yaml")
	b.kube("-n", "java", "wait", "--for=condition=Ready", "pod/plain", "pod/agent", "--timeout=5m")
	for pod, want := range map[string]string{
		"plain": `{"message":"Hello from demo-java","agent":null,"javaToolOptions":null,"env":null}`,
		"agent": `{"message":"a \"message\"","agent":"2.0 team=shop","javaToolOptions":"-javaagent:/mnt/agent/agent.jar=team=shop","env":"a \"message\""}`,
	} {
		address := b.kube("-n", "java", "get", "pod", pod, "-o", "jsonpath={.status.podIP}")
		b.eventuallyFetch(patience, want, address, "8080", "/?env=MESSAGE")
	}
	const restarted = `{.status.containerStatuses[0].lastState.terminated.reason}`
	b.eventuallyKube("Error", "-n", "java", "get", "pod", "broken", "-o", "jsonpath="+restarted)
	b.kube("delete", "namespace", "java")
}

// testPostgreSQL runs a server of each version that a stable release of Debian has. Another would
// depend on what the unstable one has today; the nightly tests of databases have it.
func testPostgreSQL(b *testbed) {
	versions := []string{"15", "17"}
	build := []string{"image", "build"}
	for _, version := range versions {
		build = append(build, "postgresql-"+version)
	}
	run(b.t, b.program, append([]string{"image", "load"}, strings.Fields(run(b.t, b.program, build...))...)...)
	b.kube("apply", "-f", "testdata/postgresql.yaml")
	b.kube("-n", "postgresql", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=5m")
	for _, version := range versions {
		got := b.kube("-n", "postgresql", "exec", "postgresql-"+version, "--", "psql", "-h", "/data", "-U", "postgres", "-tAc", "SHOW server_version")
		if !strings.HasPrefix(got, version+".") {
			b.t.Errorf("postgresql:%s is %s", version, got)
		}
	}
	b.kube("delete", "namespace", "postgresql")
}

// testRestart kills a component, which `up` starts again.
func testRestart(b *testbed) {
	var pid string
	for line := range strings.Lines(run(b.t, b.program, "status")) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "kube-scheduler" {
			pid = fields[1]
		}
	}
	run(b.t, "kill", "-KILL", pid)
	_, err := try(b.program, "status")
	for deadline := time.Now().Add(patience); err == nil && time.Now().Before(deadline); time.Sleep(250 * time.Millisecond) {
		_, err = try(b.program, "status") // On a busy machine, a process ends a moment after it was killed.
	}
	if err == nil {
		b.t.Error("status reports success without a scheduler")
	}
	run(b.t, b.program, "up")
	run(b.t, b.program, "status")
}
