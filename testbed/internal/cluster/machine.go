package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/testbed/internal/layout"
	"github.com/mainstay-platform/mainstay/testbed/internal/product"
	"github.com/mainstay-platform/mainstay/testbed/internal/ui"
)

// machineState is what `down` needs to restore the machine.
type machineState struct {
	BootID  string            `json:"bootID"`
	Nodes   int               `json:"nodes"`
	Core    bool              `json:"core,omitempty"` // without metrics-server, see [Size]
	Sysctls map[string]string `json:"sysctls"`        // file below /proc/sys to the value it had
}

// sysctls are the kernel settings that a cluster needs or that the kubelet changes. The kubelet
// changes its settings at every start, whatever its configuration says: it needs them for memory
// pressure.
var sysctls = map[string]string{
	"fs/inotify/max_user_instances": "8192", // one per watching process, and the default is 128
	"fs/inotify/max_user_watches":   "1048576",
	"vm/overcommit_memory":          "1",
	"kernel/panic":                  "10",
	"kernel/panic_on_oops":          "1",
	"vm/panic_on_oom":               "0",
	"kernel/keys/root_maxkeys":      "1000000",
	"kernel/keys/root_maxbytes":     "25000000",
}

func readState(dir layout.Dir) (state machineState, found bool, err error) {
	state, err = parseState(dir.State())
	if errors.Is(err, fs.ErrNotExist) {
		return machineState{}, false, nil
	}
	return state, err == nil, err
}

func parseState(file string) (state machineState, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return machineState{}, fmt.Errorf("reading the state: %w", err)
	}
	if err := json.Unmarshal(content, &state); err != nil {
		return machineState{}, fmt.Errorf("parsing %s: %w", file, err)
	}
	return state, nil
}

func writeState(dir layout.Dir, state machineState) error {
	content, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	if err := os.MkdirAll(dir.Run(), 0o755); err != nil {
		return fmt.Errorf("creating the run folder: %w", err)
	}
	temporary := dir.State() + ".new"
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	if err := os.Rename(temporary, dir.State()); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

// readSysctls returns the present values of the settings that `up` changes.
func readSysctls() map[string]string {
	values := map[string]string{}
	for name := range sysctls {
		content, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err == nil { // a kernel without the setting needs no care
			values[name] = strings.TrimSpace(string(content))
		}
	}
	return values
}

// sysctlsBefore returns the settings from before any cluster changed them. If another cluster runs,
// it has recorded them.
func (c *Cluster) sysctlsBefore(boot string) (map[string]string, error) {
	siblings, err := c.siblings(boot)
	if err != nil {
		return nil, err
	}
	for _, other := range siblings {
		return other.Sysctls, nil
	}
	return readSysctls(), nil
}

// siblings returns the states of the other clusters that run on this machine.
func (c *Cluster) siblings(boot string) ([]machineState, error) {
	files, err := c.dir.Siblings()
	if err != nil {
		return nil, err
	}
	var found []machineState
	for _, file := range files {
		if file == c.dir.State() {
			continue
		}
		state, err := parseState(file)
		if err != nil {
			return nil, err
		}
		if state.BootID == boot {
			found = append(found, state)
		}
	}
	return found, nil
}

// isLimit reports whether a setting is a limit, which `up` only ever raises.
func isLimit(name string) bool {
	return strings.HasPrefix(name, "fs/inotify/") || strings.HasPrefix(name, "kernel/keys/")
}

// wantedSysctls returns what to set on a machine with the present values. It leaves out settings
// that the kernel lacks and limits that are high enough.
func wantedSysctls(present map[string]string) map[string]string {
	wanted := map[string]string{}
	for name, value := range sysctls {
		before, found := present[name]
		if !found || before == value {
			continue
		}
		have, errHave := strconv.ParseInt(before, 10, 64)
		need, errNeed := strconv.ParseInt(value, 10, 64)
		if isLimit(name) && errHave == nil && errNeed == nil && have >= need {
			continue
		}
		wanted[name] = value
	}
	return wanted
}

// writeSysctls sets values, in a fixed order.
func writeSysctls(values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(values[name]), 0); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// requirement is a program or a file, and the Debian package that has it.
type requirement struct {
	program string // name on PATH, an absolute path, or a pattern of files that are no programs
	pkg     string
}

// imageRequirements are what images of Debian's packages are made with.
var imageRequirements = []requirement{
	{"mmdebstrap", "mmdebstrap"},
	// Other distributions do not know Debian's keys. Its releases differ in the extension.
	{"/usr/share/keyrings/debian-archive-keyring.*", "debian-archive-keyring"},
}

var requirements = append([]requirement{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"runc", "runc"},
	{cniPlugins + "/bridge", "containernetworking-plugins"},
	{"nft", "nftables"},
	{"iptables", "iptables"},
	{"ip", "iproute2"},
	{"losetup", "mount"},
	{"mount", "mount"},
	{"fsfreeze", "util-linux"},
	{"mkfs.xfs", "xfsprogs"},
	{"xfs_growfs", "xfsprogs"},
}, imageRequirements...)

// find returns the path of what is required, "" if the machine does not have it.
func (r requirement) find() string {
	if strings.Contains(r.program, "*") {
		found, _ := filepath.Glob(r.program) // the patterns are well-formed
		if len(found) == 0 {
			return ""
		}
		return found[0]
	}
	path, err := exec.LookPath(r.program)
	if err != nil {
		return ""
	}
	return path
}

// findPrograms returns the paths of what is required, and the packages of what is missing.
func findPrograms(required []requirement) (paths map[string]string, missing []string) {
	paths = map[string]string{}
	for _, wanted := range required {
		path := wanted.find()
		if path == "" {
			missing = append(missing, wanted.pkg)
			continue
		}
		paths[wanted.program] = path
	}
	slices.Sort(missing)
	return paths, slices.Compact(missing)
}

// CheckMachine checks that this machine can run a cluster, and installs missing packages if apt-get
// is available. It returns the paths of the required programs.
func CheckMachine(ctx context.Context, progress *ui.Progress) (map[string]string, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("a testbed needs Linux (this is %s): use a Linux virtual machine", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("a testbed needs root, for namespaces, mounts and containers: run it with sudo")
	}
	return ensurePrograms(ctx, progress, requirements)
}

// CheckImages makes sure that images can be built, on a machine that has never run a cluster too.
// Only root can install packages: for others, the build says what is missing.
func (c *Cluster) CheckImages(ctx context.Context, names []string) error {
	if os.Geteuid() != 0 || !slices.ContainsFunc(names, product.IsOfDebian) {
		return nil
	}
	_, err := ensurePrograms(ctx, c.progress, imageRequirements)
	return err
}

// ensurePrograms returns the paths of what is required. It installs what is missing if apt-get is
// available.
func ensurePrograms(ctx context.Context, progress *ui.Progress, required []requirement) (map[string]string, error) {
	paths, missing := findPrograms(required)
	if len(missing) == 0 {
		return paths, nil
	}
	advice := "apt-get update && apt-get install --no-install-recommends " + strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, fmt.Errorf("missing the Debian packages %s (or what your distribution calls them); on Debian: %s",
			strings.Join(missing, ", "), advice)
	}
	err := progress.Step("installing "+strings.Join(missing, ", "), nil, func() error {
		return installPackages(ctx, missing)
	})
	if err != nil {
		return nil, fmt.Errorf("%w (by hand: %s)", err, advice)
	}
	if paths, missing = findPrograms(required); len(missing) > 0 {
		return nil, fmt.Errorf("still missing after installing: %s", strings.Join(missing, ", "))
	}
	return paths, nil
}

func installPackages(ctx context.Context, packages []string) error {
	if _, err := command(ctx, "apt-get", "update", "--quiet"); err != nil {
		return err
	}
	arguments := []string{"DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "--yes", "--quiet", "--no-install-recommends"}
	// An interrupt in the middle would leave dpkg with packages that are not configured, and every
	// later installation on this machine would fail until `dpkg --configure -a`.
	return wholeCommand(ctx, "env", append(arguments, packages...)...)
}
