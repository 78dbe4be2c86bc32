package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kit/transport"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

const (
	// outage is long enough for client-go's reflectors to reach backoffs of 0.8 s, 1.6 s, 3.2 s and
	// 6.4 s, each up to doubled. internal/kit/transport/retrytransport tests that ours wait at most
	// two seconds.
	outage = 15 * time.Second
	// bystanders is the number of WebApps that do not change.
	bystanders = 30
)

// TestAnAPIServerOutage checks that changes made during an outage of the API server are
// reconciled after it, and that nothing is written or read individually for unchanged objects.
func TestAnAPIServerOutage(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	server := ownServer(t)
	direct := clientOf(t, server.Config)
	g.Expect(crds.Install(t.Context(), definitionsOf(t, server.Config))).To(gomega.Succeed())
	way, err := proxy.New(server.Config, proxy.Plan{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(way.Close)
	var away away
	connected := way.Connect()
	connected.Wrap(away.wrap)
	testenv.StartManager(t, connected, testenv.ManagerOptions{})

	g.Expect(direct.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shops"}})).To(gomega.Succeed())
	for i := range bystanders {
		app := newApp("shops")
		app.Name = fmt.Sprintf("shop-%d", i)
		g.Expect(direct.Create(t.Context(), app)).To(gomega.Succeed())
	}
	app := newApp("shops")
	g.Expect(direct.Create(t.Context(), app)).To(gomega.Succeed())
	observed := func(ctx context.Context) (int, error) {
		var apps msappsv1.WebAppList
		err := direct.List(ctx, &apps)
		count := 0
		for _, seen := range apps.Items {
			if seen.Status.ObservedGeneration == seen.Generation {
				count++
			}
		}
		return count, err
	}
	g.Eventually(observed).WithContext(t.Context()).Should(gomega.Equal(bystanders + 1))

	g.Eventually(quiet(way)).Should(gomega.BeTrue())

	away.Store(true)
	way.Pause() // closes open connections
	ends := time.After(outage)
	g.Expect(direct.Patch(t.Context(), app, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"image":"mainstay/demo-web:2.0"}}`)))).To(gomega.Succeed())
	g.Expect(direct.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "shop"}})).To(gomega.Succeed())
	<-ends
	asked := len(way.Exchanges())
	way.Resume()
	away.Store(false)
	returned := time.Now()
	g.Eventually(func() (string, error) {
		var deployment appsv1.Deployment
		err := direct.Get(t.Context(), client.ObjectKeyFromObject(app), &deployment)
		return deployment.Spec.Template.Spec.Containers[0].Image, err
	}).Should(gomega.Equal("mainstay/demo-web:2.0"))
	g.Eventually(func() error { return direct.Get(t.Context(), client.ObjectKeyFromObject(app), &corev1.Service{}) }).Should(gomega.Succeed())
	t.Logf("all changes are reconciled %s after the end of the outage", time.Since(returned).Round(time.Millisecond))
	g.Eventually(observed).WithContext(t.Context()).Should(gomega.Equal(bystanders + 1))
	g.Eventually(quiet(way)).Should(gomega.BeTrue())
	expectOnlyOne(g, way.Exchanges()[asked:])
}

// quiet returns a function that reports whether there was no request for two seconds. Then no
// request is under way that an outage could delay.
func quiet(way *proxy.Proxy) func() bool {
	asked, since := 0, time.Now()
	return func() bool {
		if now := len(way.Exchanges()); now != asked {
			asked, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second
	}
}

// expectOnlyOne fails if there was a request about one of the bystanders.
func expectOnlyOne(g *gomega.WithT, exchanges []proxy.Exchange) {
	for _, exchange := range exchanges {
		if exchange.Namespace == "shops" && exchange.Resource != "events" {
			g.Expect(exchange.Name).To(gomega.Equal("shop"), exchange.String())
		}
	}
}

// away reports whether connections to the API server are refused.
type away struct{ atomic.Bool }

func (a *away) wrap(next http.RoundTripper) http.RoundTripper {
	return transport.Func(func(request *http.Request) (*http.Response, error) {
		if a.Load() {
			// Unlike a closed connection, client-go's client does not retry this.
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return next.RoundTrip(request)
	})
}
