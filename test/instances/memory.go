package instances

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// largestProgram is how many KiB of memory the program of an instance may ever have resident, with
// the pages of its own file: a database shares its limit with it.
const largestProgram = 40 << 10

// checkMemory prints the most memory that the program of a pod has had resident since it was
// started, and fails the test if that is too much.
func (p *Pod) checkMemory() {
	p.d.t.Helper()
	if !p.Running() {
		return
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.process.command.Process.Pid))
	if err != nil {
		return // It has ended.
	}
	peak, err := kibibytes(string(status), "VmHWM")
	if err != nil {
		p.d.t.Errorf("the memory of %s: %v", p.Name, err)
		return
	}
	p.d.t.Logf("the program of %s had at most %.1f MiB of memory resident", p.Name, float64(peak)/(1<<10))
	if peak > largestProgram {
		p.d.t.Errorf("the program of %s had %d KiB of memory resident, want at most %d", p.Name, peak, largestProgram)
	}
}

// kibibytes returns a size from the status of a process (proc_pid_status(5)).
func kibibytes(status, name string) (int, error) {
	for line := range strings.Lines(status) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == name+":" && fields[2] == "kB" {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, fmt.Errorf("its status has no %s", name)
}
