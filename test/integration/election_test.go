package integration

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// TestARestartedLeaderLeadsAtOnce kills a leader, which then cannot release its Lease.
// Under the same identity, its pod's name, it still holds the Lease and leads at once. A new
// identity would have to wait until the Lease expires, and no change would be reconciled meanwhile.
// The Lease lasts longer than the test may wait, however slow the machine.
func TestARestartedLeaderLeadsAtOnce(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	server := ownServer(t)
	direct := clientOf(t, server.Config)
	g.Expect(crds.Install(t.Context(), definitionsOf(t, server.Config))).To(gomega.Succeed())
	g.Expect(direct.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})).To(gomega.Succeed())
	way, err := proxy.New(server.Config, proxy.Plan{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(way.Close)

	works := func(name string) {
		t.Helper()
		app := newApp(system)
		app.Name = name
		g.Expect(direct.Create(t.Context(), app)).To(gomega.Succeed())
		g.Eventually(func() error {
			return direct.Get(t.Context(), client.ObjectKeyFromObject(app), &corev1.Service{})
		}).Should(gomega.Succeed())
	}
	killed := elect(t, way, "pod-a_uid-a")
	works("first")
	// Its requests reach the server no longer: it cannot release the Lease.
	way.Kill()
	killed()
	started := time.Now()
	elect(t, way, "pod-a_uid-a")
	works("second")
	t.Logf("leading %s after the start", time.Since(started).Round(time.Millisecond))
}

// elect runs a manager under an identity, behind a proxy. The returned function stops it.
func elect(t *testing.T, way *proxy.Proxy, identity string) func() {
	t.Helper()
	return testenv.RunManager(t, way.Connect(), testenv.ManagerOptions{
		Settings: func(settings *setup.Settings) {
			settings.Namespace, settings.LeaderElection, settings.LeaderElectionIdentity = system, true, identity
			settings.LeaseDuration, settings.RenewDeadline, settings.RetryPeriod = 10*time.Minute, 5*time.Minute, time.Second
		},
		Ended: func(error) {}, // a killed manager ends with an error
	}).Stop
}
