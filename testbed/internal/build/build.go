// Package build builds what a testbed runs, once. Every product is in a cache folder whose name
// contains a hash of all its inputs.
package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mainstay-platform/mainstay/testbed/internal/ui"
)

// Cache is the folder of products.
type Cache string

// Key hashes strings and files in the order given: 16 hex digits are plenty for the
// handful of versions that one machine sees. Each part is written with its length, so
// that no two lists have the same bytes.
func Key(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		// A hash never returns an error.
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// Sources returns name and content of every file of a source folder that can change a
// build, sorted by path: *.go without tests, go.mod and go.sum, *.java.
func Sources(folder string) ([]string, error) {
	var parts []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		relevant := name == "go.mod" || name == "go.sum" || strings.HasSuffix(name, ".java") ||
			strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if entry.IsDir() || !relevant {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		parts = append(parts, relative, string(content))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the sources in %s: %w", folder, err)
	}
	return parts, nil
}

// Product returns the folder NAME-KEY of the cache. If it does not exist, fill creates its content.
// The folder appears only after fill has succeeded, so an interrupted build leaves nothing that
// looks complete; what it leaves is removed by the next build of that name, whatever its key.
// Concurrent commands wait for each other.
func (c Cache) Product(name, key string, fill func(folder string) error) (string, error) {
	folder := filepath.Join(string(c), name+"-"+key)
	if use(folder) {
		return folder, nil
	}
	if err := os.MkdirAll(string(c), 0o755); err != nil {
		return "", fmt.Errorf("creating the cache: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(string(c), name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("opening the build lock of %s: %w", name, err)
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("waiting for another build of %s: %w", name, err)
	}
	if use(folder) {
		return folder, nil // the other command built it
	}
	const partial = ".partial"
	unfinished, err := filepath.Glob(filepath.Join(string(c), name+"-"+anyKey+partial))
	if err != nil {
		return "", fmt.Errorf("listing unfinished builds of %s: %w", name, err)
	}
	for _, left := range unfinished {
		if err := os.RemoveAll(left); err != nil {
			return "", fmt.Errorf("removing an unfinished build of %s: %w", name, err)
		}
	}
	temporary := folder + partial
	if err := os.MkdirAll(temporary, 0o755); err != nil {
		return "", fmt.Errorf("creating the build folder of %s: %w", name, err)
	}
	if err := fill(temporary); err != nil {
		return "", err
	}
	if err := os.Rename(temporary, folder); err != nil {
		return "", fmt.Errorf("putting %s in the cache: %w", name, err)
	}
	return folder, nil
}

// anyKey matches every [Key].
const anyKey = "????????????????"

// use reports whether a product is there, and notes for [Cache.Prune] that it is in use.
func use(folder string) bool {
	if _, err := os.Stat(folder); err != nil {
		return false
	}
	now := time.Now()
	// What another user has built can't be touched, and can be used all the same.
	return !errors.Is(os.Chtimes(folder, now, now), fs.ErrNotExist)
}

// unusedAfter is how long another version of a product is kept after its last use: a week. Another
// checkout may run its programs, or databases in its folder, and nothing here knows of that.
const unusedAfter = 7 * 24 * time.Hour

// Prune removes the other versions of a product that were not used lately. Otherwise each change of
// a key would leave hundreds of megabytes behind.
func (c Cache) Prune(name, keep string) error {
	found, err := filepath.Glob(filepath.Join(string(c), name+"-"+anyKey))
	if err != nil {
		return fmt.Errorf("listing old builds of %s: %w", name, err)
	}
	for _, folder := range found {
		info, err := os.Stat(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another command removes it
		}
		if err != nil {
			return fmt.Errorf("looking at an old build of %s: %w", name, err)
		}
		if folder == keep || time.Since(info.ModTime()) < unusedAfter {
			continue
		}
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("removing an old build of %s: %w", name, err)
		}
	}
	return nil
}

// GoProgram is a static Go binary to build.
type GoProgram struct {
	Name    string   // file name of the binary, and of its product in the cache
	Folder  string   // source folder of the module
	Package string   // package main, relative to Folder; "" is the folder itself
	LDFlags []string // linker flags in addition to -s -w
}

func (p GoProgram) pkg() string { return "./" + p.Package }

// flags returns the flags of the linker.
func (p GoProgram) flags() string {
	return strings.Join(append([]string{"-s", "-w"}, p.LDFlags...), " ")
}

// key hashes all that the binary is made of.
func (p GoProgram) key(toolchain string) (string, error) {
	sources, err := Sources(p.Folder)
	if err != nil {
		return "", err
	}
	module, err := moduleAbove(p.Folder)
	if err != nil {
		return "", err
	}
	return Key(slices.Concat([]string{toolchain, p.flags(), p.pkg(), runtime.GOARCH}, sources, module)...), nil
}

// moduleAbove returns name and content of the go.mod and go.sum that choose the dependencies of a
// folder, if they are in a folder above it. Those in the folder are among its [Sources].
func moduleAbove(folder string) ([]string, error) {
	folder = filepath.Clean(folder)
	at := folder
	mod, err := os.ReadFile(filepath.Join(at, "go.mod"))
	for errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
		at = filepath.Dir(at)
		mod, err = os.ReadFile(filepath.Join(at, "go.mod"))
	}
	if err != nil {
		return nil, fmt.Errorf("finding the module of %s: %w", folder, err)
	}
	if at == folder {
		return nil, nil
	}
	sum, err := os.ReadFile(filepath.Join(at, "go.sum"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the module of %s: %w", folder, err)
	}
	return []string{"go.mod", string(mod), "go.sum", string(sum)}, nil
}

// Build compiles the program unless the cache has it, and returns the binary's path.
func (p GoProgram) Build(ctx context.Context, cache Cache, progress *ui.Progress) (string, error) {
	toolchain, err := GoVersion(ctx, p.Folder)
	if err != nil {
		return "", err
	}
	key, err := p.key(toolchain)
	if err != nil {
		return "", err
	}
	folder, err := cache.Product(p.Name, key, func(folder string) error {
		compiler := &packageCounter{begin: time.Now()}
		return progress.Step("building "+p.Name, compiler.String, func() error {
			total, err := p.Packages(ctx)
			if err != nil {
				return err
			}
			compiler.total.Store(int64(total))
			return p.compile(ctx, filepath.Join(folder, p.Name), compiler)
		})
	})
	if err != nil {
		return "", err
	}
	if err := cache.Prune(p.Name, folder); err != nil {
		return "", err
	}
	return filepath.Join(folder, p.Name), nil
}

// command returns a go command in the program's module, with the settings of all programs here:
// Go's build cache serves all programs with equal settings.
func (p GoProgram) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = p.Folder
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	return command
}

// Packages returns how many packages the program is compiled from, including the standard
// library's. Go's build cache may have some or all of them, but cannot be asked how many.
func (p GoProgram) Packages(ctx context.Context) (int, error) {
	command := p.command(ctx, "list", "-deps", p.pkg())
	var messages bytes.Buffer
	command.Stderr = &messages
	output, err := command.Output()
	if err != nil {
		return 0, fmt.Errorf("listing the packages of %s: %w\n%s", p.Name, err, messages.Bytes())
	}
	return bytes.Count(output, []byte("\n")), nil
}

func (p GoProgram) compile(ctx context.Context, output string, log *packageCounter) error {
	command := p.command(ctx, "build", "-v", "-trimpath", "-ldflags", p.flags(), "-o", output, p.pkg())
	command.Stdout, command.Stderr = log, log
	if err := command.Run(); err != nil {
		return fmt.Errorf("compiling %s: %w\n%s", p.Folder, err, log.tail())
	}
	return nil
}

// GoVersion returns the version of the toolchain that builds the module in folder.
func GoVersion(ctx context.Context, folder string) (string, error) {
	command := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	command.Dir = folder
	command.Env = append(os.Environ(), "GOWORK=off")
	output, err := command.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("the Go toolchain is missing: install Go (https://go.dev/doc/install) and put it on PATH")
	}
	if err != nil {
		return "", fmt.Errorf("asking for the Go version: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}

// packageCounter counts the package names that `go build -v` prints, and keeps the
// last lines for an error message.
type packageCounter struct {
	begin time.Time
	total atomic.Int64 // how many there will be; 0 while they are counted
	count atomic.Int64
	last  []byte // written by the compiler's one copying goroutine, read after it ended
}

var _ io.Writer = (*packageCounter)(nil)

const tailSize = 4096

// Write never fails.
func (c *packageCounter) Write(data []byte) (int, error) {
	c.count.Add(int64(bytes.Count(data, []byte("\n"))))
	c.last = append(c.last, data...)
	c.last = slices.Clone(c.last[max(0, len(c.last)-tailSize):])
	return len(data), nil
}

// String returns the progress of the build and, from a tenth of it on, an estimate of the remaining
// time. Packages in Go's build cache are not compiled, so the rest may take less.
func (c *packageCounter) String() string {
	done, total := c.count.Load(), c.total.Load()
	text := fmt.Sprintf("%d of up to %d packages compiled", done, max(done, total))
	if done < total/10 || done >= total {
		return text
	}
	left := time.Since(c.begin) / time.Duration(done) * time.Duration(total-done)
	return fmt.Sprintf("%s, at most %s to go", text, left.Round(10*time.Second))
}

func (c *packageCounter) tail() string { return string(c.last) }
