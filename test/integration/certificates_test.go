package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/install/certificates"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

const (
	servingSecret = "mainstay-serving"
	servingHost   = "mainstay-webhook.mainstay-system.svc"
	// settle is shortened for tests. Slower handshakes are not counted as failures.
	settle = 500 * time.Millisecond
	// pace is the interval between two handshakes of one client.
	pace = 20 * time.Millisecond
)

// TestCertificatesAreAgreedUpon checks that all replicas that start at once serve the same pair and
// then write nothing more.
func TestCertificatesAreAgreedUpon(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	in, begun := namespace(t), time.Now()
	keepers := startKeepers(t, keeperConfig(t, in), 6, certificates.Options{Namespace: in})
	g.Eventually(func() bool { return serveStored(t, in, keepers) }).Should(gomega.BeTrue())
	secret := readServing(t, in)
	for _, keeper := range keepers {
		g.Expect(string(keeper.Bundle())).To(gomega.Equal(string(secret.Data["ca.crt"])))
		issued := keeper.NotAfter().Add(-90 * 24 * time.Hour)
		g.Expect(issued).To(gomega.BeTemporally("~", begun, time.Since(begun)+time.Minute))
		g.Expect(keeper.Ready()).To(gomega.MatchError(gomega.ContainSubstring("waiting until clients trust")))
	}
	for _, keeper := range keepers {
		keeper.Trusted(secret.Data["ca.crt"])
	}
	for _, keeper := range keepers {
		g.Eventually(keeper.Ready).Should(gomega.Succeed())
	}
	g.Expect(readServing(t, in).ResourceVersion).To(gomega.Equal(secret.ResourceVersion), "it is written once")
	g.Expect(certificatesIn(t, secret.Data["ca.crt"])).To(gomega.HaveLen(1))
}

// TestCertificatesRotateWithoutARefusedHandshake has clients that trust only the published bundle
// call three replicas all the time.
func TestCertificatesRotateWithoutARefusedHandshake(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	in := namespace(t)
	keepers := startKeepers(t, keeperConfig(t, in), 3, certificates.Options{Namespace: in})
	load := startLoad(t, keepers)
	change := func(change func(*corev1.Secret)) func() {
		return func() {
			g.Eventually(func() error {
				secret := readServing(t, in)
				change(secret)
				return cluster.Client.Update(t.Context(), secret)
			}).Should(gomega.Succeed())
		}
	}
	for _, rotation := range []struct {
		name string
		by   func()
		// cas is the number of CAs in the bundle afterwards: one for each earlier pair, and one more.
		cas int
	}{
		{"a request", change(func(s *corev1.Secret) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, api.AnnotationRotate, "now-1") }), 2},
		{"another request", change(func(s *corev1.Secret) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, api.AnnotationRotate, "now-2") }), 3},
		{"the Secret is deleted", func() { g.Expect(cluster.Client.Delete(t.Context(), readServing(t, in))).To(gomega.Succeed()) }, 4},
		{"the key is lost", change(func(s *corev1.Secret) { s.Data["tls.key"] = []byte("lost") }), 5},
		{"all is emptied", change(func(s *corev1.Secret) { s.Data = map[string][]byte{"tls.crt": {}, "tls.key": {}} }), 6},
	} {
		g.Eventually(func() bool { return serveStored(t, in, keepers) }).Should(gomega.BeTrue())
		before := served(t, keepers[0])
		begun := time.Now()
		rotation.by()
		g.Eventually(func() bool {
			return !served(t, keepers[0]).Equal(before) && serveStored(t, in, keepers)
		}).Should(gomega.BeTrue(), rotation.name)
		t.Logf("%s: all three serve a new certificate after %s", rotation.name, time.Since(begun).Round(time.Millisecond))
		g.Expect(certificatesIn(t, readServing(t, in).Data["ca.crt"])).To(gomega.HaveLen(rotation.cas), rotation.name)
	}
	load.end(t)
}

// TestExternalCertificates checks that with an external Secret nothing is written, and that a
// rotation without overlap fails no handshake either.
func TestExternalCertificates(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	in := namespace(t)
	recorded := &testenv.Requests{}
	config := keeperConfig(t, in)
	config.Wrap(recorded.Wrap)
	keepers := startKeepers(t, config, 3, certificates.Options{Namespace: in, External: true})
	g.Eventually(keepers[0].Ready).Should(gomega.MatchError(gomega.ContainSubstring(": not found")))
	g.Expect(keepers[0].Bundle()).To(gomega.BeNil())
	_, err := keepers[0].GetCertificate(nil)
	g.Expect(err).To(gomega.HaveOccurred())

	secret := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: servingSecret}, Type: corev1.SecretTypeTLS,
			Data: externalData(t)}
	}
	g.Expect(cluster.Client.Create(t.Context(), secret())).To(gomega.Succeed())
	load := startLoad(t, keepers)
	g.Eventually(func() bool { return serveStored(t, in, keepers) }).Should(gomega.BeTrue())
	damaged := secret()
	damaged.Data["tls.key"] = []byte("lost")
	for i, rotation := range []func() error{
		func() error { return cluster.Client.Update(t.Context(), secret()) },
		func() error {
			return errors.Join(cluster.Client.Update(t.Context(), damaged), cluster.Client.Update(t.Context(), secret()))
		},
		func() error {
			return errors.Join(cluster.Client.Delete(t.Context(), secret()), cluster.Client.Create(t.Context(), secret()))
		},
	} {
		changed := keepers[1].Changed()
		g.Expect(rotation()).To(gomega.Succeed())
		written := time.Now()
		select {
		case <-changed:
			t.Logf("rotation %d: noticed after %s", i, time.Since(written).Round(time.Millisecond))
		case <-time.After(within):
			t.Fatalf("rotation %d was not noticed", i)
		}
		g.Eventually(func() bool { return serveStored(t, in, keepers) }).Should(gomega.BeTrue())
		g.Expect(certificatesIn(t, keepers[1].Bundle())).To(gomega.HaveLen(i+2), "earlier CAs are kept")
	}
	load.end(t)
	g.Expect(recorded.Since(0, "PUT ", "POST ", "PATCH ", "DELETE ")).To(gomega.BeEmpty())
}

// TestCertificatesSurviveABrokenNetwork checks that replicas go on serving, and that a requested
// rotation happens later.
func TestCertificatesSurviveABrokenNetwork(t *testing.T) {
	t.Parallel()
	testenv.RequireKubernetes(t, cluster.Config, 34, "informers begin with a watch, whose error is the network's,")
	g := gomega.NewWithT(t)
	in := namespace(t)
	recorded := &testenv.Requests{}
	config := keeperConfig(t, in)
	config.Wrap(recorded.Wrap)
	recorded.Break("/secrets")
	keepers := startKeepers(t, config, 1, certificates.Options{Namespace: in})
	g.Eventually(keepers[0].Ready).Should(gomega.MatchError(gomega.ContainSubstring("the network is broken")))
	recorded.Break("")
	load := startLoad(t, keepers)
	g.Eventually(func() bool { return serveStored(t, in, keepers) }).Should(gomega.BeTrue())

	recorded.Break("/secrets")
	before, tried := served(t, keepers[0]), recorded.Count()
	secret := readServing(t, in)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, api.AnnotationRotate, "now-1")
	g.Expect(cluster.Client.Update(t.Context(), secret)).To(gomega.Succeed())
	g.Eventually(func() int { return len(recorded.Since(tried, "PUT ")) }).Should(gomega.BeNumerically(">=", 2))
	g.Expect(served(t, keepers[0]).Equal(before)).To(gomega.BeTrue())
	recorded.Break("")
	g.Eventually(func() bool {
		return !served(t, keepers[0]).Equal(before) && serveStored(t, in, keepers)
	}).Should(gomega.BeTrue())
	load.end(t)
}

// TestCertificatesAreRenewedInTime advances the clock by three months for one replica.
func TestCertificatesAreRenewedInTime(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	in := namespace(t)
	clock := clocktesting.NewFakeClock(time.Now())
	keepers := startKeepers(t, keeperConfig(t, in), 1, certificates.Options{Namespace: in, Clock: clock})
	g.Eventually(func() bool { return serveStored(t, in, keepers) }).Should(gomega.BeTrue())
	first := served(t, keepers[0])
	pass := func(duration time.Duration) {
		// A Keeper that is running or about to run may set its timer after the clock was advanced. It
		// would then wait for a time that has passed.
		g.Eventually(clock.HasWaiters).MustPassRepeatedly(3).Should(gomega.BeTrue())
		clock.Step(duration)
	}

	pass(61 * 24 * time.Hour)
	g.Eventually(func() []*x509.Certificate { return certificatesIn(t, keepers[0].Bundle()) }).Should(gomega.HaveLen(2))
	g.Expect(served(t, keepers[0]).Equal(first)).To(gomega.BeTrue(), "no client trusts the new one yet")
	keepers[0].Trusted(keepers[0].Bundle())
	pass(settle)
	g.Expect(served(t, keepers[0]).Equal(first)).To(gomega.BeFalse())

	pass(2 * time.Hour)
	g.Eventually(func() []*x509.Certificate { return certificatesIn(t, keepers[0].Bundle()) }).Should(gomega.HaveLen(1))
	g.Expect(serveStored(t, in, keepers)).To(gomega.BeTrue())
}

// keeperConfig returns the config of a user with exactly the rights that the chart grants.
func keeperConfig(t *testing.T, in string) *rest.Config {
	t.Helper()
	at := metav1.ObjectMeta{Namespace: in, Name: "keeper"}
	create(t, &rbacv1.Role{ObjectMeta: at, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{servingSecret},
			Verbs: []string{"list", "watch", "update"}},
	}})
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: at,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: at.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "keeper-" + in}},
	})
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate.UserName = "keeper-" + in
	awaitRight(t, config, authorizationv1.ResourceAttributes{Namespace: in, Verb: "watch", Resource: "secrets", Name: servingSecret})
	return config
}

// awaitRight waits until the API server allows a right just granted: its authorizer watches roles
// and bindings.
func awaitRight(t *testing.T, config *rest.Config, right authorizationv1.ResourceAttributes) {
	t.Helper()
	user := clientOf(t, config)
	gomega.NewWithT(t).Eventually(func() (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
		err := user.Create(t.Context(), review)
		return review.Status.Allowed, err
	}).Should(gomega.BeTrue())
}

// startKeepers runs replicas until the test ends. The test fails if one ends earlier or with an
// error.
func startKeepers(t *testing.T, config *rest.Config, n int, options certificates.Options) []*certificates.Keeper {
	t.Helper()
	options.Name, options.Names, options.Settle = servingSecret, []string{servingHost}, settle
	var keepers []*certificates.Keeper
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range n {
		keeper, err := certificates.New(config, options)
		if err != nil {
			t.Fatal(err)
		}
		keepers = append(keepers, keeper)
		running.Go(func() {
			if err := keeper.Start(ctx); err != nil || ctx.Err() == nil {
				t.Errorf("a Keeper ended with: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return keepers
}

func readServing(t *testing.T, in string) *corev1.Secret {
	t.Helper()
	var secret corev1.Secret
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: in, Name: servingSecret},
		&secret); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return &secret
}

// served returns the certificate that a replica serves, nil if there is none.
func served(t *testing.T, keeper *certificates.Keeper) *x509.Certificate {
	t.Helper()
	certificate, err := keeper.GetCertificate(nil)
	if err != nil {
		return &x509.Certificate{}
	}
	return certificate.Leaf
}

// serveStored reports whether all replicas serve the certificate in the Secret.
func serveStored(t *testing.T, in string, keepers []*certificates.Keeper) bool {
	t.Helper()
	stored, err := certutil.ParseCertsPEM(readServing(t, in).Data["tls.crt"])
	for _, keeper := range keepers {
		if err != nil || !served(t, keeper).Equal(stored[0]) {
			return false
		}
	}
	return true
}

func certificatesIn(t *testing.T, bundle []byte) []*x509.Certificate {
	t.Helper()
	found, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		t.Error(err)
	}
	return found
}

// externalData returns what cert-manager would write: a certificate of a new CA.
func externalData(t *testing.T) map[string][]byte {
	t.Helper()
	return externalDataFor(t, servingHost)
}

func externalDataFor(t *testing.T, host string) map[string][]byte {
	t.Helper()
	chain, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	certificates := certificatesIn(t, chain)
	ca, err := certutil.EncodeCertificates(certificates[len(certificates)-1])
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": chain, "tls.key": key, "ca.crt": ca}
}

// load is a set of running clients.
type load struct {
	stop       func()
	handshakes atomic.Int64
	// trusted is the bundle published last.
	trusted atomic.Pointer[x509.CertPool]
}

// end stops the clients, and fails if there was no handshake. A refused handshake fails the test at
// once.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	if l.handshakes.Load() == 0 {
		t.Error("there was no handshake")
	}
	t.Logf("%d handshakes", l.handshakes.Load())
}

// startLoad publishes the bundle of the first replica, and then starts a client for each replica
// that calls it until end.
func startLoad(t *testing.T, keepers []*certificates.Keeper) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{}
	var working sync.WaitGroup
	l.stop = func() {
		cancel()
		working.Wait()
	}
	t.Cleanup(l.stop)
	working.Go(func() { l.publish(ctx, keepers) })
	gomega.NewWithT(t).Eventually(l.trusted.Load).ShouldNot(gomega.BeNil())
	for _, keeper := range keepers {
		gomega.NewWithT(t).Eventually(keeper.Ready).Should(gomega.Succeed(), "no client calls a replica before it is ready")
		address := serve(t, keeper)
		working.Go(func() {
			for ctx.Err() == nil {
				l.ask(ctx, t, address)
				select {
				case <-ctx.Done():
				case <-time.After(pace):
				}
			}
		})
	}
	return l
}

// publish does what the leader will do: it writes the bundle where clients find it, then reports it
// to all replicas.
func (l *load) publish(ctx context.Context, keepers []*certificates.Keeper) {
	for ctx.Err() == nil {
		changed := keepers[0].Changed()
		if bundle := keepers[0].Bundle(); bundle != nil {
			trusted := x509.NewCertPool()
			trusted.AppendCertsFromPEM(bundle)
			l.trusted.Store(trusted)
			for _, keeper := range keepers {
				keeper.Trusted(bytes.Clone(bundle))
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// ask makes one handshake. On a busy machine it may take longer than clients are given to learn of
// a new bundle; its refusal is then not counted.
func (l *load) ask(ctx context.Context, t *testing.T, address string) {
	begun := time.Now()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: l.trusted.Load(), ServerName: servingHost, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if ctx.Err() != nil || err != nil && time.Since(begun) > settle/2 {
		return
	}
	if err != nil {
		t.Errorf("a handshake failed: %v", err)
		return
	}
	l.handshakes.Add(1)
	if err := connection.Close(); err != nil {
		t.Errorf("closing a connection: %v", err)
	}
}

// serve accepts handshakes with a replica's certificate until the test ends.
func serve(t *testing.T, keeper *certificates.Keeper) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: keeper.GetCertificate, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				t.Errorf("accepting a connection: %v", err)
				return
			}
			serving.Go(func() {
				// The first read does the handshake, and returns when the client closes the connection.
				_, _ = connection.Read(make([]byte, 1))
				_ = connection.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}
