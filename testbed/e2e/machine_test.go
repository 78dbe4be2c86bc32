//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is all that a cluster changes on a machine and must put back.
type machine struct {
	Mounts, Loops, Namespaces, Links, Routes, Tables, Chains, Cgroups, Processes []string
	Sysctls                                                                      []string
	Folders                                                                      []string
}

func observeMachine(t *testing.T) machine {
	t.Helper()
	return machine{
		Mounts:     mounts(t),
		Loops:      lines(run(t, "losetup", "--list", "--noheadings")),
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
	}
}

func lines(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		found = append(found, strings.TrimSpace(line))
	}
	slices.Sort(found)
	return found
}

// mounts are compared by their points: numbers change.
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

func cgroups(t *testing.T) []string {
	t.Helper()
	return lines(run(t, "find", "/sys/fs/cgroup", "-type", "d"))
}

// processes lists the programs of a cluster that run (zombies, whose parent is not
// ours, do not).
func processes(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		// Only the program: others may name these in an argument.
		program, _, _ := strings.Cut(string(content), "\x00")
		for _, mark := range []string{"containerd", "/mainstay/testbed/", "/pause", "/demo-web"} {
			if strings.Contains(program, mark) {
				found = append(found, program)
				break
			}
		}
	}
	slices.Sort(found)
	return found
}
