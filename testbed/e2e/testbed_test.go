//go:build e2e

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testbed is a built command and the environment that its cluster's users need.
type testbed struct {
	t       *testing.T
	program string
	kubectl string
	config  string
}

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	program := filepath.Join(t.TempDir(), "testbed")
	run(t, "go", "build", "-o", program, "../cmd/testbed")
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MAINSTAY_TESTBED_SOURCE", source)
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

func (b *testbed) kube(arguments ...string) string {
	b.t.Helper()
	return run(b.t, b.kubectl, append([]string{"--kubeconfig", b.config}, arguments...)...)
}

// eventually repeats a command until its output holds the text.
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

// eventuallyFetch asks for a page until it holds the text.
func (b *testbed) eventuallyFetch(timeout time.Duration, text, url string) {
	b.t.Helper()
	client := http.Client{Timeout: 2 * time.Second}
	var page []byte
	var err error
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(250 * time.Millisecond) {
		var response *http.Response
		if response, err = client.Get(url); err != nil {
			continue
		}
		page, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err == nil && strings.Contains(string(page), text) {
			return
		}
	}
	b.t.Fatalf("%s never answered %q (%v):\n%s", url, text, err, page)
}

func (b *testbed) eventuallyKube(timeout time.Duration, text string, arguments ...string) {
	b.t.Helper()
	b.eventually(timeout, text, b.kubectl, append([]string{"--kubeconfig", b.config}, arguments...)...)
}

// TestCluster runs the whole life of a cluster once: the parts depend on each other,
// and each start costs seconds.
func TestCluster(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root")
	}
	b := newTestbed(t)
	run(t, b.program, "down")
	before := observeMachine(t)
	t.Cleanup(func() { _, _ = try(b.program, "down") })

	run(t, b.program, "up", "--nodes", "2")
	start := time.Now()
	run(t, b.program, "up")
	if elapsed := time.Since(start); elapsed > 5*time.Second {
		t.Errorf("a second up took %s, want at most 5 s", elapsed)
	}
	b.kube("apply", "-f", "testdata/objects.yaml")
	b.kube("wait", "--for=condition=Ready", "pod", "--all", "--timeout=90s")
	steps := []struct {
		name string
		test func(*testbed)
	}{
		{"network", testNetwork}, {"volume", testVolume}, {"metrics", testMetrics}, {"java", testJava},
		{"restart", testRestart}, {"partition", testPartition},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			own := *b
			own.t = t
			step.test(&own)
		})
	}
	run(t, b.program, "down")
	if difference := cmp.Diff(before, observeMachine(t)); difference != "" {
		t.Errorf("down left the machine different (-before +after):\n%s", difference)
	}
}

// testNetwork asks a Service from this machine and from a pod, by its name.
func testNetwork(b *testbed) {
	address := strings.TrimSpace(b.kube("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"))
	b.eventuallyFetch(20*time.Second, "Hello from demo-web 1.0", "http://"+address+"/")
	b.eventuallyKube(20*time.Second, "web.default.svc.cluster.local", "exec", "client", "--",
		"getent", "hosts", "web.default.svc.cluster.local")
	// perl is in every Debian root file system; it also proves pod to pod over two nodes.
	// kube-proxy may take a second or more to know both pods.
	const program = `use IO::Socket::INET; my %pods; for my $i (1..20) {
		my $s = IO::Socket::INET->new(PeerAddr => "web", PeerPort => 80, Timeout => 2) or die "connect: $@";
		print $s "GET / HTTP/1.0\r\n\r\n"; $pods{$_} = 1 for grep { /^pod:/ } <$s> }
		print scalar(keys %pods), " pods answered"`
	b.eventuallyKube(20*time.Second, "2 pods answered", "exec", "client", "--", "perl", "-e", program)
}

// testVolume fills a volume beyond its size, and then has it grow.
func testVolume(b *testbed) {
	write := []string{"exec", "client", "--", "dd", "if=/dev/zero", "of=/data/file", "bs=1M", "count=400"}
	output, err := try(b.kubectl, append([]string{"--kubeconfig", b.config}, write...)...)
	if err == nil || !strings.Contains(output, "No space left on device") {
		b.t.Fatalf("400 MB fitted into a volume of 320 MiB (%v): %s", err, output)
	}
	b.kube("patch", "pvc", "data", "-p", `{"spec":{"resources":{"requests":{"storage":"800Mi"}}}}`)
	b.eventuallyKube(20*time.Second, "800Mi", "get", "pvc", "data", "-o", "jsonpath={.status.capacity.storage}")
	b.kube(write...)
	b.kube("delete", "pod", "client", "--grace-period=0", "--force")
	b.kube("delete", "pvc", "data")
	b.eventuallyKube(30*time.Second, "0", "get", "pv", "-o", "go-template={{len .items}}")
}

func testMetrics(b *testbed) {
	b.eventuallyKube(60*time.Second, "web-", "top", "pods")
}

// testJava runs a Java program without an agent, with one that an init container brings, and with a broken one.
func testJava(b *testbed) {
	tarballs := strings.Fields(run(b.t, b.program, "image", "build", "demo-java", "demo-agent"))
	run(b.t, b.program, append([]string{"image", "load"}, tarballs...)...)
	b.kube("apply", "-f", "testdata/java.yaml")
	b.kube("-n", "java", "wait", "--for=condition=Ready", "pod/plain", "pod/agent", "--timeout=60s")
	for pod, want := range map[string]string{
		"plain": `{"message":"Hello from demo-java","agent":null,"javaToolOptions":null,"env":null}`,
		"agent": `{"message":"a \"message\"","agent":"2.0 team=shop","javaToolOptions":"-javaagent:/mnt/agent/agent.jar=team=shop","env":"a \"message\""}`,
	} {
		address := b.kube("-n", "java", "get", "pod", pod, "-o", "jsonpath={.status.podIP}")
		b.eventuallyFetch(20*time.Second, want, "http://"+address+":8080/?env=MESSAGE")
	}
	const restarted = `{.status.containerStatuses[0].lastState.terminated.reason}`
	b.eventuallyKube(30*time.Second, "Error", "-n", "java", "get", "pod", "broken", "-o", "jsonpath="+restarted)
	b.kube("delete", "namespace", "java")
}

// testRestart kills a part of the cluster, which `up` starts again.
func testRestart(b *testbed) {
	var pid string
	for line := range strings.Lines(run(b.t, b.program, "status")) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "kube-scheduler" {
			pid = fields[1]
		}
	}
	run(b.t, "kill", "-KILL", pid)
	if _, err := try(b.program, "status"); err == nil {
		b.t.Error("status reports success without a scheduler")
	}
	run(b.t, b.program, "up")
	run(b.t, b.program, "status")
}

func testPartition(b *testbed) {
	ready := []string{"get", "node", "node-2", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`}
	run(b.t, b.program, "partition", "node-2")
	b.eventuallyKube(90*time.Second, "Unknown", ready...)
	run(b.t, b.program, "heal", "node-2")
	b.eventuallyKube(60*time.Second, "True", ready...)
}
