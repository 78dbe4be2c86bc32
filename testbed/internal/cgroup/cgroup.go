// Package cgroup runs everything of a testbed below one control group. So `down` finds every
// process (components, shims, containers) without relying on a name or on a process id that may
// have been reused.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mainstay-platform/mainstay/testbed/internal/layout"
)

// Root returns the control group, in every hierarchy, that contains all processes of the cluster.
func Root() string { return "mainstay-testbed" + layout.Suffix() }

// mountPoint is where Linux distributions mount control groups.
const mountPoint = "/sys/fs/cgroup"

// Hierarchies lists the mounted hierarchies' folders: one for version 2, one per
// controller for version 1 (a version 2 hierarchy beside version 1 is left out,
// because the kubelet ignores it).
func Hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(mountPoint, "cgroup.controllers")); err == nil {
		return []string{mountPoint}, nil
	}
	entries, err := os.ReadDir(mountPoint)
	if err != nil {
		return nil, fmt.Errorf("listing the control groups: %w", err)
	}
	var found []string
	for _, entry := range entries {
		folder := filepath.Join(mountPoint, entry.Name())
		// A symlink (cpu -> cpu,cpuacct) would name the same hierarchy twice.
		if !entry.IsDir() || entry.Name() == "unified" {
			continue
		}
		if _, err := os.Stat(filepath.Join(folder, "cgroup.procs")); err == nil {
			found = append(found, folder)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no control groups are mounted at %s", mountPoint)
	}
	return found, nil
}

// tracking returns the hierarchy whose groups distinguish the components. The kubelet moves
// containers to their own groups below [Root]; other processes stay in their group.
func tracking() (string, error) {
	hierarchies, err := Hierarchies()
	if err != nil {
		return "", err
	}
	for _, name := range []string{"systemd", "pids"} {
		if folder := filepath.Join(mountPoint, name); slices.Contains(hierarchies, folder) {
			return folder, nil
		}
	}
	return hierarchies[0], nil
}

// JoinComponent moves the calling process to the component's group.
func JoinComponent(component string) error {
	folder, err := componentFolder(component)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("creating the control group of %s: %w", component, err)
	}
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("joining the control group of %s: %w", component, err)
	}
	return nil
}

// ComponentProcesses lists the processes in a component's group; none when there is no group.
func ComponentProcesses(component string) ([]int, error) {
	folder, err := componentFolder(component)
	if err != nil {
		return nil, err
	}
	return processes(folder)
}

func componentFolder(component string) (string, error) {
	root, err := tracking()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, Root(), "components", component), nil
}

// CreateNode creates the parent group of a node's pods in every hierarchy, because the kubelet
// refuses a cgroupRoot that does not exist. Idempotent.
func CreateNode(node string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		path := hierarchy
		for _, part := range []string{Root(), node} {
			parent := path
			path = filepath.Join(path, part)
			if err := os.MkdirAll(path, 0o755); err != nil {
				return fmt.Errorf("creating the control group of %s: %w", node, err)
			}
			if err := prepare(parent, path); err != nil {
				return fmt.Errorf("preparing the control group of %s: %w", node, err)
			}
		}
	}
	return nil
}

// Weigh gives the pods of all nodes together the share of processor time that they would have if
// each node were a machine with these processors: without it, all of them had that of one process
// beside everything else that runs here. CreateNode comes first.
func Weigh(nodes, processors int) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		for file, weight := range weights(nodes, processors) {
			path := filepath.Join(hierarchy, Root(), file)
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				continue // another controller's hierarchy, or another version
			}
			if err := os.WriteFile(path, []byte(strconv.Itoa(weight)), 0); err != nil {
				return fmt.Errorf("giving the pods processor time: %w", err)
			}
		}
	}
	return nil
}

// weights returns what the files that set a group's share of processor time contain: cpu.shares in
// version 1, and cpu.weight in version 2, where a single process has 1024 and 100. The kubelet
// gives the pods of a machine 1024 for each processor.
func weights(nodes, processors int) map[string]int {
	processes := max(nodes*processors, 1)
	return map[string]int{"cpu.shares": min(processes*1024, 1<<18), "cpu.weight": min(processes*100, 10_000)}
}

// prepare makes a new group usable. In version 1 a cpuset is empty at first, and in version 2 a
// child has only the controllers that its parent passes on.
func prepare(parent, child string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		content, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) || strings.TrimSpace(string(content)) == "" {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(child, file), content, 0); err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
	}
	available, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return nil //nolint:nilerr // version 1 has no such file
	}
	for controller := range strings.FieldsSeq(string(available)) {
		// If the kubelet needs a controller that cannot be passed on, it reports that itself.
		_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+controller), 0)
	}
	return nil
}

// Folders returns all groups of the testbed, children before parents. It includes the version 2
// hierarchy beside version 1, where runc creates groups too.
func Folders() ([]string, error) {
	hierarchies, err := Hierarchies()
	if err != nil {
		return nil, err
	}
	hierarchies = append(hierarchies, filepath.Join(mountPoint, "unified"))
	var folders []string
	for _, hierarchy := range hierarchies {
		root := filepath.Join(hierarchy, Root())
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it went away while we walked
			}
			if err != nil {
				return err
			}
			if entry.IsDir() {
				folders = append(folders, path)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("walking the control groups: %w", err)
		}
	}
	slices.Reverse(folders)
	return folders, nil
}

// KillPods ends every container of every node and waits until they are gone.
func KillPods(timeout time.Duration) error {
	return kill(timeout, func(folder string) bool { return !strings.Contains(folder, "/"+Root()+"/components") })
}

// KillNode ends every process of a node, its pods' and its components', and waits until they are
// gone.
func KillNode(node string, timeout time.Duration) error {
	return kill(timeout, func(folder string) bool {
		_, group, _ := strings.Cut(folder, "/"+Root()+"/")
		return group == node || strings.HasPrefix(group, node+"/") ||
			strings.HasPrefix(group, "components/") && strings.HasSuffix(group, "-"+node)
	})
}

// KillAll ends every process of the testbed and waits until they are gone.
func KillAll(timeout time.Duration) error {
	return kill(timeout, func(string) bool { return true })
}

func kill(timeout time.Duration, selected func(folder string) bool) error {
	deadline := time.Now().Add(timeout)
	for {
		folders, err := Folders()
		if err != nil {
			return err
		}
		var alive []int
		for _, folder := range folders {
			if !selected(folder) {
				continue
			}
			// A frozen process does not die of SIGKILL on version 1.
			_ = os.WriteFile(filepath.Join(folder, "freezer.state"), []byte("THAWED"), 0)
			pids, err := processes(folder)
			if err != nil {
				return err
			}
			alive = append(alive, pids...)
		}
		if len(alive) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			slices.Sort(alive)
			return fmt.Errorf("processes %v did not end within %s", slices.Compact(alive), timeout)
		}
		for _, pid := range alive {
			if pid != os.Getpid() {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Remove deletes the groups, which must be empty of processes.
func Remove(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		folders, err := Folders()
		if err != nil {
			return err
		}
		var last error
		for _, folder := range folders {
			if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
				last = err
			}
		}
		if last == nil {
			return nil
		}
		// A group stays busy for a moment after its last process was reaped.
		if time.Now().After(deadline) {
			return fmt.Errorf("removing the control groups: %w", last)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func processes(folder string) ([]int, error) {
	content, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the processes of %s: %w", folder, err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(content)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
