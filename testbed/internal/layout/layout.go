// Package layout has the paths of all files and folders of a testbed. Nothing else in the module
// joins paths below the state directory.
package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// DirVariable is the environment variable that moves the state directory.
const DirVariable = "MAINSTAY_TESTBED_DIR"

// SourceVariable is the environment variable that names the testbed's source folder,
// for a binary that was moved out of the repository.
const SourceVariable = "MAINSTAY_TESTBED_SOURCE"

// NameVariable is the environment variable with the name of a cluster other than the default one,
// in lower-case letters. A named cluster has its own state directory, control groups and network,
// so that it does not disturb others.
const NameVariable = "MAINSTAY_TESTBED_NAME"

// Name returns the cluster's name: "" is the default cluster.
func Name() string { return os.Getenv(NameVariable) }

// Suffix returns the suffix in the names of a named cluster's objects. It is empty for the default
// cluster.
func Suffix() string {
	if Name() == "" {
		return ""
	}
	return "-" + Name()
}

// ModulePath is the Go module whose go.mod marks the source folder.
const ModulePath = "github.com/mainstay-platform/mainstay/testbed"

// maxDirLength keeps the longest socket below it (the containerd socket of a node,
// 52 bytes more, and its ".ttrpc" twin) within the 107 bytes of a Unix socket address.
const maxDirLength = 48

// Dir is the root of one testbed's state.
type Dir string

// Default returns the state directory: $MAINSTAY_TESTBED_DIR, or ~/.cache/mainstay/testbed, and for
// a named cluster the same with "-NAME" appended. It has no symbolic links.
func Default() (Dir, error) {
	if strings.ContainsFunc(Name(), func(r rune) bool { return r < 'a' || r > 'z' }) {
		return "", fmt.Errorf("%s=%s: a cluster's name has lower-case letters only", NameVariable, Name())
	}
	path := os.Getenv(DirVariable)
	if path == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding the cache directory (set %s instead): %w", DirVariable, err)
		}
		path = filepath.Join(cache, "mainstay", "testbed")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", DirVariable, err)
	}
	path = resolve(path) + Suffix()
	if len(path) > maxDirLength {
		return "", fmt.Errorf("the state directory %s is longer than %d bytes: sockets below it would not fit; set %s to a shorter path",
			path, maxDirLength, DirVariable)
	}
	return Dir(path), nil
}

// resolve follows the symbolic links in the part of a path that exists: the kernel names mounts,
// and the files of loop devices, without them, and `down` finds both by their path.
func resolve(path string) string {
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		if found, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(found, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

func (d Dir) join(elements ...string) string {
	return filepath.Join(append([]string{string(d)}, elements...)...)
}

// Lock returns the file that a command locks while it changes the cluster.
func (d Dir) Lock() string { return d.join("lock") }

// Cache returns the folder of built products. It survives `down`, and all clusters share that of
// the default one.
func (d Dir) Cache() string { return filepath.Join(strings.TrimSuffix(string(d), Suffix()), "cache") }

// Siblings lists the state files of all clusters of this cache, running or not.
func (d Dir) Siblings() ([]string, error) {
	base := strings.TrimSuffix(string(d), Suffix())
	found, err := filepath.Glob(base + "*/run/state.json")
	if err != nil {
		return nil, fmt.Errorf("listing the clusters beside %s: %w", base, err)
	}
	return found, nil
}

// Run returns the folder of the running cluster. `down` removes it.
func (d Dir) Run() string { return d.join("run") }

// State returns the file with the original settings of the machine.
func (d Dir) State() string { return d.join("run", "state.json") }

// Processes returns the folder with one record per process.
func (d Dir) Processes() string { return d.join("run", "processes") }

// Logs returns the folder with one log per process. `down` keeps it, and the next `up` after that
// replaces it.
func (d Dir) Logs() string { return d.join("logs") }

// Log returns the log file of one component.
func (d Dir) Log(component string) string { return d.join("logs", component+".log") }

// Audit returns the API server's audit log, with one JSON event per line.
func (d Dir) Audit() string { return d.join("logs", "audit.log") }

// PKI returns the folder of keys and certificates.
func (d Dir) PKI() string { return d.join("run", "pki") }

// Config returns a configuration file of a component.
func (d Dir) Config(name string) string { return d.join("run", "config", name) }

// Kubeconfig returns the administrator's kubeconfig.
func (d Dir) Kubeconfig() string { return d.join("run", "admin.kubeconfig") }

// Etcd returns etcd's data directory.
func (d Dir) Etcd() string { return d.join("run", "etcd") }

// Volumes returns the folder of persistent volumes. Each has a folder with its image and its mount.
func (d Dir) Volumes() string { return d.join("run", "volumes") }

// Node returns the folder of one node, or a path below it.
func (d Dir) Node(node string, elements ...string) string {
	return d.join(append([]string{"run", "nodes", node}, elements...)...)
}

// ContainerdSocket returns the address of a node's containerd.
func (d Dir) ContainerdSocket(node string) string { return d.Node(node, "containerd.sock") }

// ErrNoSource means that the testbed's source folder was not found.
var ErrNoSource = errors.New("the testbed's source folder was not found")

// Source returns the folder with the testbed's go.mod, from which Kubernetes and the images are
// built. It is $MAINSTAY_TESTBED_SOURCE or else the folder itself, or its child `testbed`, in any
// parent of the executable or of the working directory.
func Source() (string, error) {
	if path := os.Getenv(SourceVariable); path != "" {
		if !isSource(path) {
			return "", fmt.Errorf("%s=%s has no go.mod of %s: %w", SourceVariable, path, ModulePath, ErrNoSource)
		}
		return path, nil
	}
	var starts []string
	if executable, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(executable))
	}
	if working, err := os.Getwd(); err == nil {
		starts = append(starts, working)
	}
	for _, start := range starts {
		for folder := start; ; folder = filepath.Dir(folder) {
			for _, candidate := range []string{folder, filepath.Join(folder, "testbed")} {
				if isSource(candidate) {
					return candidate, nil
				}
			}
			if folder == filepath.Dir(folder) {
				break
			}
		}
	}
	return "", fmt.Errorf("set %s to the repository's testbed folder: %w", SourceVariable, ErrNoSource)
}

func isSource(folder string) bool {
	content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(content), "\n")
	return strings.TrimSpace(first) == "module "+ModulePath
}
