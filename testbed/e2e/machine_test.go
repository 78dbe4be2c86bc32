//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine has everything that a cluster changes on a machine and must restore.
type machine struct {
	Mounts, Loops, Namespaces, Links, Routes, Tables, Chains, Cgroups, Processes []string
	Sysctls                                                                      []string
	Folders                                                                      []string
	// Alone reports whether no other cluster ran.
	Alone bool
}

// suffix returns the suffix in the names of a named cluster, see the testbed's page.
func suffix() string {
	if name := os.Getenv("MAINSTAY_TESTBED_NAME"); name != "" {
		return "-" + name
	}
	return ""
}

// observeMachine returns the state of the machine. If another cluster runs, it returns only what
// has this cluster's name, since the other cluster may change meanwhile.
func observeMachine(t *testing.T) machine {
	t.Helper()
	seen := machine{
		Mounts:     withoutRoots(mounts(t)),
		Loops:      withoutRoots(lines(run(t, "losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"))),
		Namespaces: lines(run(t, "ip", "netns", "list")),
		Links:      names(t, "/sys/class/net"),
		Routes:     lines(run(t, "ip", "route", "show", "table", "all")),
		Tables:     lines(run(t, "nft", "list", "tables")),
		Chains:     lines(run(t, "iptables", "-S")),
		Cgroups:    cgroups(t),
		Processes:  processes(t),
		Sysctls: lines(run(t, "sysctl", "fs.inotify.max_user_instances", "fs.inotify.max_user_watches",
			"vm.overcommit_memory", "kernel.panic", "kernel.panic_on_oops", "net.ipv4.ip_forward")),
		Folders: slices.Concat(names(t, "/run/containerd"), names(t, "/var/lib/kubelet"), names(t, "/var/lib/cni"),
			names(t, "/var/log/containers"), names(t, "/var/log/pods"), names(t, "/run/netns")),
		Alone: isAlone(t),
	}
	return seen
}

// withoutRoots leaves out what is below an image's files in the cache: tests of database servers
// that need no cluster run there, perhaps at the same time, and mount what containers have.
func withoutRoots(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "/cache/root-") })
}

// isAlone reports whether no other cluster has state on this machine.
func isAlone(t *testing.T) bool {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	states, err := filepath.Glob(filepath.Join(cache, "mainstay", "testbed*", "run", "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc(states, func(file string) bool { return strings.Contains(file, "/testbed"+suffix()+"/") })
	return len(others) == 0
}

// own returns what has this cluster's name.
func (m machine) own() machine {
	filter := func(lines []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
			return !strings.Contains(line, "testbed"+suffix()+"/") && !strings.Contains(line, "mstb"+suffix()+"-")
		})
	}
	return machine{
		Mounts: filter(m.Mounts), Loops: filter(m.Loops), Namespaces: filter(m.Namespaces), Cgroups: m.Cgroups, Processes: m.Processes,
		Folders: filter(m.Folders),
	}
}

// beforeFile returns the file in which TestUp records the machine for TestDown, which is another
// process. The variable MAINSTAY_TESTBED_BEFORE names its folder.
func beforeFile(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("MAINSTAY_TESTBED_BEFORE")
	if folder == "" {
		t.Fatal("MAINSTAY_TESTBED_BEFORE is not set: it names a folder that TestUp and TestDown share")
	}
	return filepath.Join(folder, "machine.json")
}

func (m machine) save(t *testing.T) {
	t.Helper()
	content, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = os.WriteFile(beforeFile(t), content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func loadMachine(t *testing.T) machine {
	t.Helper()
	var before machine
	content, err := os.ReadFile(beforeFile(t))
	if err == nil {
		err = json.Unmarshal(content, &before)
	}
	if err != nil {
		t.Fatalf("what the machine was like before: %v (does TestUp run first?)", err)
	}
	return before
}

func lines(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		found = append(found, strings.TrimSpace(line))
	}
	slices.Sort(found)
	return found
}

// mounts returns the mount points. Mount numbers are not compared, because they change.
func mounts(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return lines(string(content))
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		found = append(found, filepath.Join(folder, entry.Name()))
	}
	return found
}

// cgroups lists the control groups of this cluster.
func cgroups(t *testing.T) []string {
	t.Helper()
	return lines(run(t, "find", "/sys/fs/cgroup", "-type", "d", "-path", "*/mainstay-testbed"+suffix()+"/*"))
}

// processes returns the programs that run in the control groups of this cluster, without zombies,
// whose parent is not ours.
func processes(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		groups, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(groups), "/mainstay-testbed"+suffix()+"/") {
			continue // it ended, or is not the cluster's
		}
		if program, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")); err == nil && len(program) > 0 {
			program, _, _ := strings.Cut(string(program), "\x00")
			found = append(found, program)
		}
	}
	slices.Sort(found)
	return found
}
