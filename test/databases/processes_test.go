//go:build e2e

package databases

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// process is one of a pod's, as this machine, on which all nodes are, sees it.
type process struct {
	pid, parent int
	command     string
	// isFirst is true for the first process of a container.
	isFirst bool
}

// processesOf finds the processes of a pod by its control group.
func processesOf(pod *corev1.Pod) ([]process, error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	var found []process
	for _, file := range groups {
		content, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(content, []byte("/pod"+string(pod.UID))) {
			continue // It has ended meanwhile, or is another pod's.
		}
		if one, ok := readProcess(filepath.Dir(file)); ok {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no process of the pod %s was found", pod.Name)
	}
	return found, nil
}

// readProcess reads a process's folder in /proc; false if it has ended.
func readProcess(folder string) (process, bool) {
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return process{}, false
	}
	var one process
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch key {
		case "Name":
			one.command = fields[0]
		case "Pid":
			one.pid, _ = strconv.Atoi(fields[0])
		case "PPid":
			one.parent, _ = strconv.Atoi(fields[0])
		case "NSpid":
			one.isFirst = fields[len(fields)-1] == "1"
		}
	}
	return one, one.pid > 0
}

// isProgram reports whether the process is our program as the first one of its container.
func (p process) isProgram() bool { return p.isFirst && strings.HasPrefix(p.command, "mainstay") }

// program is the first process of an instance's container.
func (d *database) program(pod string) process {
	d.t.Helper()
	found, err := d.findProgram(pod)
	d.must(err)
	return found
}

// findProgram is program; an error while there is none, because the container has ended and the
// kubelet has not started another.
func (d *database) findProgram(pod string) (process, error) {
	d.t.Helper()
	all, err := processesOf(d.pod(pod))
	if err != nil {
		return process{}, err
	}
	program := slices.IndexFunc(all, process.isProgram)
	if program < 0 {
		return process{}, fmt.Errorf("%s runs no program of ours: %+v", pod, all)
	}
	return all[program], nil
}

// server returns all processes of an instance's server.
func (d *database) server(pod string) []process {
	d.t.Helper()
	all, err := processesOf(d.pod(pod))
	d.must(err)
	var found []process
	for _, one := range all {
		if one.command == d.process {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		d.t.Fatalf("%s has no server: %+v", pod, all)
	}
	return found
}

// postmaster is the first process of an instance's server.
func (d *database) postmaster(pod string) process {
	d.t.Helper()
	found, isThere := d.findPostmaster(pod)
	if !isThere {
		d.t.Fatalf("%s has no postmaster", pod)
	}
	return found
}

// findPostmaster returns the first process of an instance's server, the only one of which our
// program is the parent; false while there is none.
func (d *database) findPostmaster(pod string) (process, bool) {
	d.t.Helper()
	all, err := processesOf(d.pod(pod))
	if err != nil {
		return process{}, false // the container has ended, and the kubelet starts another
	}
	program := slices.IndexFunc(all, process.isProgram)
	for _, one := range all {
		if program >= 0 && one.command == d.process && one.parent == all[program].pid {
			return one, true
		}
	}
	return process{}, false
}

// signal sends a signal to processes. One may have ended meanwhile.
func signal(which syscall.Signal, processes ...process) {
	for _, one := range processes {
		_ = syscall.Kill(one.pid, which)
	}
}
