package product

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/image"
)

// postgresqlSource says where Debian has a PostgreSQL, and what its programs are linked with.
type postgresqlSource struct {
	version, suite string
	libraries      []string
	// merged is true if the suite's packages have nothing in /bin and /lib, which lead to /usr.
	merged bool
	// moves is true if the suite has another version tomorrow.
	moves bool
}

// everyPostgreSQL are the packages that all versions need. Installed with their dependencies, they
// would be four times as large: LLVM alone, for jit, has 130 MB.
var everyPostgreSQL = []string{
	"libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libpq5", "libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0",
	"libcom-err2", "libkeyutils1", "libpam0g", "libaudit1", "libcap-ng0", "libcap2", "liblz4-1", "libzstd1", "liblzma5", "libsasl2-2",
	"libsystemd0", "libtinfo6", "dash", "tzdata",
}

var postgresqlSources = []postgresqlSource{
	{version: "15", suite: "bookworm", libraries: []string{
		"libicu72", "libssl3", "libxml2", "libldap-2.5-0", "libreadline8", "libgcrypt20", "libgpg-error0", "libgnutls30", "libp11-kit0",
		"libidn2-0", "libunistring2", "libtasn1-6", "libnettle8", "libhogweed6", "libgmp10", "libffi8", "libselinux1",
	}},
	{version: "17", suite: "trixie", merged: true, libraries: []string{
		"libicu76", "libssl3t64", "libxml2", "libldap2", "libreadline8t64", "libxxhash0", "libselinux1",
	}},
	{version: "18", suite: "sid", merged: true, moves: true, libraries: []string{
		"libicu78", "libssl3t64", "libxml2-16", "libldap2", "libreadline8t64", "libxxhash0", "libnuma1", "liburing2",
	}},
}

// postgresqlNames are the names of the images, as in postgresql-17.
func postgresqlNames() []string {
	var names []string
	for _, source := range postgresqlSources {
		names = append(names, source.name())
	}
	for _, server := range npmPostgreSQLs {
		names = append(names, server.name())
	}
	return names
}

func (s postgresqlSource) name() string { return "postgresql-" + s.version }

// programs is the folder with the programs, psql among them.
func (s postgresqlSource) programs() string { return "/usr/lib/postgresql/" + s.version + "/bin" }

func (s postgresqlSource) clientPackages() []string {
	return slices.Concat(everyPostgreSQL, s.libraries, []string{"postgresql-client-" + s.version})
}

func (s postgresqlSource) packages() []string {
	return append(s.clientPackages(), "postgresql-"+s.version)
}

// postgresql builds an image with the server and psql of one version, which anybody may run as any
// user.
func (b Builder) postgresql(ctx context.Context, source postgresqlSource) (string, error) {
	from := debianSource{name: source.name(), suite: source.suite, packages: source.packages(), moves: source.moves}
	return b.fromDebian(ctx, from, func(layers []v1.Layer) (map[string]v1.Image, error) {
		made, err := postgresqlImage(source.version, source.merged, layers)
		if err != nil {
			return nil, err
		}
		return map[string]v1.Image{PostgreSQLImage + ":" + source.version: made}, nil
	})
}

// postgresqlImage makes an image of layers with a server. Further programs are those of psql, where
// the server comes without it.
func postgresqlImage(version string, merged bool, layers []v1.Layer, further ...string) (v1.Image, error) {
	files := []image.File{
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0::/:/bin/sh\npostgres:x:65532:65532::/:/bin/sh\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\npostgres:x:65532:\n")},
	}
	if merged {
		files = append(files, mergedFolders()...)
	}
	base, err := image.Layer(files)
	if err != nil {
		return nil, err
	}
	programs := "/usr/lib/postgresql/" + version + "/bin"
	folders := slices.Concat([]string{programs}, further, []string{"/usr/bin", "/bin"})
	made, err := image.New(image.Config{
		Cmd: []string{programs + "/postgres", "--version"}, Env: []string{"PATH=" + strings.Join(folders, ":")},
		User: nobody, WorkingDir: "/", Ports: []string{"5432/tcp"}, StopSignal: "SIGINT",
	}, slices.Concat([]v1.Layer{base}, layers)...)
	if err != nil {
		return nil, fmt.Errorf("making the image of PostgreSQL %s: %w", version, err)
	}
	return made, nil
}
