package product

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/build"
	"github.com/mainstay-platform/mainstay/testbed/internal/image"
)

// nginxSuite is the Debian release with nginx 1.22.
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
