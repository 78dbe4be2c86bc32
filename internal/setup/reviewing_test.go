package setup

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// discovered is what an API server says about itself.
var discovered = map[string]string{
	"/version": `{"major":"1","minor":"37"}`,
	"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis":    `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
	"/api/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1",` +
		`"resources":[{"name":"namespaces","kind":"Namespace"},{"name":"services","kind":"Service","namespaced":true}]}`,
}

// namespaceReads counts the requests for namespaces, by their names.
type namespaceReads struct {
	mutex  sync.Mutex
	counts map[string]int
}

func (r *namespaceReads) count(namespace string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.counts[namespace]++
}

// all returns the counts until now.
func (r *namespaceReads) all() (counts map[string]int, sum int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, count := range r.counts {
		sum += count
	}
	return maps.Clone(r.counts), sum
}

// emptyCluster is an API server with no namespaces, which counts the requests for them.
func emptyCluster(t *testing.T, asked *namespaceReads) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		response.Header().Set("Content-Type", "application/json")
		if answer := discovered[request.URL.Path]; answer != "" {
			_, _ = io.WriteString(response, answer)
			return
		}
		if name, is := strings.CutPrefix(request.URL.Path, "/api/v1/namespaces/"); is {
			asked.count(name)
		}
		response.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(response, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// reviewedManager is a manager whose own requests no webhook may use.
type reviewedManager struct {
	someManager
	t *testing.T
}

func (m reviewedManager) GetAPIReader() client.Reader { return unused{m.t} }
func (reviewedManager) GetHTTPClient() *http.Client   { return http.DefaultClient }

type unused struct{ t *testing.T }

func (u unused) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	u.t.Errorf("a webhook reads %T %s with the manager's requests", object, key)
	return fmt.Errorf("not for webhooks")
}

func (u unused) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	u.t.Errorf("a webhook lists %T with the manager's requests", list)
	return fmt.Errorf("not for webhooks")
}

var _ ctrl.Manager = reviewedManager{}

// TestReviewsShareABudget: reviews about made-up namespaces, of whatever webhook, use up one budget
// and none of the manager's requests. Each webhook is either seen to read them, or known not to.
// Each is asked about a namespace of its own, because a request may arrive after its review ended.
func TestReviewsShareABudget(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	asked := &namespaceReads{counts: map[string]int{}}
	manager := reviewedManager{someManager{scheme: scheme, client: fake.NewClientBuilder().WithScheme(scheme).Build()}, t}
	settings := DefaultSettings()
	on, err := enabledKinds(settings.Kinds)
	if err != nil {
		t.Fatal(err)
	}
	wired, err := wire(manager, emptyCluster(t, asked), settings, on, nil)
	if err != nil {
		t.Fatal(err)
	}
	start, answers := time.Now(), map[string]string{}
	for range 20 {
		for _, hook := range wired.hooks() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/20)
			request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(review(hook.Path)))
			request.Header.Set("Content-Type", "application/json")
			response := httptest.NewRecorder()
			hook.Handler.ServeHTTP(response, request)
			answers[hook.Path] = response.Body.String()
			cancel()
		}
	}
	counts, sum := asked.all()
	if most := reviewsAtOnce + int(reviewsPerSecond*time.Since(start).Seconds()) + 1; sum > most {
		t.Errorf("%d namespaces were read, with a budget of %d", sum, most)
	}
	for path, answer := range answers {
		count, isAdmitted := counts[madeUp(path)], strings.Contains(answer, `"allowed":true`)
		switch reads := !slices.Contains(readNoNamespace, path); {
		case reads && count == 0:
			t.Errorf("%s read no namespace, the test proves nothing about it: %s", path, answer)
		case !reads && (count > 0 || !isAdmitted):
			t.Errorf("%s read %d namespaces: %s", path, count, answer)
		}
	}
	for _, path := range readNoNamespace {
		if _, is := answers[path]; !is {
			t.Errorf("there is no webhook %s", path)
		}
	}
}

// readNoNamespace are the webhooks for which it does not matter in which namespace an object is.
var readNoNamespace = []string{
	"/validate/platformpolicies.policy.mainstay.dev", "/validate/configmonitors.config.mainstay.dev",
	"/validate/instrumentations.instrumentation.mainstay.dev", "/validate/clusterinstrumentations.instrumentation.mainstay.dev",
	"/mutate/workloads.config.mainstay.dev",
}

// reviewed are the specs of valid objects, by their kinds' names in the paths of webhooks.
var reviewed = map[string]string{
	"webapps":     `{"image":"shop:1","replicas":1}`,
	"postgresqls": `{"version":"17","storage":"1Gi"}`,
	"caches":      `{"version":"9","memory":"64Mi"}`,
	"appconfigs":  `{"application":"shop","config":{"A":"b"}}`,
	"appstacks":   `{"components":[{"name":"web","type":"webApp","spec":{"image":"shop:1"}}]}`,
	"ecommerceplatforms": `{"environment":"staging","frontend":{"image":"shop:1"},"backend":{"image":"shop:1"},` +
		`"database":{"type":"postgresql"},"cache":{"enabled":false}}`,
	"configmonitors":          `{"configMap":"flags","podSelector":{"app":"web"}}`,
	"platformpolicies":        `{"rules":[{"environment":"*","maxReplicas":3}]}`,
	"instrumentations":        `{"matchers":[{"deployment":"java"}],"agent":{"image":"agent:1","language":"java"}}`,
	"clusterinstrumentations": `{"namespaceSelector":{"matchLabels":{"a":"b"}},"matchers":[{"deployment":"java"}],"agent":{"image":"agent:1","language":"java"}}`,
	"workloads":               `{"template":{"spec":{"containers":[{"name":"app"}]}}}`,
}

// madeUp is the namespace that the webhook at a path is asked about. There is none of this name.
func madeUp(path string) string {
	return strings.NewReplacer("/", "-", ".", "-").Replace("made-up" + path)
}

// review returns the body of a review for the webhook at a path, about an object in a made-up
// namespace: a new one, or one that is scaled.
func review(path string) string {
	_, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	name, isScale := strings.CutPrefix(name, "scale.")
	name, _, _ = strings.Cut(name, ".")
	object := func(spec string) string {
		return `{"metadata":{"namespace":"` + madeUp(path) + `","name":"shop"},"spec":` + spec + `}`
	}
	operation, spec, old := "CREATE", reviewed[name], "null"
	if isScale {
		operation, spec, old = "UPDATE", `{"replicas":2}`, object(`{"replicas":1}`)
	}
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","namespace":"` + madeUp(path) + `","name":"shop",` +
		`"kind":{"group":"apps","version":"v1","kind":"Deployment"},"resource":{"group":"apps","version":"v1","resource":"deployments"},` +
		`"operation":"` + operation + `","options":{},"object":` + object(spec) + `,"oldObject":` + old + `}}`
}
