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
	// always means that the bug shows without any fault.
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

// seeds are the bugs. Those in a manager's own code rarely show without a fault.
var seeds = []seed{
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
		name: "the status is written before the children", bug: always(statusFirst), options: at(proxy.KillBefore, "patch",
			"horizontalpodautoscalers", 1),
		reason: campaign.Claimed, text: "in step update",
	},
	{
		name: "a lost answer is taken for failure", bug: always(secondName), options: at(proxy.LoseAnswer, "patch", "services", 1),
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
		name: "unknown is taken for absent", bug: always(absent), options: at(proxy.InternalError, "get", "horizontalpodautoscalers", 1),
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
	scenario := webApp()
	base := undisturbed(t, scenario)
	count := &tally{start: time.Now()}
	t.Run("seeds", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(seed.name, func(t *testing.T) {
				t.Parallel()
				differences := seed.run(t, scenario, base, seed.options)
				count.runs.Add(1)
				if !slices.ContainsFunc(differences, func(found campaign.Difference) bool {
					return found.Reason == seed.reason && strings.Contains(found.Text, seed.text)
				}) {
					t.Errorf("no difference %q with %q was found, but: %v", seed.reason, seed.text, differences)
				}
				if *whole && !seed.always {
					// Without the fault the bug must not show: so it is the fault that finds it.
					count.runs.Add(1)
					if differences := seed.run(t, scenario, base, campaign.Options{}); len(differences) > 0 {
						t.Errorf("the bug shows without a fault: %v", differences)
					}
				}
			})
		}
	})
	count.points.Store(int64(len(seeds)))
	count.report(t)
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
		content := read(request)
		if _, known := sent.LoadOrStore(request.URL.Path+string(content), true); known {
			return answer(request, content), nil
		}
		return next.RoundTrip(request)
	}
}

func statusFirst(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	if isApply(asked, "deployments") {
		app := "/apis/apps.mainstay.dev/v1/namespaces/" + asked.Namespace + "/webapps/" + asked.Name
		response, err := next.RoundTrip(bare(request, http.MethodGet, app))
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
			early := bare(request, http.MethodPatch, app+"/status")
			early.URL.RawQuery = "fieldManager=mainstay/webapp"
			early.Header.Set("Content-Type", "application/merge-patch+json")
			fill(early, []byte(fmt.Sprintf(`{"status": {"observedGeneration": %d}}`, stored.Metadata.Generation)))
			if err := discard(next.RoundTrip(early)); err != nil {
				return nil, err
			}
		}
	}
	return next.RoundTrip(request)
}

func secondName(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	if !isApply(asked, "services") {
		return next.RoundTrip(request)
	}
	second := renamed(request)
	response, err := next.RoundTrip(request)
	if err == nil {
		return response, nil
	}
	return next.RoundTrip(second)
}

func impatient(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	if !isApply(asked, "services") {
		return next.RoundTrip(request)
	}
	second := renamed(request)
	timer := time.AfterFunc(300*time.Millisecond, func() { _ = discard(next.RoundTrip(second)) })
	defer timer.Stop()
	return next.RoundTrip(request)
}

func retryForever(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	if !isApply(asked, "services") {
		return next.RoundTrip(request)
	}
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

// absent takes a child that cannot be read for one that does not exist, and starts over.
func absent(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil || asked.Verb != "get" || asked.Resource != "horizontalpodautoscalers" ||
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
					mark := bare(request, http.MethodPatch, "/apis/apps/v1/namespaces/"+asked.Namespace+"/deployments/"+appName)
					mark.Header.Set("Content-Type", "application/merge-patch+json")
					fill(mark, []byte(fmt.Sprintf(`{"metadata": {"annotations": {"example.com/start": "%d"}}}`, start)))
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
