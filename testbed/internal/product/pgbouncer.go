package product

import (
	"context"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/image"
)

// pgbouncerVersion is the major version of Debian's PgBouncer: the tag of the image.
const pgbouncerVersion = "1"

// pgbouncerPackages are the pooler, and what it is linked with.
var pgbouncerPackages = []string{
	"libc6", "libgcc-s1", "libevent-2.1-7t64", "libcares2", "libssl3t64", "libzstd1", "zlib1g", "libpam0g", "libaudit1", "libcap-ng0",
	"libcap2", "libsystemd0", "libldap2", "libsasl2-2", "dash", "pgbouncer",
}

// pgbouncer builds an image with PgBouncer, which anybody may run as any user.
func (b Builder) pgbouncer(ctx context.Context) (string, error) {
	from := debianSource{name: "pgbouncer", suite: "trixie", packages: pgbouncerPackages}
	return b.fromDebian(ctx, from, func(layers []v1.Layer) (map[string]v1.Image, error) {
		made, err := pgbouncerImage(layers)
		return map[string]v1.Image{PgBouncerImage + ":" + pgbouncerVersion: made}, err
	})
}

// pgbouncerImage makes an image of layers with the pooler.
func pgbouncerImage(layers []v1.Layer) (v1.Image, error) {
	files := []image.File{
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0::/:/bin/sh\npgbouncer:x:65532:65532::/:/bin/sh\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\npgbouncer:x:65532:\n")},
	}
	base, err := image.Layer(append(files, mergedFolders()...))
	if err != nil {
		return nil, err
	}
	made, err := image.New(image.Config{
		Cmd: []string{"/usr/sbin/pgbouncer", "--version"}, Env: []string{"PATH=/usr/sbin:/usr/bin:/bin"},
		User: nobody, WorkingDir: "/", Ports: []string{"5432/tcp"}, StopSignal: "SIGTERM",
	}, slices.Concat([]v1.Layer{base}, layers)...)
	if err != nil {
		return nil, fmt.Errorf("making the image of PgBouncer: %w", err)
	}
	return made, nil
}
