package cluster

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/mainstay-platform/mainstay/testbed/internal/cgroup"
	"github.com/mainstay-platform/mainstay/testbed/internal/product"
	"github.com/mainstay-platform/mainstay/testbed/internal/provision"
)

//go:embed templates manifests
var files embed.FS

// cniPlugins is where Debian's containernetworking-plugins puts them.
const cniPlugins = "/usr/lib/cni"

// render fills in one embedded template; a value that it asks for and does not get is an error.
func render(name string, values map[string]any) (string, error) {
	parsed, err := template.New(filepath.Base(name)).Option("missingkey=error").ParseFS(files, name)
	if err != nil {
		return "", fmt.Errorf("parsing %s: %w", name, err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, values); err != nil {
		return "", fmt.Errorf("rendering %s: %w", name, err)
	}
	return text.String(), nil
}

func (c *Cluster) writeConfig(file, name string, values map[string]any) error {
	text, err := render("templates/"+name, values)
	if err != nil {
		return err
	}
	return writeChanged(file, []byte(text))
}

// writeChanged leaves a file with the same content alone: kube-proxy ends when its
// configuration is written, even to the same.
func writeChanged(file string, content []byte) error {
	if present, err := os.ReadFile(file); err == nil && bytes.Equal(present, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("creating the folder of %s: %w", file, err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// writeClusterConfig writes the files that the nodes share.
func (c *Cluster) writeClusterConfig() error {
	if err := c.writeConfig(c.dir.Config("audit-policy.yaml"), "audit-policy.yaml", nil); err != nil {
		return err
	}
	if err := c.writeConfig(c.dir.Config("resolv.conf"), "resolv.conf", map[string]any{"DNS": dnsService}); err != nil {
		return err
	}
	return c.writeConfig(c.dir.Config("kube-proxy.yaml"), "kube-proxy.yaml", map[string]any{
		"Kubeconfig": c.dir.Config(proxyUser + ".kubeconfig"),
		"PodRange":   podRange,
	})
}

// writeNodeConfig writes the files of one node.
func (c *Cluster) writeNodeConfig(number int) error {
	node := NodeName(number)
	if err := c.writeConfig(c.dir.Node(node, "cni", "10-pods.conflist"), "cni.json", map[string]any{
		"Name": podNetwork(), "Leases": c.dir.Node(node, "cni-leases"), "Subnet": nodePods(number), "Gateway": nodePodGateway(number),
	}); err != nil {
		return err
	}
	if err := c.writeConfig(c.dir.Config(containerdName(node)+".toml"), "containerd.toml", map[string]any{
		"Root": c.dir.Node(node, "containerd"), "State": c.dir.Node(node, "containerd-run"),
		"Socket": c.dir.ContainerdSocket(node), "Opt": c.dir.Node(node, "containerd-opt"),
		"Runc":       c.dir.Node(node, "runc"),
		"PauseImage": product.PauseImage, "CNIPlugins": cniPlugins, "CNIConfig": c.dir.Node(node, "cni"),
	}); err != nil {
		return err
	}
	return c.writeConfig(c.dir.Config(kubeletName(node)+".yaml"), "kubelet.yaml", map[string]any{
		"Address": nodeAddress(number), "Port": kubeletPort,
		"ClientCA":    c.store.CertificateFile(clusterAuthority),
		"Certificate": c.store.CertificateFile(nodeServing(node)), "Key": c.store.KeyFile(nodeServing(node)),
		"Socket": c.dir.ContainerdSocket(node), "CgroupRoot": cgroup.Root() + "/" + node,
		"Domain": clusterDomain, "DNS": dnsService, "ResolvConf": c.dir.Config("resolv.conf"),
		"PodLogs": c.dir.Node(node, "pod-logs"),
	})
}

// manifests renders all objects that `up` applies.
func (c *Cluster) manifests(core bool) (string, error) {
	encoded := map[string]string{}
	for name, file := range map[string]string{
		"CA":                 c.store.CertificateFile(clusterAuthority),
		"MetricsCertificate": c.store.CertificateFile(metricsServing),
		"MetricsKey":         c.store.KeyFile(metricsServing),
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("reading a certificate: %w", err)
		}
		encoded[name] = base64.StdEncoding.EncodeToString(content)
	}
	values := map[string]any{
		"Provisioner": provision.Name, "Domain": clusterDomain, "DNS": dnsService,
		"CoreDNSImage": product.CoreDNSImage, "MetricsServerImage": product.MetricsServerImage,
		"CA": encoded["CA"], "MetricsCertificate": encoded["MetricsCertificate"], "MetricsKey": encoded["MetricsKey"],
	}
	var texts []string
	names := []string{"base.yaml", "coredns.yaml"}
	if !core {
		names = append(names, "metrics-server.yaml")
	}
	for _, name := range names {
		text, err := render("manifests/"+name, values)
		if err != nil {
			return "", err
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n---\n"), nil
}
