package product

import (
	"context"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/image"
)

// valkeySource says where Debian has a Valkey, and what only that suite's programs are linked with.
type valkeySource struct {
	version, suite string
	libraries      []string
	// moves is true if the suite has another version tomorrow.
	moves bool
}

// everyValkey are the packages that all versions need: valkey-server has only a link to the program
// in valkey-tools.
var everyValkey = []string{
	"libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libzstd1", "libatomic1", "libjemalloc2", "liblzf1", "libsystemd0", "libcap2",
	"dash", "valkey-tools", "valkey-server",
}

var valkeySources = []valkeySource{
	{version: "8", suite: "trixie", libraries: []string{"libssl3t64"}},
	{version: "9", suite: "sid", libraries: []string{"libssl3t64"}, moves: true},
}

// valkeyNames are the names of the images, as in valkey-8.
func valkeyNames() []string {
	var names []string
	for _, source := range valkeySources {
		names = append(names, source.name())
	}
	return names
}

func (s valkeySource) name() string { return "valkey-" + s.version }

func (s valkeySource) packages() []string { return slices.Concat(everyValkey, s.libraries) }

// valkey builds an image with the server and its tools of one version, which anybody may run as any
// user.
func (b Builder) valkey(ctx context.Context, source valkeySource) (string, error) {
	from := debianSource{name: source.name(), suite: source.suite, packages: source.packages(), moves: source.moves}
	return b.fromDebian(ctx, from, func(layers []v1.Layer) (map[string]v1.Image, error) {
		made, err := valkeyImage(source.version, layers)
		return map[string]v1.Image{ValkeyImage + ":" + source.version: made}, err
	})
}

// valkeyImage makes an image of layers with a server.
func valkeyImage(version string, layers []v1.Layer) (v1.Image, error) {
	files := []image.File{
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0::/:/bin/sh\nvalkey:x:65532:65532::/:/bin/sh\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\nvalkey:x:65532:\n")},
	}
	base, err := image.Layer(append(files, mergedFolders()...))
	if err != nil {
		return nil, err
	}
	made, err := image.New(image.Config{
		Cmd: []string{"/usr/bin/valkey-server", "--version"}, Env: []string{"PATH=/usr/bin:/bin"},
		User: nobody, WorkingDir: "/", Ports: []string{"6379/tcp"}, StopSignal: "SIGTERM",
	}, slices.Concat([]v1.Layer{base}, layers)...)
	if err != nil {
		return nil, fmt.Errorf("making the image of Valkey %s: %w", version, err)
	}
	return made, nil
}
