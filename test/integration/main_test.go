// Package integration tests the controllers against a real etcd and kube-apiserver. There is no
// kubelet and no controller-manager: what those would do, the tests do.
package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mainstay-platform/mainstay/internal/definitions"
	"github.com/mainstay-platform/mainstay/internal/kit/roundtrip"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testlog"
)

// Waits of the tests. Nothing here takes longer than some tenths of a second when it works.
const (
	within = time.Minute
	poll   = 50 * time.Millisecond
)

// cluster is the API server that all tests share; each has a namespace of its own.
var cluster struct {
	config *rest.Config
	client client.Client
}

func TestMain(m *testing.M) {
	flag.Parse()
	testlog.Set()
	if flag.Lookup("test.list").Value.String() != "" {
		os.Exit(m.Run()) // which takes no API server
	}
	gomega.SetDefaultEventuallyTimeout(within)
	gomega.SetDefaultEventuallyPollingInterval(poll)
	gomega.EnforceDefaultTimeoutsWhenUsingContexts()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run `make test-integration`, which builds etcd and kube-apiserver and sets it")
		return 1
	}
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "charts", "mainstay", "crds")},
		ErrorIfCRDPathMissing: true,
	}
	environment.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	config, err := environment.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		}
	}()
	config.QPS, config.Burst = -1, -1
	scheme, err := setup.Scheme()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cluster.config = config
	if cluster.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		fmt.Fprintln(os.Stderr, "connecting to the API server:", err)
		return 1
	}
	return m.Run()
}

// ownServer is an API server for one test alone, without definitions: for what concerns the whole
// cluster, as webhooks and definitions do.
func ownServer(t *testing.T) *envtest.Environment {
	t.Helper()
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	config.QPS, config.Burst = -1, -1
	return environment
}

// clientOf knows all our kinds.
func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme, err := setup.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// definitionsOf is a client for definitions.
func definitionsOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	made, err := definitions.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// calls records what a manager asks of the API server, and lets some of it fail.
type calls struct {
	mutex sync.Mutex
	made  []string
	// watched are the paths of watches, which are not among those made.
	watched []string
	// broken is part of a call, "PATCH /apis/apps/", that gets no answer; empty breaks none.
	broken string
	// forbidden is part of the path of calls, watches too, for which there is no right; empty for none.
	forbidden string
	// writes is how many more writes to a namespace pass before none does; negative means all.
	writes    int
	namespace string
	// underway are writes to it that have no answer yet.
	underway int
	// before is called before each call; nil for nothing.
	before func(*http.Request)
}

// breakCalls makes calls fail from now on, as if the network had; empty mends it.
func (c *calls) breakCalls(broken string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.broken = broken
}

// isWrite tells what changes something: not a dry run.
func isWrite(request *http.Request) bool {
	return request.Method != http.MethodGet && request.URL.Query().Get("dryRun") == ""
}

// isSpent tells whether the allowed writes have been made, and answered.
func (c *calls) isSpent() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.writes == 0 && c.underway == 0
}

// answered ends a write that is underway.
func (c *calls) answered() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.underway--
}

// forbid takes a right away, by part of a path; empty gives it back.
func (c *calls) forbid(path string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.forbidden = path
}

func (c *calls) isForbidden(request *http.Request) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.forbidden != "" && strings.Contains(request.URL.Path, c.forbidden)
}

// refusal is what the API server answers where there is no right.
func refusal(request *http.Request) *http.Response {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"forbidden","reason":"Forbidden","code":403}`
	return &http.Response{
		Status: "403 Forbidden", StatusCode: http.StatusForbidden, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// wrap counts calls on their way to next.
func (c *calls) wrap(next http.RoundTripper) http.RoundTripper {
	return roundtrip.Func(func(request *http.Request) (*http.Response, error) {
		if c.before != nil {
			c.before(request)
		}
		if c.isForbidden(request) {
			return refusal(request), nil
		}
		if request.URL.Query().Get("watch") == "true" {
			c.mutex.Lock()
			c.watched = append(c.watched, request.URL.Path)
			c.mutex.Unlock()
		} else if !strings.Contains(request.URL.Path, "/events") {
			c.mutex.Lock()
			call := request.Method + " " + request.URL.Path
			c.made = append(c.made, call)
			broken := c.broken != "" && strings.Contains(call, c.broken)
			if c.writes >= 0 && isWrite(request) && strings.Contains(call, "/"+c.namespace+"/") {
				broken = broken || c.writes == 0
				c.writes = max(0, c.writes-1)
				c.underway++
				defer c.answered()
			}
			c.mutex.Unlock()
			if broken {
				return nil, errors.New("the network is broken")
			}
		}
		return next.RoundTrip(request)
	})
}

// since returns the calls after the first n, without those that mention none of the words.
func (c *calls) since(n int, words ...string) []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var made []string
	for _, call := range c.made[n:] {
		if len(words) == 0 || slices.ContainsFunc(words, func(word string) bool { return strings.Contains(call, word) }) {
			made = append(made, call)
		}
	}
	return made
}

func (c *calls) count() int { return len(c.since(0)) }

// settled waits until no call has been made for a second, and returns how many there were: on a busy machine a cache may
// lag behind a write by so much that its reconcile begins anew.
func (c *calls) settled(t *testing.T) int {
	t.Helper()
	count, since := c.count(), time.Now()
	gomega.NewWithT(t).Eventually(func() time.Duration {
		if now := c.count(); now != count {
			count, since = now, time.Now()
		}
		return time.Since(since)
	}).Should(gomega.BeNumerically(">=", time.Second))
	return count
}

// running is a manager under test.
type running struct {
	calls *calls
	stop  func()
}

// startManager runs the whole manager, as in production but for leader election, until
// the test ends or stop is called.
func startManager(t *testing.T) *running {
	t.Helper()
	return startManagerWith(t, &calls{writes: -1}, nil)
}

// startManagerFor is startManager, but only so many writes to a namespace get through.
func startManagerFor(t *testing.T, namespace string, writes int) *running {
	t.Helper()
	return startManagerWith(t, &calls{writes: writes, namespace: namespace}, nil)
}

// startManagerWith is startManager with other settings; nil for the usual ones.
func startManagerWith(t *testing.T, recorded *calls, change func(*setup.Settings)) *running {
	t.Helper()
	config := rest.CopyConfig(cluster.config)
	config.Wrap(recorded.wrap)
	settings := setup.DefaultSettings()
	settings.LeaderElection = false
	settings.HealthAddress = "0"
	settings.SkipNameValidation = true
	if change != nil {
		change(&settings)
	}
	ctx, cancel := context.WithCancel(t.Context())
	manager, err := setup.New(ctx, config, settings)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	stopOnce := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	})
	t.Cleanup(stopOnce)
	if !manager.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the caches did not fill")
	}
	return &running{calls: recorded, stop: stopOnce}
}

// namespace makes a namespace for one test. There is no garbage collector, so what is in it
// stays: names never collide.
func namespace(t *testing.T) string {
	t.Helper()
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := cluster.client.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	return created.Name
}
