// Package proc starts, recognises and ends the testbed's long-running processes.
//
// A process is ours only if its id and its start time are those recorded, or if it is in its
// component's control group. A process id alone may have been reused, and a name proves nothing.
package proc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mainstay-platform/mainstay/testbed/internal/cgroup"
)

// Spec is what to run.
type Spec struct {
	Name      string   // component name, unique in the cluster
	Arguments []string // Arguments[0] is the absolute path of the executable
	Env       []string // in addition to our own
	Namespace string   // file of the network namespace to run in; "" means the host's
	Log       string   // file that receives stdout and stderr
}

// Record describes a started process.
type Record struct {
	Name      string   `json:"name"`
	PID       int      `json:"pid"`
	StartTime uint64   `json:"startTime"` // clock ticks since boot: field 22 of /proc/PID/stat
	Arguments []string `json:"arguments"`
	Env       []string `json:"env,omitempty"`
	Log       string   `json:"log"`
}

// Table is a folder with one record per process.
type Table string

// Ensure starts the process unless it already runs with the same arguments. It first stops a
// process that runs with other arguments. It adopts a process that runs but was never recorded,
// because the command died in between. started reports whether a new process was started.
func (t Table) Ensure(spec Spec) (record Record, started bool, err error) {
	record, found, err := t.Get(spec.Name)
	if err != nil {
		return Record{}, false, err
	}
	if !found || !record.Alive() {
		record, found, err = adopt(spec)
		if err != nil {
			return Record{}, false, err
		}
		if found {
			if err := t.put(record); err != nil {
				return Record{}, false, err
			}
		}
	}
	if found && record.Alive() {
		if slices.Equal(record.Arguments, spec.Arguments) && slices.Equal(record.Env, spec.Env) {
			return record, false, nil
		}
		if err := record.Stop(10 * time.Second); err != nil {
			return Record{}, false, err
		}
	}
	record, err = start(spec)
	if err != nil {
		return Record{}, false, err
	}
	return record, true, t.put(record)
}

// Get reads a record; found is false when there is none.
func (t Table) Get(name string) (record Record, found bool, err error) {
	content, err := os.ReadFile(t.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, fmt.Errorf("reading the record of %s: %w", name, err)
	}
	if err := json.Unmarshal(content, &record); err != nil {
		// Ignore a half-written record: the control group still identifies the process.
		return Record{}, false, nil //nolint:nilerr // see above
	}
	return record, true, nil
}

// List reads all records, sorted by name.
func (t Table) List() ([]Record, error) {
	files, err := filepath.Glob(filepath.Join(string(t), "*.json"))
	if err != nil {
		return nil, fmt.Errorf("listing the processes: %w", err)
	}
	var records []Record
	for _, file := range files {
		record, found, err := t.Get(strings.TrimSuffix(filepath.Base(file), ".json"))
		if err != nil {
			return nil, err
		}
		if found {
			records = append(records, record)
		}
	}
	return records, nil
}

// Forget removes the records of processes that have ended.
func (t Table) Forget() error {
	records, err := t.List()
	if err != nil {
		return err
	}
	for _, record := range records {
		if record.Alive() {
			continue
		}
		if err := os.Remove(t.file(record.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forgetting %s: %w", record.Name, err)
		}
	}
	return nil
}

func (t Table) file(name string) string { return filepath.Join(string(t), name+".json") }

func (t Table) put(record Record) error {
	content, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the record of %s: %w", record.Name, err)
	}
	if err := os.MkdirAll(string(t), 0o755); err != nil {
		return fmt.Errorf("creating the process table: %w", err)
	}
	temporary := t.file(record.Name) + ".new"
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return fmt.Errorf("writing the record of %s: %w", record.Name, err)
	}
	if err := os.Rename(temporary, t.file(record.Name)); err != nil {
		return fmt.Errorf("writing the record of %s: %w", record.Name, err)
	}
	return nil
}

// start runs the testbed's own `launch` subcommand, which joins the control group and the network
// namespace and then becomes the component. The process id remains the same.
func start(spec Spec) (Record, error) {
	self, err := os.Executable()
	if err != nil {
		return Record{}, fmt.Errorf("finding our own executable: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o755); err != nil {
		return Record{}, fmt.Errorf("creating the log folder: %w", err)
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Record{}, fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }()
	arguments := []string{"launch", "--component", spec.Name, "--netns", spec.Namespace, "--"}
	command := exec.Command(self, append(arguments, spec.Arguments...)...)
	command.Env = append(os.Environ(), spec.Env...)
	command.Dir = "/"
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := startAndWaitForExec(command); err != nil {
		return Record{}, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	record := Record{Name: spec.Name, PID: command.Process.Pid, Arguments: spec.Arguments, Env: spec.Env, Log: spec.Log}
	// Reap it if it ends while we live, so that it does not look alive as a zombie.
	defer func() { go func() { _ = command.Wait() }() }()
	if record.StartTime, err = startTime(record.PID); err != nil {
		return Record{}, fmt.Errorf("starting %s: it ended at once, see %s: %w", spec.Name, spec.Log, err)
	}
	return record, nil
}

// startAndWaitForExec returns when `launch` has become the component, or with the error that
// prevented it. Both arrive through a pipe that closes on exec (see [Launch]). Without waiting, the
// process looks like a zombie for a moment: exec in a thread other than the first ends the first
// one.
func startAndWaitForExec(command *exec.Cmd) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer func() { _ = read.Close() }()
	command.ExtraFiles = []*os.File{write}
	err = command.Start()
	_ = write.Close() // ours; the child has its own
	if err != nil {
		return fmt.Errorf("starting the launcher: %w", err)
	}
	message, err := io.ReadAll(read)
	if err != nil {
		return fmt.Errorf("waiting for the launcher: %w", err)
	}
	if len(message) > 0 {
		_ = command.Wait()
		return errors.New(string(message))
	}
	return nil
}

// adopt finds an unrecorded process of the component by its control group and its command line.
func adopt(spec Spec) (Record, bool, error) {
	pids, err := cgroup.ComponentProcesses(spec.Name)
	if err != nil {
		return Record{}, false, err
	}
	for _, pid := range pids {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue
		}
		arguments := strings.Split(strings.TrimRight(string(content), "\x00"), "\x00")
		// Shims share containerd's group; their executable distinguishes them.
		if arguments[0] != spec.Arguments[0] {
			continue
		}
		since, err := startTime(pid)
		if err != nil {
			continue
		}
		return Record{Name: spec.Name, PID: pid, StartTime: since, Arguments: arguments, Env: spec.Env, Log: spec.Log}, true, nil
	}
	return Record{}, false, nil
}

// Alive reports whether exactly this process still runs. A zombie does not run.
func (r Record) Alive() bool {
	since, err := startTime(r.PID)
	return err == nil && since == r.StartTime
}

// LogTail returns the last lines that the process has written, at most 2,000 bytes of them.
func (r Record) LogTail() string {
	const most = 2000
	file, err := os.Open(r.Log)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	content, err := io.ReadAll(io.NewSectionReader(file, max(0, size-most), most))
	if err != nil {
		return err.Error()
	}
	if _, whole, found := bytes.Cut(content, []byte("\n")); found && size > most {
		content = whole
	}
	return string(content)
}

// Stop sends SIGTERM, then SIGKILL after the grace period, and waits for the end. It does nothing
// if the process has ended or its id now belongs to another process.
func (r Record) Stop(grace time.Duration) error {
	if !r.Alive() {
		return nil
	}
	if err := unix.Kill(r.PID, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ending %s: %w", r.Name, err)
	}
	if r.waitGone(grace) {
		return nil
	}
	if err := unix.Kill(r.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ending %s: %w", r.Name, err)
	}
	if !r.waitGone(10 * time.Second) {
		return fmt.Errorf("ending %s: process %d survived SIGKILL", r.Name, r.PID)
	}
	return nil
}

func (r Record) waitGone(timeout time.Duration) bool {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if !r.Alive() {
			return true
		}
	}
	return !r.Alive()
}

// startTime reads field 22 of /proc/PID/stat. Together with the id it identifies a process until
// the next boot. Zombies count as ended.
func startTime(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the state of process %d: %w", pid, err)
	}
	state, since, err := parseStat(string(content))
	if err != nil {
		return 0, fmt.Errorf("reading the state of process %d: %w", pid, err)
	}
	if state == "Z" || state == "X" {
		return 0, fmt.Errorf("process %d has ended: %w", pid, fs.ErrNotExist)
	}
	return since, nil
}

// parseStat cuts after the last parenthesis, because the second field, the program's name, may
// contain spaces and parentheses (proc(5)).
func parseStat(stat string) (state string, since uint64, err error) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return "", 0, errors.New("no program name")
	}
	fields := strings.Fields(stat[end+1:])
	const stateField, startField = 0, 19 // numbers 3 and 22 of the manual: number 3 is the first after the name
	if len(fields) <= startField {
		return "", 0, errors.New("too few fields")
	}
	since, err = strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("parsing the start time: %w", err)
	}
	return fields[stateField], since, nil
}
