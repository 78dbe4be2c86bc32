package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/mainstay-platform/mainstay/testbed/internal/pki"
)

// Names in the certificate store.
const (
	clusterAuthority = "ca"
	proxyAuthority   = "front-proxy-ca" // its own: whoever it signs may name any user to an aggregated API
	proxyClient      = "front-proxy"
	apiServing       = "kube-apiserver"
	kubeletClient    = "kube-apiserver-kubelet-client"
	adminClient      = "admin"
	managerClient    = "kube-controller-manager"
	schedulerClient  = "kube-scheduler"
	proxyUser        = "kube-proxy"
	provisionerUser  = "provisioner"
	metricsServing   = "metrics-server"
	tokenKey         = "service-account"
)

// provisionerName is the user of the volume provisioner, see manifests/rbac.yaml.
const provisionerName = "mainstay-testbed:provisioner"

func nodeServing(node string) string { return "kubelet-" + node }

func nodeClient(node string) string { return "kubelet-" + node + "-client" }

// clusterCertificates are the certificates that do not belong to a node.
func clusterCertificates() map[string]pki.Certificate {
	return map[string]pki.Certificate{
		apiServing: {
			CommonName: "kube-apiserver",
			DNSNames: []string{
				"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc." + clusterDomain,
			},
			Addresses: []net.IP{net.ParseIP(hostAddress), net.ParseIP(apiService), net.ParseIP("127.0.0.1")},
		},
		kubeletClient:   {CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}},
		adminClient:     {CommonName: "admin", Organization: []string{"system:masters"}},
		managerClient:   {CommonName: "system:kube-controller-manager"},
		schedulerClient: {CommonName: "system:kube-scheduler"},
		proxyUser:       {CommonName: "system:kube-proxy"},
		provisionerUser: {CommonName: provisionerName},
		metricsServing: {
			CommonName: "metrics-server",
			DNSNames:   []string{"metrics-server.kube-system.svc"},
		},
	}
}

// ensureCertificates makes what is missing for the cluster and its nodes.
func (c *Cluster) ensureCertificates(nodes int) error {
	authority, err := c.store.Authority(clusterAuthority)
	if err != nil {
		return err
	}
	for name, want := range clusterCertificates() {
		if err := c.store.Issue(authority, name, want); err != nil {
			return err
		}
	}
	for number := 1; number <= nodes; number++ {
		node := NodeName(number)
		client := pki.Certificate{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
		if err := c.store.Issue(authority, nodeClient(node), client); err != nil {
			return err
		}
		serving := pki.Certificate{
			CommonName: "system:node:" + node, Organization: []string{"system:nodes"},
			DNSNames: []string{node}, Addresses: []net.IP{net.ParseIP(nodeAddress(number))},
		}
		if err := c.store.Issue(authority, nodeServing(node), serving); err != nil {
			return err
		}
		if err := writeKubeconfig(c.dir.Config(nodeClient(node)+".kubeconfig"), c.store, nodeClient(node)); err != nil {
			return err
		}
	}
	proxy, err := c.store.Authority(proxyAuthority)
	if err != nil {
		return err
	}
	if err := c.store.Issue(proxy, proxyClient, pki.Certificate{CommonName: proxyClient}); err != nil {
		return err
	}
	if err := ensureTokenKey(c.store.KeyFile(tokenKey)); err != nil {
		return err
	}
	for _, name := range []string{managerClient, schedulerClient, proxyUser, provisionerUser} {
		if err := writeKubeconfig(c.dir.Config(name+".kubeconfig"), c.store, name); err != nil {
			return err
		}
	}
	return writeKubeconfig(c.dir.Kubeconfig(), c.store, adminClient)
}

// ensureTokenKey makes the key that signs service account tokens. The format is
// SEC 1, which both client-go's reader and older tools take.
func ensureTokenKey(file string) error {
	_, err := os.Stat(file)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generating the token key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding the token key: %w", err)
	}
	content := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	// By a rename: the next command takes what is there for whole.
	temporary := file + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("writing the token key: %w", err)
	}
	if err := os.Rename(temporary, file); err != nil {
		return fmt.Errorf("writing the token key: %w", err)
	}
	return nil
}
