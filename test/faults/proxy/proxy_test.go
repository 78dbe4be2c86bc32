package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// limit is how long a test waits for something.
const limit = 10 * time.Second

// server is a minimal API server: it answers with an object, and sends events to watches.
type server struct {
	*httptest.Server
	mutex sync.Mutex
	// got are the requests that arrived.
	got []string
	// events are sent to open watches.
	events chan string
	// blocked, if set, delays the answers of writes until it is closed.
	blocked chan struct{}
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{events: make(chan string)}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(writer http.ResponseWriter, request *http.Request) {
	s.mutex.Lock()
	s.got = append(s.got, request.Method+" "+request.URL.Path)
	blocked := s.blocked
	s.mutex.Unlock()
	writer.Header().Set("Content-Type", "application/json")
	if request.URL.Query().Get("watch") != "true" {
		if blocked != nil && request.Method != http.MethodGet {
			<-blocked
		}
		_ = json.NewEncoder(writer).Encode(object("web"))
		return
	}
	if accepted := request.Header.Get("Accept") + request.Header.Get("Accept-Encoding"); strings.Contains(accepted, "protobuf") ||
		strings.Contains(accepted, "gzip") {
		writer.WriteHeader(http.StatusNotAcceptable) // the proxy could not decode it
		return
	}
	writer.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(writer).Flush()
	for {
		select {
		case event := <-s.events:
			_, _ = fmt.Fprint(writer, event) // nothing between events, as the API server does
			_ = http.NewResponseController(writer).Flush()
		case <-request.Context().Done():
			return
		}
	}
}

func (s *server) arrived() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.got)
}

func object(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": name},
	}}
}

func (s *server) send(t *testing.T, kind watch.EventType, name string) {
	t.Helper()
	event, err := json.Marshal(map[string]any{"type": kind, "object": object(name).Object})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case s.events <- string(event):
	case <-time.After(limit):
		t.Fatal("nobody watches")
	}
}

// start returns a proxy in front of a server.
func start(t *testing.T, plan Plan) (*Proxy, *server) {
	t.Helper()
	s := newServer(t)
	p, err := New(&rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, s
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func connect(t *testing.T, p *Proxy) dynamic.ResourceInterface {
	t.Helper()
	made, err := dynamic.NewForConfig(p.Connect())
	if err != nil {
		t.Fatal(err)
	}
	return made.Resource(configMaps).Namespace("shop")
}

func patch(ctx context.Context, to dynamic.ResourceInterface) error {
	_, err := to.Patch(ctx, "web", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	return err
}

func TestFaultsOfOneWrite(t *testing.T) {
	isNetwork := func(err error) bool {
		return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && strings.Contains(err.Error(), "EOF")
	}
	for name, test := range map[string]struct {
		rule    Rule
		is      func(error) bool
		arrives int
	}{
		"drop":        {Rule{Fault: Drop}, isNetwork, 0},
		"lose answer": {Rule{Fault: LoseAnswer}, isNetwork, 1},
		"conflict":    {Rule{Fault: Conflict}, apierrors.IsConflict, 0},
		"internal":    {Rule{Fault: InternalError}, apierrors.IsInternalError, 0},
		"delay": {Rule{Fault: Delay, For: metav1.Duration{Duration: 30 * time.Millisecond}}, func(err error) bool { return err == nil },
			1},
		"no other verb": {Rule{Fault: Drop, Match: Match{Verb: "get"}}, func(err error) bool { return err == nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := start(t, Plan{Rules: []Rule{test.rule}})
			to := connect(t, p)
			began := time.Now()
			if err := patch(t.Context(), to); !test.is(err) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took < test.rule.For.Duration {
				t.Errorf("took %s", took)
			}
			if got := s.arrived(); len(got) != test.arrives {
				t.Errorf("arrived: %q", got)
			}
			exchanges := p.Exchanges()
			if len(exchanges) != 1 || exchanges[0].Arrived != (test.arrives == 1) || exchanges[0].String() != "patch configmaps shop/web" {
				t.Errorf("recorded %+v", exchanges)
			}
			// The next request is not hit.
			if err := patch(t.Context(), to); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTooManyRequestsSaysWhenToComeBack(t *testing.T) {
	p, s := start(t, Plan{Rules: []Rule{{Fault: TooManyRequests, RetryAfterSeconds: 7}}})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, p.Connect().Host+"/api/v1/namespaces/shop/configmaps/web",
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var status metav1.Status
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "7" ||
		status.Reason != metav1.StatusReasonTooManyRequests || status.Kind != "Status" {
		t.Errorf("got %d, %q, %+v", response.StatusCode, response.Header.Get("Retry-After"), status)
	}
	if got := s.arrived(); len(got) != 0 {
		t.Errorf("arrived: %q", got)
	}
}

func TestAListCanHaveExpired(t *testing.T) {
	p, _ := start(t, Plan{Rules: []Rule{{Match: Match{Verb: "list"}, Fault: Expire}}})
	if _, err := connect(t, p).List(t.Context(), metav1.ListOptions{}); !apierrors.IsResourceExpired(err) {
		t.Errorf("got %v", err)
	}
}

func TestTheRecordTellsWhichRuleFiredWhere(t *testing.T) {
	p, _ := start(t, Plan{Rules: []Rule{{Name: "second", Match: Match{Verb: "patch"}, Nth: 2, Fault: Conflict}}})
	to := connect(t, p)
	for range 3 {
		_ = patch(t.Context(), to)
	}
	fired := p.Fired()
	if len(fired) != 1 || fired[0].String() != `rule 0 "second": conflict at request 2 that it matches: patch configmaps shop/web` {
		t.Errorf("got %v", fired)
	}
	var codes []int
	for _, exchange := range p.Exchanges() {
		codes = append(codes, exchange.Code)
	}
	if diff := cmp.Diff([]int{200, 0, 200}, codes); diff != "" {
		t.Error(diff)
	}
}

func TestAKilledClientReachesNothingAnyMore(t *testing.T) {
	for fault, arrives := range map[Fault]int{KillBefore: 0, KillAfter: 1} {
		t.Run(string(fault), func(t *testing.T) {
			p, s := start(t, Plan{Rules: []Rule{{Match: Match{Verb: "write"}, Fault: fault}}})
			killed := connect(t, p)
			watching, err := killed.Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := patch(t.Context(), killed); err == nil {
				t.Error("the killed client got an answer")
			}
			receive(t, p.Deaths())
			end(t, watching)
			if err := patch(t.Context(), killed); err == nil {
				t.Error("the killed client got an answer")
			}
			writes := slices.DeleteFunc(s.arrived(), func(call string) bool { return strings.HasPrefix(call, "GET") })
			if len(writes) != arrives {
				t.Errorf("arrived: %q", writes)
			}
			if err := patch(t.Context(), connect(t, p)); err != nil {
				t.Errorf("the next client: %v", err)
			}
		})
	}
}

func TestAKillWaitsForWritesThatHaveArrived(t *testing.T) {
	p, s := start(t, Plan{})
	s.blocked = make(chan struct{})
	to := connect(t, p)
	answered := make(chan error, 1)
	go func() { answered <- patch(t.Context(), to) }()
	await(t, func() bool { return len(s.arrived()) == 1 })
	if got := p.Underway(); got != 1 {
		t.Errorf("%d requests are underway", got)
	}
	killed := make(chan struct{})
	go func() { p.Kill(); close(killed) }()
	await(t, func() bool { return patch(t.Context(), to) != nil }) // refused without arriving
	select {
	case <-killed:
		t.Error("the kill did not wait")
	default:
	}
	close(s.blocked)
	receive(t, killed)
	if err := <-answered; err == nil {
		t.Error("the killed client got an answer")
	}
	if got := s.arrived(); len(got) != 1 {
		t.Errorf("arrived: %q", got)
	}
	await(t, func() bool { return p.Underway() == 0 })
}

func TestPauseAndResume(t *testing.T) {
	p, s := start(t, Plan{})
	to := connect(t, p)
	watching, err := to.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Pause()
	end(t, watching)
	if err := patch(t.Context(), to); err == nil {
		t.Error("the API server answered while it was away")
	}
	p.Resume()
	if err := patch(t.Context(), to); err != nil {
		t.Error(err)
	}
	if got := len(s.arrived()); got != 2 {
		t.Errorf("%d requests arrived", got)
	}
	if again, err := to.Watch(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	} else {
		s.send(t, watch.Added, "a")
		event(t, again, watch.Added, "a")
	}
}

func TestFaultsOfAWatch(t *testing.T) {
	for name, test := range map[string]struct {
		rule Rule
		then func(*testing.T, watch.Interface)
	}{
		"cut":               {Rule{Fault: Cut}, end},
		"stall, for a time": {Rule{Fault: Stall, For: metav1.Duration{Duration: 30 * time.Millisecond}}, end},
		"expire": {Rule{Fault: Expire}, func(t *testing.T, watching watch.Interface) {
			t.Helper()
			got := receive(t, watching.ResultChan())
			if err := apierrors.FromObject(got.Object); got.Type != watch.Error || !apierrors.IsResourceExpired(err) {
				t.Errorf("got %s, %v", got.Type, err)
			}
			end(t, watching)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			test.rule.Match.Verb, test.rule.AfterEvents = "watch", 1
			p, s := start(t, Plan{Rules: []Rule{test.rule}})
			watching, err := connect(t, p).Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s.send(t, watch.Added, "a")
			event(t, watching, watch.Added, "a")
			s.send(t, watch.Bookmark, "") // passes and is not counted
			event(t, watching, watch.Bookmark, "")
			s.send(t, watch.Added, "lost")
			test.then(t, watching)
			await(t, func() bool { return len(p.Watches()) == 0 })
		})
	}
}

func TestAStalledWatchIsOpenAndSilent(t *testing.T) {
	p, s := start(t, Plan{})
	to := connect(t, p)
	watching, err := to.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.send(t, watch.Added, "a")
	event(t, watching, watch.Added, "a")
	if found := p.StallWatches(Match{Resource: "secrets"}); found != 0 {
		t.Errorf("%d watches of secrets", found)
	}
	if found := p.StallWatches(Match{Resource: "configmaps"}); found != 1 {
		t.Errorf("%d watches of configmaps", found)
	}
	s.send(t, watch.Added, "lost")
	select {
	case got, open := <-watching.ResultChan():
		t.Errorf("got %v (open: %t)", got, open)
	case <-time.After(100 * time.Millisecond): // silence has no event to wait for
	}
	if open := p.Watches(); len(open) != 1 || open[0].Verb != "watch" {
		t.Errorf("open: %v", open)
	}
	watching.Stop()
	await(t, func() bool { return len(p.Watches()) == 0 })
}

func TestAWatchIsReadable(t *testing.T) {
	p, s := start(t, Plan{})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Connect().Host+"/api/v1/configmaps?watch=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("got %s", response.Status)
	}
	s.send(t, watch.Added, "a")
	var got metav1.WatchEvent
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil || got.Type != string(watch.Added) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestCutWatches(t *testing.T) {
	p, _ := start(t, Plan{})
	watching, err := connect(t, p).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if found := p.CutWatches(Match{}); found != 1 {
		t.Errorf("%d watches", found)
	}
	end(t, watching)
}

func TestNewRefusesAWrongPlan(t *testing.T) {
	if _, err := New(&rest.Config{Host: "localhost"}, Plan{Rules: []Rule{{}}}); err == nil ||
		!strings.Contains(err.Error(), "rules[0].fault") {
		t.Errorf("got %v", err)
	}
}

// receive returns the next value of a channel, or the zero value if it is closed.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(limit):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// event checks the next event of a watch.
func event(t *testing.T, watching watch.Interface, kind watch.EventType, name string) {
	t.Helper()
	got := receive(t, watching.ResultChan())
	if accessor, ok := got.Object.(metav1.Object); got.Type != kind || !ok || accessor.GetName() != name {
		t.Fatalf("got %s %v", got.Type, got.Object)
	}
}

// end checks that a watch ends without a further event.
func end(t *testing.T, watching watch.Interface) {
	t.Helper()
	if got := receive(t, watching.ResultChan()); got.Object != nil {
		t.Errorf("got %s %v", got.Type, got.Object)
	}
}

func await(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
	}
}
