package cluster

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mainstay-platform/mainstay/testbed/internal/pki"
)

// writeKubeconfig writes a kubeconfig with all certificates inside, so that it works
// from any folder and can be copied.
func writeKubeconfig(file string, store pki.Store, certificate string) error {
	authority, err := os.ReadFile(store.CertificateFile(clusterAuthority))
	if err != nil {
		return fmt.Errorf("reading the cluster's authority: %w", err)
	}
	public, err := os.ReadFile(store.CertificateFile(certificate))
	if err != nil {
		return fmt.Errorf("reading the certificate of %s: %w", certificate, err)
	}
	key, err := os.ReadFile(store.KeyFile(certificate))
	if err != nil {
		return fmt.Errorf("reading the key of %s: %w", certificate, err)
	}
	const name = "testbed"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: apiURL(), CertificateAuthorityData: authority}
	config.AuthInfos[certificate] = &clientcmdapi.AuthInfo{ClientCertificateData: public, ClientKeyData: key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: certificate}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", file, err)
	}
	return writeChanged(file, content)
}
