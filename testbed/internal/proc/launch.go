package proc

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mainstay-platform/mainstay/testbed/internal/cgroup"
)

// openFiles is the limit of open files of components. Containers inherit containerd's. Databases
// need some ten thousand.
const openFiles = 1 << 20

// statusPipe is the descriptor of the first of exec.Cmd's ExtraFiles. The starter waits until it
// closes.
const statusPipe = 3

// Launch joins the component's control group and network namespace and then becomes the given
// program. It returns only on errors, which it also sends to its starter.
func Launch(component, namespace string, arguments []string) error {
	unix.CloseOnExec(statusPipe)
	err := launch(component, namespace, arguments)
	// A process started by hand has no pipe; its error is printed anyway.
	_, _ = unix.Write(statusPipe, []byte(err.Error()))
	return err
}

func launch(component, namespace string, arguments []string) error {
	if err := cgroup.JoinComponent(component); err != nil {
		return err
	}
	// exec keeps the namespaces of the calling thread, which must be the one that entered them.
	runtime.LockOSThread()
	if namespace != "" {
		file, err := os.Open(namespace)
		if err != nil {
			return fmt.Errorf("opening the network namespace: %w", err)
		}
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering the network namespace %s: %w", namespace, err)
		}
	}
	// Package syscall, not unix: it tells the runtime not to put the old limit back at exec.
	limit := syscall.Rlimit{Cur: openFiles, Max: openFiles}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		// Without CAP_SYS_RESOURCE the hard limit cannot be raised: use the present one.
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
			limit.Cur = limit.Max
			_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
		}
	}
	return fmt.Errorf("executing %s: %w", arguments[0], unix.Exec(arguments[0], arguments, os.Environ()))
}
