// Package product knows which programs and images a testbed needs, and how each is built.
package product

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/build"
	"github.com/mainstay-platform/mainstay/testbed/internal/image"
	"github.com/mainstay-platform/mainstay/testbed/internal/ui"
)

// References of the images.
const (
	PauseImage         = "docker.io/mainstay/pause:1.0"
	CoreDNSImage       = "docker.io/mainstay/coredns:1.15.0"
	MetricsServerImage = "docker.io/mainstay/metrics-server:0.9.0"
	DemoWebImage       = "docker.io/mainstay/demo-web" // tags 1.0 and 2.0
	NginxImage         = "docker.io/library/nginx"     // tags 1.22 and stable
	DemoShopImage      = "docker.io/mainstay/demo-shop:1.0"
	KubectlImage       = "docker.io/mainstay/kubectl:1.37.1"
	DemoJavaImage      = "docker.io/mainstay/demo-java:1.0"
	DemoAgentImage     = "docker.io/mainstay/demo-agent" // tags 1.0, 2.0 and broken
	PostgreSQLImage    = "docker.io/mainstay/postgresql" // a tag for each major version
	ValkeyImage        = "docker.io/mainstay/valkey"     // a tag for each major version
	PgBouncerImage     = "docker.io/mainstay/pgbouncer"  // a tag for the major version
)

// imageRevision changes the key of every image: raise it when this package builds
// them differently.
const imageRevision = "1"

// nobody is the user of images that need no privileges: the "nonroot" of distroless images.
const nobody = "65532:65532"

// Builder builds products into a cache.
type Builder struct {
	Source   string // the testbed's source folder
	Cache    build.Cache
	Progress *ui.Progress
}

// CoreImages returns the images without which no application starts, in the order in which a node
// needs them.
func CoreImages() []string { return []string{"pause", "coredns", "demo-web"} }

// Images returns the images that every node of a complete cluster gets.
func Images() []string { return append(CoreImages(), "metrics-server", "nginx") }

// AllImages returns the names that [Builder.Image] accepts, including images that a node gets only
// by `image load`.
func AllImages() []string {
	return slices.Concat(Images(), []string{"kubectl", "demo-shop", "demo-java", "demo-agent", "pgbouncer"}, postgresqlNames(), valkeyNames())
}

// IsOfDebian reports whether an image is made of Debian's packages, and not of a program that is
// compiled here.
func IsOfDebian(name string) bool {
	_, compiled := Builder{}.programs()[name]
	return slices.Contains(AllImages(), name) && !compiled && name != "kubectl"
}

// Image returns the tarball of one image.
func (b Builder) Image(ctx context.Context, name string) (string, error) {
	switch name {
	case "nginx":
		return b.nginx(ctx)
	case "kubectl":
		return b.kubectl(ctx)
	case "demo-java":
		return b.demoJava(ctx)
	case "demo-agent":
		return b.demoAgent(ctx)
	case "pgbouncer":
		return b.pgbouncer(ctx)
	}
	for _, source := range postgresqlSources {
		if source.name() == name {
			return b.postgresql(ctx, source)
		}
	}
	for _, source := range valkeySources {
		if source.name() == name {
			return b.valkey(ctx, source)
		}
	}
	for _, server := range npmPostgreSQLs {
		if server.name() == name {
			return b.npmPostgreSQL(ctx, server)
		}
	}
	program, found := b.programs()[name]
	if !found {
		return "", fmt.Errorf("unknown image %q: must be one of %v", name, AllImages())
	}
	binary, err := program.Build(ctx, b.Cache, b.Progress)
	if err != nil {
		return "", err
	}
	return b.program(name, binary)
}

// kubectl builds an image of the current Kubernetes' kubectl.
func (b Builder) kubectl(ctx context.Context) (string, error) {
	folder, err := b.Kubernetes(ctx, Current)
	if err != nil {
		return "", err
	}
	return b.program("kubectl", filepath.Join(folder, "kubectl"))
}

// program builds an image of one static binary.
func (b Builder) program(name, binary string) (string, error) {
	key := build.Key(imageRevision, filepath.Dir(binary))
	return b.tarball(name, key, func() (map[string]v1.Image, error) {
		content, err := os.ReadFile(binary)
		if err != nil {
			return nil, fmt.Errorf("reading the program %s: %w", name, err)
		}
		return programImages(name, content)
	})
}

func (b Builder) programs() map[string]build.GoProgram {
	folder := func(elements ...string) string { return filepath.Join(append([]string{b.Source}, elements...)...) }
	return map[string]build.GoProgram{
		"pause":     {Name: "pause", Folder: folder("images", "pause")},
		"demo-web":  {Name: "demo-web", Folder: folder("images", "demo-web")},
		"demo-shop": {Name: "demo-shop", Folder: folder("images", "demo-shop")},
		"coredns":   {Name: "coredns", Folder: folder("coredns")},
		"metrics-server": {
			Name: "metrics-server", Folder: folder("metrics-server"),
			LDFlags: []string{"-X", "sigs.k8s.io/metrics-server/pkg/version.gitVersion=v0.9.0"},
		},
	}
}

func (b Builder) tarball(name, key string, pack func() (map[string]v1.Image, error)) (string, error) {
	const file = "image.tar"
	product := "image-" + name
	folder, err := b.Cache.Product(product, key, func(folder string) error {
		return b.Progress.Step("packing image "+name, nil, func() error {
			images, err := pack()
			if err != nil {
				return err
			}
			return image.Write(filepath.Join(folder, file), images)
		})
	})
	if err != nil {
		return "", err
	}
	if err := b.Cache.Prune(product, folder); err != nil {
		return "", err
	}
	return filepath.Join(folder, file), nil
}

// programImages returns the images of a static program by reference.
func programImages(name string, binary []byte) (map[string]v1.Image, error) {
	path := "/" + name
	layer, err := image.Layer([]image.File{
		{Path: path, Mode: 0o755, Data: binary},
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0::/:/none\nnonroot:x:65532:65532::/:/none\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\nnonroot:x:65532:\n")},
	})
	if err != nil {
		return nil, err
	}
	configs := map[string]image.Config{}
	switch name {
	case "pause":
		configs[PauseImage] = image.Config{Entrypoint: []string{path}, User: nobody}
	case "coredns":
		// Port 53 needs root (or a capability, which a file in a layer of ours does not carry).
		configs[CoreDNSImage] = image.Config{Entrypoint: []string{path}, Ports: []string{"53/udp", "53/tcp"}}
	case "kubectl":
		configs[KubectlImage] = image.Config{Entrypoint: []string{path}, User: nobody}
	case "metrics-server":
		configs[MetricsServerImage] = image.Config{Entrypoint: []string{path}, User: nobody}
	case "demo-shop":
		configs[DemoShopImage] = image.Config{Entrypoint: []string{path}, User: nobody, Ports: []string{"8080/tcp"}}
	case "demo-web":
		for _, version := range []string{"1.0", "2.0"} {
			configs[DemoWebImage+":"+version] = image.Config{
				Entrypoint: []string{path}, User: nobody, Ports: []string{"8080/tcp"},
				Env: []string{"DEMO_WEB_VERSION=" + version},
			}
		}
	}
	images := map[string]v1.Image{}
	for reference, config := range configs {
		config.Env = slices.Concat([]string{"PATH=/"}, config.Env)
		config.WorkingDir = "/"
		if images[reference], err = image.New(config, layer); err != nil {
			return nil, fmt.Errorf("making %s: %w", reference, err)
		}
	}
	return images, nil
}
