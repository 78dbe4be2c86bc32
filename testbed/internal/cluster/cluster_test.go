package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/mainstay-platform/mainstay/testbed/internal/layout"
	"github.com/mainstay-platform/mainstay/testbed/internal/pki"
	"github.com/mainstay-platform/mainstay/testbed/internal/ui"
)

// newTestCluster returns a cluster whose files can be written, but which is never started.
func newTestCluster(t *testing.T) *Cluster {
	t.Helper()
	c := New(layout.Dir(t.TempDir()), nil)
	c.binaries = "/cache/kube"
	c.programs = map[string]string{"containerd": "/usr/bin/containerd"}
	return c
}

func TestNodeNumber(t *testing.T) {
	for name, want := range map[string]int{"node-1": 1, "node-12": 12} {
		if got, err := NodeNumber(name); got != want || err != nil {
			t.Errorf("NodeNumber(%q) = %d, %v, want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "node-", "node-0", "node--1", "node-01", "other-1", "1"} {
		if got, err := NodeNumber(name); err == nil {
			t.Errorf("NodeNumber(%q) = %d, want an error", name, got)
		}
	}
}

func TestKubeletNumber(t *testing.T) {
	if got, err := kubeletNumber(kubeletName(NodeName(12))); got != 12 || err != nil {
		t.Errorf("the kubelet of node-12 has the number %d, %v", got, err)
	}
	for _, name := range []string{etcdName, containerdName(NodeName(1)), "kubelet-", "kubelet-node-0"} {
		if got, err := kubeletNumber(name); err == nil {
			t.Errorf("kubeletNumber(%q) = %d, want an error", name, got)
		}
	}
}

// TestCable: whatever step is the last before an interruption, the node has no eth0 or a whole
// cable, and `down` finds both ends by their prefix.
func TestCable(t *testing.T) {
	link := nodeLink(MaxNodes)
	steps := cable(nodeNamespace(MaxNodes), link)
	for at, step := range steps {
		text := strings.Join(step, " ")
		if last := at == len(steps)-1; strings.Contains(text, "netns "+nodeNamespace(MaxNodes)+" name eth0") != last {
			t.Errorf("step %d of %d is: ip %s", at+1, len(steps), text)
		}
	}
	peer := steps[0][len(steps[0])-1]
	for _, name := range []string{link, peer} {
		if len(name) > 15 || !strings.HasPrefix(name, linkPrefix) {
			t.Errorf("a link has the name %q, want at most 15 bytes that begin with %q", name, linkPrefix)
		}
	}
}

// TestFindPrograms: a program must be on PATH, and a file may have any extension; each missing
// package is named once.
func TestFindPrograms(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	for name, mode := range map[string]os.FileMode{"mmdebstrap": 0o700, "keyring.gpg": 0o600} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	paths, missing := findPrograms([]requirement{
		{"ctr", "containerd"}, {"containerd", "containerd"}, {"mmdebstrap", "mmdebstrap"},
		{filepath.Join(folder, "keyring.*"), "keyring"}, {filepath.Join(folder, "other.*"), "another"},
	})
	if !slices.Equal(missing, []string{"another", "containerd"}) {
		t.Errorf("missing are %v", missing)
	}
	want := map[string]string{
		"mmdebstrap":                       filepath.Join(folder, "mmdebstrap"),
		filepath.Join(folder, "keyring.*"): filepath.Join(folder, "keyring.gpg"),
	}
	if !maps.Equal(paths, want) {
		t.Errorf("found %v, want %v", paths, want)
	}
	for _, needed := range imageRequirements {
		if !slices.Contains(requirements, needed) {
			t.Errorf("a cluster does not need %s, but its images do", needed.program)
		}
	}
}

// TestNoProxyTables: a machine without nft has no tables to delete, so that `down` works there.
func TestNoProxyTables(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	c := newTestCluster(t)
	if err := writeState(c.dir, machineState{BootID: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := c.removeProxyTables(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestInterruptedInstallation: an interrupt waits for the end of an installation.
func TestInterruptedInstallation(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("FOLDER", folder)
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	const apt = "#!/bin/sh\n[ \"$1\" = update ] || { : > \"$FOLDER/begun\"; sleep 1; touch \"$FOLDER/done\"; }\n"
	if err := os.WriteFile(filepath.Join(folder, "apt-get"), []byte(apt), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := filepath.Join(folder, "begun")
	if err := unix.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = os.ReadFile(begun) // it returns when the installation has begun
		cancel()
	}()
	if err := installPackages(ctx, []string{"xfsprogs"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the interrupted installation gives %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "done")); err != nil {
		t.Errorf("it was cut off: %v", err)
	}
}

// TestForeignProxyTables: `down` deletes the tables of a testbed, and leaves those of another
// cluster alone, beside which `up` starts nothing.
func TestForeignProxyTables(t *testing.T) {
	folder := t.TempDir()
	calls := filepath.Join(folder, "calls")
	t.Setenv("CALLS", calls)
	t.Setenv("PATH", folder)
	t.Setenv(layout.NameVariable, "")
	const nft = `#!/bin/sh
case "$1" in
list) echo "table ip filter"; echo "table ip kube-proxy"; echo "table ip6 kube-proxy" ;;
*) echo "$*" >> "$CALLS" ;;
esac
`
	if err := os.WriteFile(filepath.Join(folder, "nft"), []byte(nft), 0o700); err != nil {
		t.Fatal(err)
	}
	const deleted = "delete table ip kube-proxy\ndelete table ip6 kube-proxy\n"
	for _, isOurs := range []bool{false, true} {
		c := newTestCluster(t)
		if isOurs {
			if err := writeState(c.dir, machineState{BootID: "a"}); err != nil {
				t.Fatal(err)
			}
		} else if linkExists(bridgeName) {
			continue // a testbed runs on this machine: the tables are its
		}
		if err := c.refuseForeignNode(t.Context()); (err == nil) != isOurs {
			t.Errorf("up beside the tables, ours: %t: %v", isOurs, err)
		}
		if err := c.removeProxyTables(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(calls) // none without a call
		if want := map[bool]string{true: deleted}[isOurs]; string(got) != want {
			t.Errorf("down, ours: %t: nft was called with %q, want %q", isOurs, got, want)
		}
	}
}

// TestLock: a command waits for another one, and can be interrupted meanwhile.
func TestLock(t *testing.T) {
	first := New(layout.Dir(t.TempDir()), ui.New(io.Discard))
	release, err := first.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := New(first.dir, ui.New(io.Discard))
	short, cancel := context.WithTimeout(t.Context(), 3*pollLock)
	defer cancel()
	if _, err := second.Lock(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for the lock ended with %v", err)
	}
	time.AfterFunc(3*pollLock, release)
	again, err := second.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestNetworkOfNoCluster: only commands that work without a running cluster make the network of a
// named one.
func TestNetworkOfNoCluster(t *testing.T) {
	folder := t.TempDir()
	calls := filepath.Join(folder, "calls")
	t.Setenv("CALLS", calls)
	t.Setenv("PATH", folder)
	t.Setenv(layout.NameVariable, "neverstarted")
	if err := os.WriteFile(filepath.Join(folder, "ip"), []byte("#!/bin/sh\necho \"$*\" >> \"$CALLS\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := newTestCluster(t)
	if err := c.EnterNetwork(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("entering gives %v, want %v", err, ErrNotRunning)
	}
	if got, err := os.ReadFile(calls); !os.IsNotExist(err) {
		t.Errorf("entering a network called ip with %q (%v)", got, err)
	}
	if err := c.MakeNetwork(t.Context()); !errors.Is(err, ErrNotRunning) { // the stand-in makes none
		t.Errorf("making gives %v, want %v", err, ErrNotRunning)
	}
	if got, err := os.ReadFile(calls); string(got) != "netns add mstb-neverstarted-host\n" {
		t.Errorf("making a network called ip with %q (%v)", got, err)
	}
}

// TestTokenKey: a key is written as a whole, over what an interrupted command has left, and only
// once.
func TestTokenKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token.key")
	if err := os.WriteFile(file+".new", []byte("-----BEGIN EC PRI"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ensureTokenKey(file); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(key), "-----BEGIN EC PRIVATE KEY-----\n") {
		t.Errorf("the key is %q (%v)", key, err)
	}
	if _, err := os.Stat(file + ".new"); !os.IsNotExist(err) {
		t.Errorf("the key was not renamed (%v)", err)
	}
	if err := ensureTokenKey(file); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(file); err != nil || string(again) != string(key) {
		t.Errorf("the key was replaced (%v)", err)
	}
}

// TestEndedProcess checks that an ended process is named with what it wrote last, and so is a
// kubelet that was started again too often.
func TestEndedProcess(t *testing.T) {
	c := newTestCluster(t)
	c.restarts = maxRestarts
	ended := filepath.Join(string(c.dir), "ended.log")
	if err := os.WriteFile(ended, []byte("the reason\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{etcdName, kubeletName(NodeName(1))} {
		if err := os.MkdirAll(c.dir.Processes(), 0o755); err != nil {
			t.Fatal(err)
		}
		record := fmt.Sprintf(`{"name": %q, "pid": 1, "startTime": 1, "log": %q}`, name, ended)
		file := filepath.Join(c.dir.Processes(), name+".json")
		if err := os.WriteFile(file, []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.endedProcess(); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "the reason") {
			t.Errorf("%s has ended, and the error is %v", name, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

func TestParseMountPoint(t *testing.T) {
	for line, want := range map[string]string{
		`36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw`:       "/mnt",
		`36 35 98:0 / /mnt\040a\134b rw - ext3 /dev/root rw`:              `/mnt a\b`,
		`36 35 98:0 /x /run/netns/cni-1 rw shared:2 - nsfs nsfs rw,x=y,z`: "/run/netns/cni-1",
	} {
		if got, ok := parseMountPoint(line); got != want || !ok {
			t.Errorf("parseMountPoint(%q) = %q, %t, want %q", line, got, ok, want)
		}
	}
	if _, ok := parseMountPoint("36 35"); ok {
		t.Error("a short line has a mount point")
	}
}

// TestFlags pins the flags without which the cluster would not work as its users expect.
func TestFlags(t *testing.T) {
	c := newTestCluster(t)
	for _, test := range []struct {
		name      string
		arguments []string
		want      []string
	}{
		{"etcd", c.etcd().Arguments, []string{"/cache/kube/etcd", "--unsafe-no-fsync"}},
		{"apiserver", c.apiserver().Arguments, []string{
			"/cache/kube/kube-apiserver",
			"--authorization-mode=Node,RBAC",
			"--enable-aggregator-routing=true",
			"--requestheader-allowed-names=front-proxy",
			"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
			"--service-cluster-ip-range=198.19.0.0/16",
			"--bind-address=198.18.255.1",
		}},
		{"manager", c.manager().Arguments, []string{
			"--use-service-account-credentials=true", "--horizontal-pod-autoscaler-sync-period=5s",
		}},
		{"kubelet", c.kubelet(2).Arguments, []string{"--hostname-override=node-2", "--node-ip=198.18.255.12"}},
	} {
		for _, want := range test.want {
			if !slices.Contains(test.arguments, want) {
				t.Errorf("%s lacks %s: %q", test.name, want, test.arguments)
			}
		}
	}
	if got := c.kubelet(2).Namespace; got != "/run/netns/mstb-node-2" {
		t.Errorf("the second kubelet runs in %q", got)
	}
	if got := c.apiserver().Namespace; got != "" {
		t.Errorf("the API server runs in %q, want the machine's namespace", got)
	}
}

// TestConfigure writes every file of a cluster of two nodes, twice. The second time must change
// none, because kube-proxy ends when its file is written.
func TestConfigure(t *testing.T) {
	c := newTestCluster(t)
	var contents [2]map[string]string
	for i := range contents {
		if err := c.ensureCertificates(2); err != nil {
			t.Fatal(err)
		}
		if err := c.writeClusterConfig(); err != nil {
			t.Fatal(err)
		}
		for number := 1; number <= 2; number++ {
			if err := c.writeNodeConfig(number); err != nil {
				t.Fatal(err)
			}
		}
		contents[i] = readTree(t, string(c.dir))
	}
	for name, content := range contents[0] {
		if contents[1][name] != content {
			t.Errorf("%s was written again", name)
		}
		if strings.Contains(content, "{{") || strings.Contains(content, "<no value>") {
			t.Errorf("%s was not filled in", name)
		}
	}
	text, err := c.manifests(false)
	if err != nil {
		t.Fatal(err)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	objects := 0
	for {
		var object map[string]any
		if err := decoder.Decode(&object); err != nil {
			break
		}
		if object["kind"] == nil {
			t.Errorf("an object has no kind: %v", object)
		}
		objects++
	}
	if objects < 15 {
		t.Errorf("%d objects were rendered, want at least 15", objects)
	}
}

func readTree(t *testing.T, root string) map[string]string {
	t.Helper()
	contents := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		contents[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

func TestState(t *testing.T) {
	dir := layout.Dir(t.TempDir())
	if _, found, err := readState(dir); found || err != nil {
		t.Fatalf("a new folder has a state (%v)", err)
	}
	want := machineState{BootID: "a", Nodes: 3, Sysctls: map[string]string{"kernel/panic": "0"}}
	if err := writeState(dir, want); err != nil {
		t.Fatal(err)
	}
	got, found, err := readState(dir)
	if err != nil || !found || got.BootID != "a" || got.Nodes != 3 || got.Sysctls["kernel/panic"] != "0" {
		t.Errorf("the state is %+v (%t, %v), want %+v", got, found, err, want)
	}
}

// TestWantedSysctls checks that `up` does not lower what an administrator has raised.
func TestWantedSysctls(t *testing.T) {
	got := wantedSysctls(map[string]string{
		"fs/inotify/max_user_instances": "128",
		"fs/inotify/max_user_watches":   "99999999",
		"vm/overcommit_memory":          "2",
		"kernel/panic":                  "10",
	})
	want := map[string]string{"fs/inotify/max_user_instances": "8192", "vm/overcommit_memory": "1"}
	if !maps.Equal(got, want) {
		t.Errorf("the settings to write are %v, want %v", got, want)
	}
}

// TestShrink checks that `up` refuses fewer nodes than the cluster has, because it would leave
// nodes behind.
func TestShrink(t *testing.T) {
	c := newTestCluster(t)
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	if err := writeState(c.dir, machineState{BootID: boot, Nodes: 2}); err != nil {
		t.Fatal(err)
	}
	for nodes, want := range map[int]int{0: 2, 2: 2, 3: 3} {
		if err := writeState(c.dir, machineState{BootID: boot, Nodes: 2}); err != nil {
			t.Fatal(err)
		}
		state, err := c.prepareState(t.Context(), Size{Nodes: nodes})
		if err != nil || state.Nodes != want {
			t.Errorf("up --nodes %d gives %d nodes (%v), want %d", nodes, state.Nodes, err, want)
		}
	}
	for _, nodes := range []int{-1, 1, MaxNodes + 1} {
		if _, err := c.prepareState(t.Context(), Size{Nodes: nodes}); err == nil {
			t.Errorf("up --nodes %d was accepted on a cluster of 2", nodes)
		}
	}
}

// TestCore checks that a cluster keeps what it has, whatever a later `up` leaves out.
func TestCore(t *testing.T) {
	c := newTestCluster(t)
	for _, step := range []struct{ asked, want bool }{{true, true}, {true, true}, {false, false}, {true, false}} {
		state, err := c.prepareState(t.Context(), Size{Core: step.asked})
		if err != nil || state.Core != step.want {
			t.Errorf("up --core=%t gives %t (%v), want %t", step.asked, state.Core, err, step.want)
		}
	}
}

// TestNamedCluster checks that a second cluster has its own state, shares the cache, and knows the
// machine's settings from before both.
func TestNamedCluster(t *testing.T) {
	t.Setenv(layout.DirVariable, filepath.Join("/tmp", filepath.Base(t.TempDir())+strings.ReplaceAll(t.Name(), "/", "-")))
	first, err := layout.Default()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(layout.NameVariable, "tests")
	second, err := layout.Default()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = os.RemoveAll(string(first)), os.RemoveAll(string(second)) })
	if second.Run() == first.Run() || second.Lock() == first.Lock() || second.Logs() == first.Logs() {
		t.Errorf("both clusters are in %s", second)
	}
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]string{"kernel/panic": "7"}
	if err := writeState(first, machineState{BootID: boot, Nodes: 1, Sysctls: before}); err != nil {
		t.Fatal(err)
	}
	c := New(second, nil)
	state, err := c.prepareState(t.Context(), Size{})
	if err != nil || !maps.Equal(state.Sysctls, before) {
		t.Errorf("the settings before are %v (%v), want those that the first cluster noted", state.Sysctls, err)
	}
	t.Setenv(layout.NameVariable, "")
	if second.Cache() == second.Run() || first.Cache() != filepath.Join(string(first), "cache") {
		t.Errorf("the caches are %s and %s", first.Cache(), second.Cache())
	}
	t.Setenv(layout.NameVariable, "Tests")
	if _, err := layout.Default(); err == nil {
		t.Error("a name that is no part of a network namespace's is accepted")
	}
}

func TestKubeconfigPath(t *testing.T) {
	dir := layout.Dir("/state")
	if got := dir.Kubeconfig(); got != "/state/run/admin.kubeconfig" {
		t.Errorf("the kubeconfig is at %s: others rely on its path", got)
	}
	if got := pki.Store("/pki").KeyFile("ca"); got != "/pki/ca.key" {
		t.Errorf("the key is at %s", got)
	}
}
