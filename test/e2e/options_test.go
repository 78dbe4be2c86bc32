//go:build e2e

package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// testOptions installs, under another name, a chart with its own CRDs over those of an earlier
// release: first with one replica and certificates of cert-manager, then without webhooks and
// cert-manager.
func testOptions(t *testing.T) {
	g := gomega.NewWithT(t)
	ns, later := namespace(t, "options-prod"), laterChart(t)
	const validating = "validatingwebhookconfiguration/mainstay"
	makeNamespace(t, system)
	for _, kind := range []string{"Issuer", "Certificate"} {
		apply(t, "", certManagerKind(kind))
	}
	for _, name := range []string{"issuers", "certificates"} {
		awaitFor(t, "", "crd/"+name+".cert-manager.io", "Established", within)
	}
	authority := newAuthority(t)
	for _, service := range []string{"another-mainstay-webhook", "another-mainstay-apiserver"} {
		apply(t, system, authority.secret(t, service))
	}
	helm(t, "install", "another", later, "--namespace", system, "--set", "certManager.enabled=true,replicaCount=1", "--wait", "--timeout",
		"5m")
	g.Expect(read(t, system, "deployment/another-mainstay-manager", "{.status.replicas}")).To(gomega.Equal("1"))
	g.Expect(kubectl(t, "-n", system, "get", "certificates.cert-manager.io", "-o",
		"name")).To(gomega.ContainSubstring("another-mainstay-webhook"))
	awaitWebhooks(t)
	awaitServed(t)
	g.Expect(read(t, "", validating, "{.webhooks[0].clientConfig.caBundle}")).To(
		gomega.Equal(base64.StdEncoding.EncodeToString(authority.pem)), "the webhooks have cert-manager's CA")
	apply(t, ns, webapp("shop", demo, "replicas: 1", limits))
	waitReady(t, ns, "shop")
	_, err := tryApply(t, ns, webapp("large", demo, "replicas: 11", limits))
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("spec.replicas: Invalid value: 11: must be at most 10")))

	helm(t, "upgrade", "another", later, "--namespace", system, "--set", "webhook.enabled=false,replicaCount=1", "--wait", "--timeout", "5m")
	awaitGone(t, "", validating, within)
	awaitServed(t)
	// Admission refuses nothing; only the controllers check policies. Until its watch has delivered
	// the deletion, the API server still calls the webhooks.
	g.Eventually(func() error {
		_, err := tryApply(t, ns, webapp("large", demo, "replicas: 11", limits))
		return err
	}).Should(gomega.Succeed())
	g.Eventually(readyReason(t, ns, "large")).Should(gomega.Equal("PolicyViolation"))
	waitReady(t, ns, "shop")
	helm(t, "uninstall", "another", "--namespace", system, "--wait", "--timeout", "5m")
	notServed(t)
	deleteNamespace(t, system)
	kubectl(t, "delete", "crd", "issuers.cert-manager.io", "certificates.cert-manager.io")
}

// certManagerKind returns a CRD of cert-manager whose objects are stored unchanged.
func certManagerKind(kind string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: %[2]s, plural: %[1]ss, singular: %[1]s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, string(bytes.ToLower([]byte(kind))), kind)
}

// authority signs certificates as cert-manager does.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key, raw := signed(t, template, nil)
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})}
}

// secret returns the certificate of a Service in the namespace system, as cert-manager writes it.
func (a *authority) secret(t *testing.T, service string) string {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: service}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{service + "." + system +
			".svc"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	key, raw := signed(t, template, a)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: %s}\ndata: {ca.crt: %s, tls.crt: %s, tls.key: %s}\n", service, text(a.pem),
		text(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})), text(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY",
			Bytes: encoded})))
}

// signed creates a key and its certificate, signed by an authority or by itself.
func signed(t *testing.T, template *x509.Certificate, by *authority) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return key, raw
}
