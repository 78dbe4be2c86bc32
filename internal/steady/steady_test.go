package steady

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-platform/mainstay/internal/kit/roundtrip"
)

const watchURL = "https://api/apis/apps/v1/deployments?watch=true&allowWatchBookmarks=true"

// request is a GET that a cache could make.
func request(ctx context.Context, t *testing.T, url string) *http.Request {
	t.Helper()
	made, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestAReadIsAskedAgainUntilAnswered: as long as there is no answer, every one to two seconds, told of once a minute.
func TestAReadIsAskedAgainUntilAnswered(t *testing.T) {
	g := gomega.NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Now())
	var asked atomic.Int64
	var answers atomic.Bool
	told := make(chan string, 100)
	log := funcr.New(func(_, text string) { told <- text }, funcr.Options{})
	transport := Transport(log, clock)(roundtrip.Func(func(*http.Request) (*http.Response, error) {
		asked.Add(1)
		if !answers.Load() {
			return nil, errors.New("connection refused")
		}
		return &http.Response{
			StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody,
		}, nil
	}))
	status := make(chan int, 1)
	go func() {
		response, err := transport.RoundTrip(request(t.Context(), t, "https://api/api/v1/pods"))
		if err != nil {
			t.Error(err)
			return
		}
		_ = response.Body.Close()
		status <- response.StatusCode
	}()
	// Five minutes, in which client-go would come to wait half a minute between two tries.
	for range 150 {
		g.Eventually(clock.HasWaiters).Should(gomega.BeTrue())
		before := asked.Load()
		clock.Step(pause * 2)
		g.Eventually(asked.Load).Should(gomega.Equal(before + 1))
	}
	answers.Store(true)
	g.Eventually(clock.HasWaiters).Should(gomega.BeTrue())
	clock.Step(pause * 2)
	g.Eventually(status).Should(gomega.Receive(gomega.Equal(http.StatusServiceUnavailable)), "an answer is an answer")
	g.Expect(told).To(gomega.HaveLen(7), "at once, once a minute, and at the end")
	g.Expect(<-told).To(gomega.ContainSubstring("connection refused"))
}

// TestWhoAnswersForTheAPIServer: what stands between is no API server, whatever its code.
func TestWhoAnswersForTheAPIServer(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		kind   string
		again  bool
	}{
		"kubectl proxy":               {http.StatusInternalServerError, "", true},
		"a load balancer":             {http.StatusBadGateway, "text/html; charset=utf-8", true},
		"another, in plain text":      {http.StatusServiceUnavailable, "text/plain; charset=utf-8", true},
		"the API server's own":        {http.StatusInternalServerError, "application/json", false},
		"the same in protobuf":        {http.StatusServiceUnavailable, "application/vnd.kubernetes.protobuf", false},
		"a refusal":                   {http.StatusForbidden, "text/plain", false},
		"nothing is wrong":            {http.StatusOK, "text/plain", false},
		"too many requests, in words": {http.StatusTooManyRequests, "text/plain", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			clock := clocktesting.NewFakeClock(time.Now())
			asked := make(chan struct{}, 2)
			transport := Transport(logr.Discard(), clock)(roundtrip.Func(func(*http.Request) (*http.Response, error) {
				asked <- struct{}{}
				return &http.Response{StatusCode: test.status, Header: http.Header{"Content-Type": {test.kind}}, Body: http.NoBody}, nil
			}))
			ctx, cancel := context.WithCancel(t.Context())
			answered := make(chan bool, 1)
			go func() {
				response, err := transport.RoundTrip(request(ctx, t, "https://api/api/v1/pods"))
				if err == nil {
					_ = response.Body.Close()
				}
				answered <- err == nil
			}()
			g.Eventually(asked).Should(gomega.Receive())
			if test.again {
				g.Eventually(clock.HasWaiters).Should(gomega.BeTrue())
				clock.Step(2 * pause)
				g.Eventually(asked).Should(gomega.Receive())
				cancel()
			}
			g.Eventually(answered).Should(gomega.Receive(gomega.Equal(!test.again)))
			cancel()
		})
	}
}

// TestTriesAreSpread: the pause between two tries is not the same each time.
func TestTriesAreSpread(t *testing.T) {
	g := gomega.NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Now())
	var asked atomic.Int64
	transport := Transport(logr.Discard(), clock)(roundtrip.Func(func(*http.Request) (*http.Response, error) {
		asked.Add(1)
		return nil, errors.New("connection refused")
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const many = 100
	for range many {
		go func() {
			response, err := transport.RoundTrip(request(ctx, t, "https://api/api/v1/pods"))
			if err == nil {
				_ = response.Body.Close()
			}
		}()
	}
	g.Eventually(asked.Load).Should(gomega.BeEquivalentTo(many))
	g.Eventually(clock.Waiters).Should(gomega.Equal(many))
	clock.Step(pause - time.Millisecond)
	g.Consistently(asked.Load, "50ms").Should(gomega.BeEquivalentTo(many), "nobody asks before a pause")
	clock.Step(pause / 2)
	g.Eventually(asked.Load).Should(gomega.And(gomega.BeNumerically(">", many+many/5), gomega.BeNumerically("<", 2*many-many/5)), "half way, about half have asked")
}

// TestWhatMustFailFails: writes, and requests that nobody waits for any more.
func TestWhatMustFailFails(t *testing.T) {
	g := gomega.NewWithT(t)
	refused := errors.New("connection refused")
	transport := Transport(logr.Discard(), clocktesting.NewFakeClock(time.Now()))(roundtrip.Func(func(*http.Request) (*http.Response, error) {
		return nil, refused
	}))
	write := request(t.Context(), t, "https://api/api/v1/pods")
	write.Method = http.MethodPatch
	_, err := transport.RoundTrip(write) //nolint:bodyclose // there is no answer
	g.Expect(err).To(gomega.MatchError(refused))
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("the manager ends")
	failed := make(chan error, 1)
	go func() {
		_, err := transport.RoundTrip(request(ctx, t, watchURL)) //nolint:bodyclose // there is no answer
		failed <- err
	}()
	g.Consistently(failed, "50ms").ShouldNot(gomega.Receive())
	cancel(ended)
	g.Eventually(failed).Should(gomega.Receive(gomega.MatchError(ended)))
}

// TestASilentWatchIsEnded: three minutes after the last word, be it a bookmark; not before.
func TestASilentWatchIsEnded(t *testing.T) {
	g := gomega.NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Now())
	server, body := io.Pipe()
	transport := Transport(logr.Discard(), clock)(roundtrip.Func(func(asked *http.Request) (*http.Response, error) {
		context.AfterFunc(asked.Context(), func() { _ = body.CloseWithError(context.Cause(asked.Context())) })
		return &http.Response{StatusCode: http.StatusOK, Body: server}, nil
	}))
	response, err := transport.RoundTrip(request(t.Context(), t, watchURL))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { _ = response.Body.Close() })
	lines, ended := make(chan string), make(chan error, 1)
	go func() {
		scanner := bufio.NewScanner(response.Body)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		ended <- scanner.Err()
	}()
	for i := range 3 {
		clock.Step(silence - time.Second)
		bookmark := fmt.Sprintf("bookmark %d", i)
		_, err := io.Copy(body, strings.NewReader(bookmark+"\n"))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Eventually(lines).Should(gomega.Receive(gomega.Equal(bookmark)))
	}
	g.Consistently(ended, "50ms").ShouldNot(gomega.Receive())
	clock.Step(silence + time.Second)
	g.Eventually(ended).Should(gomega.Receive(gomega.MatchError(errSilent)))
}
