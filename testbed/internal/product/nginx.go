package product

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/build"
	"github.com/mainstay-platform/mainstay/testbed/internal/image"
)

// The Debian release with nginx 1.22.
const nginxSuite = "bookworm"

// nginxConfig logs where a container engine looks, and serves Debian's page.
const nginxConfig = `worker_processes 1;
error_log /dev/stderr notice;
pid /run/nginx.pid;
events { worker_connections 1024; }
http {
    include /etc/nginx/mime.types;
    access_log /dev/stdout;
    server {
        listen 80 default_server;
        root /var/www/html;
        index index.html index.nginx-debian.html;
    }
    include /etc/nginx/conf.d/*.conf;
}
`

// nginx builds Debian's nginx with as little as it needs around it.
func (b Builder) nginx(ctx context.Context) (string, error) {
	key := build.Key(imageRevision, nginxSuite, nginxConfig)
	scratch, err := os.MkdirTemp("", "testbed-nginx-")
	if err != nil {
		return "", fmt.Errorf("creating a folder for nginx: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	return b.tarball("nginx", key, func() (map[string]v1.Image, error) {
		rootfs := filepath.Join(scratch, "rootfs.tar")
		if err := bootstrap(ctx, nginxSuite, rootfs, "nginx-light"); err != nil {
			return nil, err
		}
		base, err := image.LayerFromTar(rootfs)
		if err != nil {
			return nil, err
		}
		config, err := image.Layer([]image.File{{Path: "/etc/nginx/nginx.conf", Mode: 0o644, Data: []byte(nginxConfig)}})
		if err != nil {
			return nil, err
		}
		made, err := image.New(image.Config{
			Cmd: []string{"nginx", "-g", "daemon off;"}, Ports: []string{"80/tcp"}, StopSignal: "SIGQUIT",
			Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		}, base, config)
		if err != nil {
			return nil, err
		}
		return map[string]v1.Image{NginxImage + ":1.22": made, NginxImage + ":stable": made}, nil
	})
}

// bootstrap writes a root file system with the packages to a tar file. It uses the
// mirror of the machine's own apt sources: another may be out of reach.
func bootstrap(ctx context.Context, suite, output, packages string) error {
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return errors.New("mmdebstrap is missing: apt-get install mmdebstrap")
	}
	arguments := []string{
		"--mode=root", "--variant=apt", "--include=" + packages,
		"--aptopt=Apt::Install-Recommends \"false\"", "--aptopt=Acquire::Check-Valid-Until \"false\"",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--customize-hook=rm -rf \"$1\"/var/lib/apt/lists/* \"$1\"/var/cache/apt/* \"$1\"/var/log/*.log",
		// The machine's own list holds other releases too; mmdebstrap takes the mirror from here.
		suite, output,
	}
	if mirror := debianMirror(); mirror != "" {
		arguments = append(arguments, mirror)
	}
	command := exec.CommandContext(ctx, program, arguments...)
	// mmdebstrap cleans up when it is asked to end; SIGKILL would leave its folder.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	if messages, err := command.CombinedOutput(); err != nil {
		text := string(messages)
		return fmt.Errorf("making a Debian %s file system: %w\n%s", suite, err, text[max(0, len(text)-3000):])
	}
	return nil
}

// debianMirror finds the address of the machine's Debian mirror in its apt sources;
// "" leaves the choice to mmdebstrap (deb.debian.org).
func debianMirror() string {
	files, _ := filepath.Glob("/etc/apt/sources.list.d/*") // the pattern is well-formed
	for _, file := range append([]string{"/etc/apt/sources.list"}, files...) {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if mirror := parseMirror(string(content)); mirror != "" {
			return mirror
		}
	}
	return ""
}

// parseMirror takes the first main archive (…/debian) of a sources file, in the
// one-line or the deb822 format (sources.list(5)).
func parseMirror(sources string) string {
	for line := range strings.Lines(sources) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "deb" && fields[0] != "URIs:" {
			continue
		}
		for _, field := range fields[1:] {
			if strings.Contains(field, "://") && strings.HasSuffix(strings.TrimSuffix(field, "/"), "/debian") {
				return field
			}
		}
	}
	return ""
}
