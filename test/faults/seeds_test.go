package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/transport"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// seed is a bug that a manager could have, and the difference that must be found.
type seed struct {
	name string
	// bug returns the bug for one process, with its own memory. It sits between the manager and the
	// proxy.
	bug func() seededTransport
	// options has the fault at which the bug shows.
	options campaign.Options
	// always means that the bug shows without any fault, perhaps less.
	always bool
	// reason and text are those of a difference that must be found.
	reason campaign.Reason
	text   string
}

// seededTransport handles a request, parsed as asked, in front of next.
type seededTransport func(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error)

// wrap creates the seededTransport of each process for campaign.Options.
func (s seed) wrap(next http.RoundTripper) http.RoundTripper {
	bug := s.bug()
	return transport.Func(func(request *http.Request) (*http.Response, error) { return bug(next, request, proxy.Parse(request)) })
}

// at returns a fault at the nth request of a kind.
func at(fault proxy.Fault, verb, resource string, nth int) campaign.Options {
	resource, subresource, _ := strings.Cut(resource, "/")
	if subresource == "" {
		subresource = "-"
	}
	rule := proxy.Rule{Match: proxy.Match{Verb: verb, Resource: resource, Subresource: subresource, DryRun: new(false)}, Nth: nth,
		Fault: fault}
	if fault == proxy.Delay {
		rule.For = metav1.Duration{Duration: 500 * time.Millisecond}
	}
	return campaign.Options{Plan: proxy.Plan{Rules: []proxy.Rule{rule}}}
}

// seeded are the bugs by the scenario in which they must be found: one scenario for each kind.
var seeded = []struct {
	// name is that of the kind's main scenario, by which `make affected` selects tests.
	name     string
	scenario campaign.Scenario
	seeds    []seed
}{
	{"webapp", webApp(), webAppSeeds},
	{"appconfig-used", usedConfig(), appConfigSeeds},
	{"configmonitor", configMonitor(), configMonitorSeeds},
	{"instrumentation", briefInstrumentation(), instrumentationSeeds},
	{"postgresql", postgreSQL(), postgreSQLSeeds},
	{"cache", cacheOfTwo(), cacheSeeds},
	{"appstack", appStack(), appStackSeeds},
	{"ecommerceplatform", platform(), platformSeeds},
}

// webAppSeeds are bugs in what every kind shares, and in a WebApp's manager. Those in a manager's
// own code rarely show without a fault.
var webAppSeeds = []seed{
	{
		name: "a child gets a name by chance", bug: always(generateName), always: true,
		reason: campaign.Counts, text: "Service shop-",
	},
	{
		name: "a child has no owner reference", bug: always(forgetOwner), always: true,
		reason: campaign.Unsettled, text: "Conflict",
	},
	{
		name: "what was written before is not recognized", bug: always(forgetHash), always: true,
		reason: campaign.Rewritten, text: "patch serviceaccounts shop",
	},
	{
		name: "a conflict is solved by deleting", bug: always(deleteOnConflict), options: at(proxy.Conflict, "patch", "deployments", 3),
		reason: campaign.Counts, text: "Deployment shop was created 2 times",
	},
	{
		name: "what was sent is taken for written", bug: sending, options: at(proxy.InternalError, "patch", "ingresses", 1),
		reason: campaign.Unsettled, text: "Ingress: there is one: false",
	},
	{
		name: "a conflict of the status is taken for success", bug: always(ignoreConflict), options: at(proxy.Conflict, "patch", "webapps/status",
			2),
		reason: campaign.Unsettled, text: "Ready is Deploying",
	},
	{
		name: "the status is written before the children", bug: always(statusFirst("deployments", "apps.mainstay.dev/v1", "webapps", "mainstay/webapp")), options: at(proxy.KillBefore, "patch",
			"horizontalpodautoscalers", 1),
		reason: campaign.Claimed, text: "in step update",
	},
	{
		name: "a lost answer is taken for failure", bug: always(secondName("services", secondService)), options: at(proxy.LoseAnswer, "patch", "services", 1),
		reason: campaign.Counts, text: "Service shop-2 was created 1 times",
	},
	{
		name: "a slow answer is taken for failure", bug: always(impatient), options: at(proxy.Delay, "patch", "services", 1),
		reason: campaign.Counts, text: "Service shop-2 was created 1 times",
	},
	{
		name: "a lost answer is tried again for ever", bug: always(retryForever), options: at(proxy.LoseAnswer, "patch", "services", 1),
		reason: campaign.Unquiet, text: "goes on writing",
	},
	{
		name: "unknown is taken for absent", bug: always(absent), options: at(proxy.InternalError, "get", "webapps", 1),
		reason: campaign.Counts, text: "Deployment shop was created 2 times",
	},
	{
		name: "what is to be deleted is kept in memory", bug: remembering, options: at(proxy.KillBefore, "delete", "ingresses", 1),
		reason: campaign.Unsettled, text: "step update",
	},
	{
		name: "a start leaves its mark", bug: marking(), options: campaign.Options{AwayIn: "update"},
		reason: campaign.EndState, text: "example.com/start",
	},
	{
		name: "a watch that ended is not opened again", bug: deaf, options: at(proxy.Cut, "watch", "deployments", 1),
		reason: campaign.Unsettled, text: "step roll out",
	},
	{
		name: "what has expired is not listed again", bug: deaf, options: at(proxy.Expire, "watch", "deployments", 1),
		reason: campaign.Unsettled, text: "step roll out",
	},
}

// TestSeededBugs checks that the comparison finds each bug by its difference.
func TestSeededBugs(t *testing.T) {
	count := &tally{start: time.Now()}
	t.Cleanup(func() { count.report(t) })
	for _, of := range seeded {
		count.points.Add(int64(len(of.seeds)))
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			base := undisturbed(t, of.scenario)
			for _, seed := range of.seeds {
				t.Run(seed.name, func(t *testing.T) {
					t.Parallel()
					seed.check(t, of.scenario, base, count)
				})
			}
		})
	}
}

// check checks that the bug is found with its fault, and, with -whole, that it does not show
// without: so it is the fault that finds it.
func (s seed) check(t *testing.T, scenario campaign.Scenario, base campaign.Outcome, count *tally) {
	t.Helper()
	count.runs.Add(1)
	differences := s.run(t, scenario, base, s.options)
	if !slices.ContainsFunc(differences, func(found campaign.Difference) bool {
		return found.Reason == s.reason && strings.Contains(found.Text, s.text)
	}) {
		t.Errorf("no difference %q with %q was found, but: %v", s.reason, s.text, differences)
	}
	if !*whole || s.always {
		return
	}
	count.runs.Add(1)
	if differences := s.run(t, scenario, base, campaign.Options{}); len(differences) > 0 {
		t.Errorf("the bug shows without a fault: %v", differences)
	}
}

func (s seed) run(t *testing.T, scenario campaign.Scenario, base campaign.Outcome, options campaign.Options) []campaign.Difference {
	t.Helper()
	options.Wrap, options.GiveUp = s.wrap, true
	outcome, err := cluster.Run(t.Context(), scenario, options)
	if err != nil {
		t.Fatal(err)
	}
	return campaign.Compare(scenario, base, outcome)
}

// secondService is the name that a bug gives to a Service.
const secondService = appName + "-2"

// always returns a bug without memory.
func always(bug seededTransport) func() seededTransport { return func() seededTransport { return bug } }

// isApply reports whether a request is a server-side apply, not a dry run, of objects of a
// resource.
func isApply(asked proxy.Request, resource string) bool {
	return asked.Verb == "patch" && asked.Resource == resource && asked.Subresource == "" && !asked.DryRun
}

func generateName(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	if !isApply(asked, "services") {
		return next.RoundTrip(request)
	}
	return next.RoundTrip(altered(request, http.MethodPost, siblingPath(request, ""), func(object map[string]any) {
		metadata := object["metadata"].(map[string]any)
		delete(metadata, "name")
		delete(metadata, "resourceVersion")
		metadata["generateName"] = appName + "-"
	}))
}

func forgetOwner(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	if !isApply(asked, "services") {
		return next.RoundTrip(request)
	}
	return next.RoundTrip(altered(request, request.Method, request.URL.Path, func(object map[string]any) {
		delete(object["metadata"].(map[string]any), "ownerReferences")
	}))
}

func forgetHash(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil || asked.Resource != "serviceaccounts" {
		return response, err
	}
	response.Body = eachJSON(response.Body, func(text []byte) []byte {
		return bytes.ReplaceAll(text, []byte(`"mainstay.dev/applied":"`), []byte(`"example.com/applied":"`))
	})
	response.ContentLength = -1
	return response, nil
}

func deleteOnConflict(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	recreated := altered(request, request.Method, request.URL.Path, func(object map[string]any) {
		delete(object["metadata"].(map[string]any), "uid")
	})
	response, err := next.RoundTrip(request)
	if err != nil || !isApply(asked, "deployments") || response.StatusCode != http.StatusConflict {
		return response, err
	}
	_ = response.Body.Close()
	if err := discard(next.RoundTrip(bare(request, http.MethodDelete, request.URL.Path))); err != nil {
		return nil, err
	}
	return next.RoundTrip(recreated)
}

// ignoreConflict takes a conflict of a status write for success.
func ignoreConflict(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	if asked.Verb != "patch" || asked.Subresource != "status" {
		return next.RoundTrip(request)
	}
	sent := read(request)
	response, err := next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusConflict {
		return response, err
	}
	_ = response.Body.Close()
	return answer(request, sent), nil
}

// sending sends nothing twice, whatever the answer was.
func sending() seededTransport {
	var sent sync.Map
	return func(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
		if !isApply(asked, asked.Resource) {
			return next.RoundTrip(request)
		}
		request = anyVersion(request)
		content := read(request)
		if _, known := sent.LoadOrStore(request.URL.Path+string(content), true); known {
			return answer(request, content), nil
		}
		return next.RoundTrip(request)
	}
}

// statusFirst writes the status of the owner at path, relative to the namespace, before it applies
// an object of a resource.
func statusFirst(resource, group, owner, manager string) seededTransport {
	return func(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
		if !isApply(asked, resource) {
			return next.RoundTrip(request)
		}
		path := "/apis/" + group + "/namespaces/" + asked.Namespace + "/" + owner + "/" + appName
		response, err := next.RoundTrip(bare(request, http.MethodGet, path))
		if err != nil {
			return nil, err
		}
		var stored struct {
			Metadata struct{ Generation int64 }
			Status   struct{ ObservedGeneration int64 }
		}
		err = json.NewDecoder(response.Body).Decode(&stored)
		_ = response.Body.Close()
		if err != nil {
			return nil, err
		}
		if stored.Status.ObservedGeneration != 0 && stored.Status.ObservedGeneration != stored.Metadata.Generation {
			status := fmt.Sprintf(`{"status": {"observedGeneration": %d}}`, stored.Metadata.Generation)
			if err := discard(next.RoundTrip(merging(request, path+"/status", manager, status))); err != nil {
				return nil, err
			}
		}
		return next.RoundTrip(request)
	}
}

// secondName applies an object of a resource under another name if the first answer is lost.
func secondName(resource, name string) seededTransport {
	return func(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
		if !isApply(asked, resource) {
			return next.RoundTrip(request)
		}
		second := renamed(request, name)
		response, err := next.RoundTrip(request)
		if err == nil {
			return response, nil
		}
		return next.RoundTrip(second)
	}
}

func impatient(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	if !isApply(asked, "services") {
		return next.RoundTrip(request)
	}
	second := renamed(request, secondService)
	timer := time.AfterFunc(300*time.Millisecond, func() { _ = discard(next.RoundTrip(second)) })
	defer timer.Stop()
	return next.RoundTrip(request)
}

func retryForever(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	if !isApply(asked, "services") {
		return next.RoundTrip(request)
	}
	request = anyVersion(request)
	sent := read(request)
	response, err := next.RoundTrip(request)
	if err != nil {
		ctx := context.WithoutCancel(request.Context())
		go func() {
			// Until the proxy is closed.
			for failed := 0; failed < 3; time.Sleep(50 * time.Millisecond) {
				repeated := request.Clone(ctx)
				fill(repeated, sent)
				if discard(next.RoundTrip(repeated)) != nil {
					failed++
				}
			}
		}()
	}
	return response, err
}

// absent takes an owner that cannot be read for one that does not exist, and starts over.
func absent(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil || asked.Verb != "get" || asked.Resource != "webapps" ||
		response.StatusCode != http.StatusInternalServerError {
		return response, err
	}
	deployment := "/apis/apps/v1/namespaces/" + asked.Namespace + "/deployments/" + asked.Name
	if err := discard(next.RoundTrip(bare(request, http.MethodDelete, deployment))); err != nil {
		return nil, err
	}
	return response, nil
}

// remembering deletes only what the same process has created.
func remembering() seededTransport {
	var made sync.Map
	return func(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
		switch {
		case asked.Verb == "patch" && !asked.DryRun:
			made.Store(request.URL.Path, true)
		case asked.Verb == "delete":
			if _, known := made.Load(request.URL.Path); !known {
				return answer(request, []byte(`{"kind": "Status", "apiVersion": "v1", "status": "Success"}`)), nil
			}
		}
		return next.RoundTrip(request)
	}
}

// marking writes the number of the manager's start into the Deployment, except for the first start.
func marking() func() seededTransport {
	var mutex sync.Mutex
	starts := map[string]int{} // by namespace
	return func() seededTransport {
		return func(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
			if asked.Verb == "watch" && asked.Resource == "deployments" {
				mutex.Lock()
				starts[asked.Namespace]++
				start := starts[asked.Namespace]
				mutex.Unlock()
				if start > 1 {
					mark := merging(request, "/apis/apps/v1/namespaces/"+asked.Namespace+"/deployments/"+appName, "",
						fmt.Sprintf(`{"metadata": {"annotations": {"example.com/start": "%d"}}}`, start))
					if err := discard(next.RoundTrip(mark)); err != nil {
						return nil, err
					}
				}
			}
			return next.RoundTrip(request)
		}
	}
}

// deaf receives no event of Deployments once their first watch has ended, as if it still watched.
func deaf() seededTransport {
	ended := make(chan struct{})
	return func(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
		if asked.Resource != "deployments" || asked.Verb != "watch" {
			return next.RoundTrip(request)
		}
		select {
		case <-ended:
		default:
			response, err := next.RoundTrip(request)
			if err == nil {
				response.Body = &noticed{ReadCloser: response.Body, end: sync.OnceFunc(func() { close(ended) })}
			}
			return response, err
		}
		silent, writer := io.Pipe()
		context.AfterFunc(request.Context(), func() { _ = writer.Close() })
		response := answer(request, nil)
		response.Body, response.ContentLength = silent, -1
		return response, nil
	}
}

// noticed reports when a body has ended or is closed.
type noticed struct {
	io.ReadCloser
	end func()
}

func (n *noticed) Read(into []byte) (int, error) {
	count, err := n.ReadCloser.Read(into)
	if err != nil {
		n.end()
	}
	return count, err
}

func (n *noticed) Close() error {
	n.end()
	return n.ReadCloser.Close()
}
