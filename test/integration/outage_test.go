package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/definitions"
	"github.com/mainstay-platform/mainstay/internal/kit/roundtrip"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

const (
	// outage is long enough for client-go's reflectors to come to pauses of more than longestPause: 0.8 s, 1.6 s,
	// 3.2 s, 6.4 s, each up to doubled.
	outage = 15 * time.Second
	// longestPause is more than the cache may let pass between two tries: two seconds.
	longestPause = 3500 * time.Millisecond
	// back is how soon after the API server's return all must be right again.
	back = 5 * time.Second
	// bystanders are WebApps that nothing happens to.
	bystanders = 30
)

// TestAnAPIServerThatWasAway: what was changed meanwhile is followed within seconds of its return, and nothing
// is written, nor read one by one, for what was not.
func TestAnAPIServerThatWasAway(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(30 * time.Second)
	server := ownServer(t)
	direct := clientOf(t, server.Config)
	g.Expect(definitions.Install(t.Context(), definitionsOf(t, server.Config))).To(gomega.Succeed())
	way, err := proxy.New(server.Config, proxy.Plan{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(way.Close)
	var tries tries
	runBehind(t, way, tries.wrap)

	g.Expect(direct.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shops"}})).To(gomega.Succeed())
	for i := range bystanders {
		app := newApp("shops")
		app.Name = fmt.Sprintf("shop-%d", i)
		g.Expect(direct.Create(t.Context(), app)).To(gomega.Succeed())
	}
	app := newApp("shops")
	g.Expect(direct.Create(t.Context(), app)).To(gomega.Succeed())
	observed := func(ctx context.Context) (int, error) {
		var apps appsv1.WebAppList
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

	tries.away.Store(true)
	way.Pause() // cuts what is open
	began := time.Now()
	ends := time.After(outage)
	g.Expect(direct.Patch(t.Context(), app, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"image":"mainstay/demo-web:2.0"}}`)))).To(gomega.Succeed())
	g.Expect(direct.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "shop"}})).To(gomega.Succeed())
	<-ends
	g.Expect(tries.longestPause(began, time.Now())).To(gomega.BeNumerically("<", longestPause), "the API server is asked steadily")
	asked := len(way.Exchanges())
	way.Resume()
	tries.away.Store(false)
	g.Eventually(func() (string, error) {
		var deployment k8sappsv1.Deployment
		err := direct.Get(t.Context(), client.ObjectKeyFromObject(app), &deployment)
		return deployment.Spec.Template.Spec.Containers[0].Image, err
	}, back).Should(gomega.Equal("mainstay/demo-web:2.0"))
	g.Eventually(func() error { return direct.Get(t.Context(), client.ObjectKeyFromObject(app), &corev1.Service{}) }, back).Should(gomega.Succeed())
	g.Eventually(observed).WithContext(t.Context()).Should(gomega.Equal(bystanders + 1))
	g.Eventually(quiet(way)).Should(gomega.BeTrue())
	expectOnlyOne(g, way.Exchanges()[asked:])
}

// quiet tells when nothing has been asked for two seconds: nothing is underway then that an outage could delay.
func quiet(way *proxy.Proxy) func() bool {
	asked, since := 0, time.Now()
	return func() bool {
		if now := len(way.Exchanges()); now != asked {
			asked, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second
	}
}

// expectOnlyOne fails if anything was asked about one of the bystanders.
func expectOnlyOne(g *gomega.WithT, exchanges []proxy.Exchange) {
	for _, exchange := range exchanges {
		if exchange.Namespace == "shops" && exchange.Resource != "events" {
			g.Expect(exchange.Name).To(gomega.Equal("shop"), exchange.String())
		}
	}
}

// tries are the times at which the cache asked for Deployments, and whether anybody listens.
type tries struct {
	mutex sync.Mutex
	at    []time.Time
	away  atomic.Bool
}

func (t *tries) wrap(next http.RoundTripper) http.RoundTripper {
	return roundtrip.Func(func(request *http.Request) (*http.Response, error) {
		if request.URL.Path == "/apis/apps/v1/deployments" {
			t.mutex.Lock()
			t.at = append(t.at, time.Now())
			t.mutex.Unlock()
		}
		if t.away.Load() {
			// Unlike a connection that is closed, this is not repeated by client-go's own client.
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return next.RoundTrip(request)
	})
}

// longestPause between two tries, from one time to another.
func (t *tries) longestPause(from, to time.Time) time.Duration {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var longest time.Duration
	for _, at := range append(slices.Clone(t.at), to) {
		if at.After(from) {
			longest = max(longest, at.Sub(from))
			from = at
		}
	}
	return longest
}

// runBehind runs the manager behind a proxy, until the test ends.
func runBehind(t *testing.T, way *proxy.Proxy, wrap transport.WrapperFunc) {
	t.Helper()
	settings := setup.DefaultSettings()
	settings.LeaderElection = false
	settings.HealthAddress = "0"
	settings.SkipNameValidation = true
	ctx, cancel := context.WithCancel(t.Context())
	config := way.Connect()
	config.Wrap(wrap)
	operator, err := setup.New(ctx, config, settings)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- operator.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	})
}
