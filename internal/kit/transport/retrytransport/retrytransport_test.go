package retrytransport

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
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/kit/transport"
)

const watchURL = "https://api/apis/apps/v1/deployments?watch=true&allowWatchBookmarks=true"

// request returns a GET of a cache.
func request(ctx context.Context, t *testing.T, url string) *http.Request {
	t.Helper()
	made, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// refused is the error of a connection without a response.
func refused(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

// TestReadIsRetried: a read is retried every one to two seconds until there is a response. The wait
// is logged once a minute.
func TestReadIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		var asked atomic.Int64
		var answers atomic.Bool
		var told []string
		log := funcr.New(func(_, text string) { told = append(told, text) }, funcr.Options{})
		transport := Transport(log, clock.RealClock{})(transport.Func(func(request *http.Request) (*http.Response, error) {
			asked.Add(1)
			if !answers.Load() {
				return refused(request)
			}
			return &http.Response{
				StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody,
			}, nil
		}))
		status := 0
		go func() {
			response, err := transport.RoundTrip(request(t.Context(), t, "https://api/api/v1/pods"))
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
			status = response.StatusCode
		}()
		// Minutes in which client-go would come to wait half a minute between two tries. The half one is
		// more than the sixth line can be late.
		const away = 5*time.Minute + 30*time.Second
		time.Sleep(away)
		synctest.Wait()
		g.Expect(asked.Load()).To(gomega.And(gomega.BeNumerically(">=", away/(2*pause)), gomega.BeNumerically("<=", away/pause+1)))
		answers.Store(true)
		time.Sleep(2 * pause)
		synctest.Wait()
		g.Expect(status).To(gomega.Equal(http.StatusServiceUnavailable), "an answer is an answer")
		g.Expect(told).To(gomega.HaveLen(7), "at once, once a minute, and at the end")
		g.Expect(told[0]).To(gomega.ContainSubstring("connection refused"))
	})
}

// TestResponsesOfProxies: the response of a proxy does not count, whatever its code.
func TestResponsesOfProxies(t *testing.T) {
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
			synctest.Test(t, func(t *testing.T) {
				asked, answered := 0, false
				transport := Transport(logr.Discard(), clock.RealClock{})(transport.Func(func(*http.Request) (*http.Response, error) {
					asked++
					return &http.Response{StatusCode: test.status, Header: http.Header{"Content-Type": {test.kind}}, Body: http.NoBody}, nil
				}))
				go func() {
					response, err := transport.RoundTrip(request(t.Context(), t, "https://api/api/v1/pods"))
					if err == nil {
						_ = response.Body.Close()
					}
					answered = err == nil
				}()
				time.Sleep(2 * pause)
				synctest.Wait()
				if (asked > 1) != test.again || answered == test.again {
					t.Errorf("%d requests, response: %t", asked, answered)
				}
			})
		})
	}
}

// TestRetriesAreSpread: the pause between two attempts varies.
func TestRetriesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		var asked atomic.Int64
		transport := Transport(logr.Discard(), clock.RealClock{})(transport.Func(func(request *http.Request) (*http.Response, error) {
			asked.Add(1)
			return refused(request)
		}))
		const many = 100
		for range many {
			go func() {
				response, err := transport.RoundTrip(request(t.Context(), t, "https://api/api/v1/pods"))
				if err == nil {
					_ = response.Body.Close()
				}
			}()
		}
		time.Sleep(pause - time.Millisecond)
		synctest.Wait()
		g.Expect(asked.Load()).To(gomega.BeEquivalentTo(many), "nobody asks before a pause")
		time.Sleep(pause / 2)
		synctest.Wait()
		g.Expect(asked.Load()).To(gomega.And(gomega.BeNumerically(">", many+many/5), gomega.BeNumerically("<", 2*many-many/5)),
			"half way, about half have asked")
	})
}

// TestFailures: writes, and requests whose context is done, are not retried.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		transport := Transport(logr.Discard(), clock.RealClock{})(transport.Func(refused))
		write := request(t.Context(), t, "https://api/api/v1/pods")
		write.Method = http.MethodPatch
		_, err := transport.RoundTrip(write) //nolint:bodyclose // there is no answer
		g.Expect(err).To(gomega.MatchError("connection refused"))
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := errors.New("the manager ends")
		var failed error
		go func() {
			_, failed = transport.RoundTrip(request(ctx, t, watchURL)) //nolint:bodyclose // there is no answer
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		g.Expect(failed).NotTo(gomega.HaveOccurred())
		cancel(ended)
		synctest.Wait()
		g.Expect(failed).To(gomega.MatchError(ended))
	})
}

// TestSilentWatchIsEnded: a watch is ended three minutes after its last event or bookmark, not
// earlier.
func TestSilentWatchIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		server, body := io.Pipe()
		transport := Transport(logr.Discard(), clock.RealClock{})(transport.Func(func(asked *http.Request) (*http.Response, error) {
			context.AfterFunc(asked.Context(), func() { _ = body.CloseWithError(context.Cause(asked.Context())) })
			return &http.Response{StatusCode: http.StatusOK, Body: server}, nil
		}))
		response, err := transport.RoundTrip(request(t.Context(), t, watchURL))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		var lines []string
		ended := make(chan error, 1)
		go func() {
			scanner := bufio.NewScanner(response.Body)
			for scanner.Scan() {
				lines = append(lines, scanner.Text())
			}
			ended <- scanner.Err()
		}()
		var want []string
		for i := range 3 {
			time.Sleep(silence - time.Second)
			want = append(want, fmt.Sprintf("bookmark %d", i))
			_, err := io.Copy(body, strings.NewReader(want[i]+"\n"))
			g.Expect(err).NotTo(gomega.HaveOccurred())
		}
		time.Sleep(silence - time.Second)
		synctest.Wait()
		g.Expect(lines).To(gomega.Equal(want))
		g.Expect(ended).To(gomega.BeEmpty())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		g.Expect(ended).To(gomega.Receive(gomega.MatchError(errSilent)))
	})
}
