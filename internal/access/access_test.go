package access

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// api answers reviews: the token "reader" belongs to the user reader, who may get /metrics;
// "stranger" to a user who may not; other tokens are unknown. If revoked, reader may not either.
type api struct {
	mutex           sync.Mutex
	asked           []string
	broken, revoked bool
}

// ServeHTTP answers one review.
func (a *api) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	body, _ := io.ReadAll(request.Body)
	a.asked = append(a.asked, request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:])
	if a.broken {
		response.WriteHeader(http.StatusInternalServerError)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(request.URL.Path, "/tokenreviews") {
		var review authenticationv1.TokenReview
		_ = json.Unmarshal(body, &review)
		if review.Spec.Token == "reader" || review.Spec.Token == "stranger" {
			review.Status.Authenticated = true
			review.Status.User = authenticationv1.UserInfo{Username: review.Spec.Token, Groups: []string{"all"},
				Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}}}
		}
		_ = json.NewEncoder(response).Encode(review)
		return
	}
	var review authorizationv1.SubjectAccessReview
	_ = json.Unmarshal(body, &review)
	spec := review.Spec
	review.Status.Allowed = !a.revoked && spec.User == "reader" && spec.Groups[0] == "all" && spec.Extra["pod"][0] == "p" &&
		spec.ResourceAttributes == nil &&
		*spec.NonResourceAttributes == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
	_ = json.NewEncoder(response).Encode(review)
}

// gated returns a handler behind a Gate, and the API server that the Gate asks.
func gated(t *testing.T) (func(method, path, authorization string) int, *api) {
	t.Helper()
	call, reviews, _ := gatedAt(t)
	return call, reviews
}

// gatedAt is gated, and returns the clock too.
func gatedAt(t *testing.T) (func(method, path, authorization string) int, *api, *clocktesting.FakePassiveClock) {
	t.Helper()
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	gate, reviews, _ := open(t)
	gate = newGate(gate.known, gate.strange, now)
	handler := gate.Filter(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) { response.WriteHeader(http.StatusTeapot) }))
	return func(method, path, authorization string) int {
		request := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		if (recorder.Code == http.StatusUnauthorized) != (recorder.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%d comes with %q", recorder.Code, recorder.Header())
		}
		return recorder.Code
	}, reviews, now
}

func TestFilter(t *testing.T) {
	for name, test := range map[string]struct {
		method, path, authorization string
		want, asked                 int
	}{
		"may":                {"GET", "/metrics", "Bearer reader", http.StatusTeapot, 2},
		"scheme in any case": {"GET", "/metrics", "bearer reader", http.StatusTeapot, 2},
		"may not":            {"GET", "/metrics", "Bearer stranger", http.StatusForbidden, 2},
		"another path":       {"GET", "/debug", "Bearer reader", http.StatusForbidden, 2},
		"another verb":       {"POST", "/metrics", "Bearer reader", http.StatusForbidden, 2},
		"unknown":            {"GET", "/metrics", "Bearer nobody", http.StatusUnauthorized, 1},
		"no token":           {"GET", "/metrics", "", http.StatusUnauthorized, 0},
		"an empty token":     {"GET", "/metrics", "Bearer ", http.StatusUnauthorized, 0},
		"another scheme":     {"GET", "/metrics", "Basic reader", http.StatusUnauthorized, 0},
		"an endless token":   {"GET", "/metrics", "Bearer " + strings.Repeat("x", longestToken+1), http.StatusUnauthorized, 0},
	} {
		t.Run(name, func(t *testing.T) {
			call, reviews := gated(t)
			for range 2 {
				if got := call(test.method, test.path, test.authorization); got != test.want {
					t.Errorf("%d, want %d", got, test.want)
				}
			}
			// The second time the answer is cached.
			if len(reviews.asked) != test.asked {
				t.Errorf("asked %q", reviews.asked)
			}
		})
	}
}

// TestFilterKeepsApart: an answer is for one token and one path only.
func TestFilterKeepsApart(t *testing.T) {
	call, _ := gated(t)
	for _, test := range []struct {
		path, token string
		want        int
	}{
		{"/metrics", "reader", http.StatusTeapot},
		{"/metrics", "stranger", http.StatusForbidden},
		{"/debug", "reader", http.StatusForbidden},
		{"/metrics", "reader", http.StatusTeapot},
	} {
		if got := call(http.MethodGet, test.path, "Bearer "+test.token); got != test.want {
			t.Errorf("%s %s: %d, want %d", test.token, test.path, got, test.want)
		}
	}
}

// TestFilterWithoutAnswer: without an answer a request is refused, and that is not cached.
func TestFilterWithoutAnswer(t *testing.T) {
	call, reviews := gated(t)
	reviews.broken = true
	if got := call(http.MethodGet, "/metrics", "Bearer reader"); got != http.StatusServiceUnavailable {
		t.Errorf("%d", got)
	}
	reviews.broken = false
	if got := call(http.MethodGet, "/metrics", "Bearer reader"); got != http.StatusTeapot {
		t.Errorf("%d, once it can be asked again", got)
	}
}

// TestFilterAsksAgain: a permission lasts for a minute, a refusal for ten seconds.
func TestFilterAsksAgain(t *testing.T) {
	for token, lasts := range map[string]time.Duration{"reader": time.Minute, "stranger": 10 * time.Second, "nobody": 10 * time.Second} {
		call, reviews, now := gatedAt(t)
		call(http.MethodGet, "/metrics", "Bearer "+token)
		first := len(reviews.asked)
		now.SetTime(now.Now().Add(lasts - time.Second))
		call(http.MethodGet, "/metrics", "Bearer "+token)
		if len(reviews.asked) != first {
			t.Errorf("%s: asked again before %s", token, lasts)
		}
		now.SetTime(now.Now().Add(time.Second))
		call(http.MethodGet, "/metrics", "Bearer "+token)
		if len(reviews.asked) != 2*first {
			t.Errorf("%s: not asked again after %s", token, lasts)
		}
	}
}

// TestFilterWhileTheAPIIsDown: a caller who was allowed before may read for an hour, and no other.
func TestFilterWhileTheAPIIsDown(t *testing.T) {
	call, reviews, now := gatedAt(t)
	for token, want := range map[string]int{"reader": http.StatusTeapot, "stranger": http.StatusForbidden} {
		if got := call(http.MethodGet, "/metrics", "Bearer "+token); got != want {
			t.Fatalf("%s: %d", token, got)
		}
	}
	reviews.broken = true
	pass := func(after time.Duration, token string, want int) {
		t.Helper()
		now.SetTime(time.Unix(1000, 0).Add(after))
		if got := call(http.MethodGet, "/metrics", "Bearer "+token); got != want {
			t.Errorf("%s after %s: %d, want %d", token, after, got, want)
		}
	}
	pass(5*time.Minute, "stranger", http.StatusServiceUnavailable)
	pass(5*time.Minute, "newcomer", http.StatusServiceUnavailable)
	pass(5*time.Minute, "reader", http.StatusTeapot)
	asked := len(reviews.asked)
	pass(5*time.Minute+5*time.Second, "reader", http.StatusTeapot)
	if len(reviews.asked) != asked {
		t.Error("the API server is asked for each request while it is away")
	}
	pass(59*time.Minute, "reader", http.StatusTeapot)
	pass(61*time.Minute, "reader", http.StatusServiceUnavailable)
	reviews.broken = false
	pass(62*time.Minute, "reader", http.StatusTeapot)
}

// open returns a Gate, the API server that it asks, and its configuration.
func open(t *testing.T) (*Gate, *api, *rest.Config) {
	t.Helper()
	reviews := &api{}
	server := httptest.NewServer(reviews)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
	gate, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return gate, reviews, config
}

// of returns a question about a token.
func of(token string) question { return question{sha256.Sum256([]byte(token)), "get", "/metrics"} }

// TestStrangersDelayOnlyStrangers: a caller who was allowed before does not wait for reviews of
// made-up tokens.
func TestStrangersDelayOnlyStrangers(t *testing.T) {
	g := gomega.NewWithT(t)
	made, reviews, _ := open(t)
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	gate := newGate(made.known, made.strange, now)
	g.Expect(gate.decide(t.Context(), "reader", of("reader"))).To(gomega.Equal(http.StatusOK))
	var strangers sync.WaitGroup
	var late atomic.Int64
	for i := range 10 * asksAtOnce {
		strangers.Go(func() {
			token := fmt.Sprint("made-up-", i)
			if _, err := gate.decide(t.Context(), token, of(token)); err != nil {
				late.Add(1)
			}
		})
	}
	t.Cleanup(strangers.Wait) // not for long: the test's context has ended by then
	g.Eventually(late.Load, "30s").ShouldNot(gomega.BeZero(), "there are more than can be asked in the time that a request has")
	now.SetTime(now.Now().Add(allowedFor))
	// Behind the strangers it would wait for askTimeout, as some of them do.
	ctx, cancel := context.WithTimeout(t.Context(), askTimeout*4/5)
	defer cancel()
	g.Expect(gate.decide(ctx, "reader", of("reader"))).To(gomega.Equal(http.StatusOK))
	reviews.mutex.Lock()
	defer reviews.mutex.Unlock()
	rights := slices.DeleteFunc(slices.Clone(reviews.asked), func(asked string) bool { return asked != "subjectaccessreviews" })
	g.Expect(rights).To(gomega.HaveLen(2), "it is asked anew, and does not go on for want of an answer")
}

// TestRevokedPermission: neither a client that closes its connection nor many requests at once
// prolong a permission that was revoked.
func TestRevokedPermission(t *testing.T) {
	g := gomega.NewWithT(t)
	made, reviews, _ := open(t)
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	gate := newGate(made.known, made.strange, now)
	g.Expect(gate.decide(t.Context(), "reader", of("reader"))).To(gomega.Equal(http.StatusOK))
	now.SetTime(now.Now().Add(allowedFor))

	reviews.mutex.Lock() // until then it answers nothing
	reviews.revoked = true
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := gate.decide(gone, "reader", of("reader"))
	var callers sync.WaitGroup
	var others atomic.Int64
	for range 10 * asksAtOnce {
		callers.Go(func() {
			if status, err := gate.decide(t.Context(), "reader", of("reader")); err != nil || status != http.StatusForbidden {
				others.Add(1)
			}
		})
	}
	reviews.mutex.Unlock()
	callers.Wait()
	g.Expect(err).To(gomega.MatchError(context.Canceled))
	g.Expect(others.Load()).To(gomega.BeZero(), "some are not refused")
	g.Expect(reviews.asked).To(gomega.HaveLen(4), "they share one review")
}

// TestRefusalsEvictNoPermission: however many there are.
func TestRefusalsEvictNoPermission(t *testing.T) {
	g := gomega.NewWithT(t)
	gate, reviews, config := open(t)
	config.QPS = -1
	atAnyRate, err := authenticationv1client.NewForConfig(config)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	gate.strange.tokens = atAnyRate.TokenReviews()
	g.Expect(gate.decide(t.Context(), "reader", of("reader"))).To(gomega.Equal(http.StatusOK))
	for i := range remembered {
		token := fmt.Sprint("made-up-", i)
		g.Expect(gate.decide(t.Context(), token, of(token))).To(gomega.Equal(http.StatusUnauthorized))
	}
	before := len(reviews.asked)
	g.Expect(gate.decide(t.Context(), "reader", of("reader"))).To(gomega.Equal(http.StatusOK))
	g.Expect(reviews.asked).To(gomega.HaveLen(before))
}
