package integration

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/definitions"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// TestALeaderThatIsStartedAnewLeadsAtOnce: a process that was killed could not give the lease back. Under its pod's
// name it has it still; under a new one it would have to wait for 15 s, and so would everybody's changes.
func TestALeaderThatIsStartedAnewLeadsAtOnce(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(30 * time.Second)
	server := ownServer(t)
	direct := clientOf(t, server.Config)
	g.Expect(definitions.Install(t.Context(), definitionsOf(t, server.Config))).To(gomega.Succeed())
	g.Expect(direct.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})).To(gomega.Succeed())
	way, err := proxy.New(server.Config, proxy.Plan{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(way.Close)

	works := func(name string, within time.Duration) {
		t.Helper()
		app := newApp(system)
		app.Name = name
		g.Expect(direct.Create(t.Context(), app)).To(gomega.Succeed())
		g.Eventually(func() error {
			return direct.Get(t.Context(), client.ObjectKeyFromObject(app), &corev1.Service{})
		}, within).Should(gomega.Succeed())
	}
	killed := elect(t, way, "pod-a_uid-a")
	works("first", 30*time.Second)
	// What it sends from now on arrives nowhere: it can't give the lease back.
	way.Kill()
	killed()
	started := time.Now()
	elect(t, way, "pod-a_uid-a")
	works("second", setup.DefaultSettings().LeaseDuration-3*time.Second)
	t.Logf("at work %s after the start", time.Since(started).Round(time.Millisecond))
}

// elect runs a manager under an identity, behind a proxy. The returned function ends it.
func elect(t *testing.T, way *proxy.Proxy, identity string) func() {
	t.Helper()
	settings := setup.DefaultSettings()
	settings.Namespace = system
	settings.LeaderElectionIdentity = identity
	settings.HealthAddress = "0"
	settings.SkipNameValidation = true
	ctx, cancel := context.WithCancel(t.Context())
	operator, err := setup.New(ctx, way.Connect(), settings)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = operator.Start(ctx) // one that was killed ends with an error
	}()
	end := func() {
		cancel()
		<-done
	}
	t.Cleanup(end)
	return end
}
