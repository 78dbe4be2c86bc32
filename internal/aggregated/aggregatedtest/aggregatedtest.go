// Package aggregatedtest runs our API server behind one of envtest, for tests and measurements. It
// has a certificate of its own and an APIService, as in a cluster.
package aggregatedtest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated"
)

// Namespace and Service are the address in the APIService.
const (
	Namespace = "mainstay-system"
	Service   = "mainstay-apiserver"
)

// registered is how long the API server may take until it passes requests on: some seconds, and
// much longer on a busy machine.
const registered = 4 * time.Minute

// frontProxy is the only client name that the server trusts to act for other users.
const frontProxy = "front-proxy"

// pair is a certificate with its key, in files.
type pair struct {
	certificate *x509.Certificate
	key         crypto.Signer
	certFile    string
	keyFile     string
}

// Front prepares the API server of an environment, before its start, for calls to other API
// servers: it writes a CA and a client certificate of it to a folder. It returns the files of the
// certificate.
func Front(environment *envtest.Environment, folder string) (certFile, keyFile string, err error) {
	authority, err := newPair(folder, frontProxy+"-ca", nil)
	if err != nil {
		return "", "", err
	}
	client, err := newPair(folder, frontProxy, authority)
	if err != nil {
		return "", "", err
	}
	environment.ControlPlane.GetAPIServer().Configure().
		Set("requestheader-client-ca-file", authority.certFile).
		Set("requestheader-allowed-names", frontProxy).
		Set("requestheader-username-headers", "X-Remote-User").
		Set("requestheader-group-headers", "X-Remote-Group").
		Set("requestheader-extra-headers-prefix", "X-Remote-Extra-").
		Set("proxy-client-cert-file", client.certFile).
		Set("proxy-client-key-file", client.keyFile)
	return client.certFile, client.keyFile, nil
}

// Certificate makes another certificate of the same CA in the folder that Front was given. A server
// that checks only the CA, and not the name, would trust it. It returns its files.
func Certificate(folder, name string) (certFile, keyFile string, err error) {
	authority := &pair{certFile: filepath.Join(folder, frontProxy+"-ca.crt"), keyFile: filepath.Join(folder, frontProxy+"-ca.key")}
	certificates, err := certutil.CertsFromFile(authority.certFile)
	if err != nil {
		return "", "", err
	}
	key, err := keyutil.PrivateKeyFromFile(authority.keyFile)
	if err != nil {
		return "", "", err
	}
	signer, isSigner := key.(crypto.Signer)
	if !isSigner {
		return "", "", fmt.Errorf("%s: a %T can't sign", authority.keyFile, key)
	}
	authority.certificate, authority.key = certificates[0], signer
	made, err := newPair(folder, name, authority)
	if err != nil {
		return "", "", err
	}
	return made.certFile, made.keyFile, nil
}

// newPair returns a pair signed by authority, or self-signed.
func newPair(folder, name string, authority *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	made := &pair{key: key, certFile: filepath.Join(folder, name+".crt"), keyFile: filepath.Join(folder, name+".key")}
	if authority == nil {
		made.certificate, err = certutil.NewSelfSignedCACert(certutil.Config{CommonName: name}, key)
	} else {
		made.certificate, err = sign(name, key, authority)
	}
	if err != nil {
		return nil, err
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	certificate, err := certutil.EncodeCertificates(made.certificate)
	if err != nil {
		return nil, err
	}
	return made, errors.Join(certutil.WriteCert(made.certFile, certificate), keyutil.WriteKey(made.keyFile, encoded))
}

func sign(name string, key crypto.Signer, authority *pair) (*x509.Certificate, error) {
	now := clock.RealClock{}.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.certificate, key.Public(), authority.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Server runs our API server as a process would: its certificate and its kubeconfig are in files.
type Server struct {
	Options *aggregated.Options
	// Port is the loopback port, and Bundle has the CA of the serving certificate.
	Port   int
	Bundle []byte
}

// NewServer prepares a Server in a folder, for the user of a kubeconfig.
func NewServer(folder string, kubeconfig []byte, resources ...string) (*Server, error) {
	path := filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return nil, err
	}
	bundle, key, err := certutil.GenerateSelfSignedCertKey(Service+"."+Namespace+".svc", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	certFile, keyFile := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	if err := errors.Join(certutil.WriteCert(certFile, bundle), keyutil.WriteKey(keyFile, key)); err != nil {
		return nil, err
	}
	s := &Server{Options: aggregated.NewOptions(), Bundle: bundle}
	s.Options.Resources, s.Options.Kubeconfig, s.Options.ShutdownDelay = resources, path, 0
	s.Options.SecureServing.ServerCert.CertKey.CertFile, s.Options.SecureServing.ServerCert.CertKey.KeyFile = certFile, keyFile
	s.Options.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	return s, s.Listen(0)
}

// Listen opens the port, where 0 means any. Call it once before each Run.
func (s *Server) Listen(port int) error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
	if err != nil {
		return err
	}
	address, isTCP := listener.Addr().(*net.TCPAddr)
	if !isTCP {
		return fmt.Errorf("listening on %s", listener.Addr())
	}
	s.Options.SecureServing.Listener, s.Port = listener, address.Port
	return nil
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	server, err := aggregated.New(s.Options)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}

// Register creates the APIService, and waits until the API server discovers FarmPods. The Service
// is of type ExternalName, which needs no address of its own.
func (s *Server) Register(ctx context.Context, cluster client.Client) error {
	meta := metav1.ObjectMeta{Namespace: Namespace, Name: Service}
	port := int32(s.Port) //nolint:gosec // ports are small
	registration := s.registration(port)
	err := errors.Join(
		client.IgnoreAlreadyExists(cluster.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}})),
		client.IgnoreAlreadyExists(cluster.Create(ctx, &corev1.Service{
			ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
		})),
		client.IgnoreAlreadyExists(cluster.Create(ctx, registration)),
	)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, registered, true, func(ctx context.Context) (bool, error) {
		if err := cluster.Get(ctx, client.ObjectKeyFromObject(registration), registration); err != nil {
			return false, err
		}
		if !isAvailable(registration) {
			return false, nil
		}
		// The APIService is available a moment before requests are forwarded.
		_, err := cluster.RESTMapper().ResourceFor(farmv1alpha1.GroupVersion.WithResource("farmpods"))
		return err == nil, nil
	})
}

func (s *Server) registration(port int32) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: farmv1alpha1.GroupVersion.Version + "." + farmv1alpha1.GroupVersion.Group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: farmv1alpha1.GroupVersion.Group, Version: farmv1alpha1.GroupVersion.Version, CABundle: s.Bundle,
			GroupPriorityMinimum: 1000, VersionPriority: 15,
			Service: &apiregistrationv1.ServiceReference{Namespace: Namespace, Name: Service, Port: &port},
		},
	}
}

func isAvailable(registration *apiregistrationv1.APIService) bool {
	for _, condition := range registration.Status.Conditions {
		if condition.Type == apiregistrationv1.Available {
			return condition.Status == apiregistrationv1.ConditionTrue
		}
	}
	return false
}
