package leaseguard

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-platform/mainstay/internal/kit/transport"
)

// answers is a transport that passes every request to a function.
func answers(with func(*http.Request) (int, error)) http.RoundTripper {
	return transport.Func(func(request *http.Request) (*http.Response, error) {
		code, err := with(request)
		if err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: code, Body: http.NoBody}, nil
	})
}

func send(t *testing.T, by http.RoundTripper, method, path string) error {
	t.Helper()
	response, err := by.RoundTrip(httptest.NewRequestWithContext(t.Context(), method, "https://api"+path, strings.NewReader("{}")))
	if err == nil {
		err = response.Body.Close()
	}
	return err
}

const lease = "/apis/coordination.k8s.io/v1/namespaces/system/leases/manager"

func TestTransport(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	fence := New(10*time.Second, now)
	sent, answer, failure := 0, http.StatusOK, error(nil)
	guarded := fence.Transport(answers(func(*http.Request) (int, error) { sent++; return http.StatusOK, nil }))
	election := fence.ObserveElection(answers(func(*http.Request) (int, error) { return answer, failure }))
	passes := func(want bool) {
		t.Helper()
		if got := fence.Leads(); got != want {
			t.Errorf("leads: %t", got)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			before := sent
			if err := send(t, guarded, method, "/api/v1/pods"); (err == nil) != want || (sent > before) != want {
				t.Errorf("%s: %v, sent %t", method, err, sent > before)
			}
		}
		if err := send(t, guarded, http.MethodGet, "/api/v1/pods"); err != nil {
			t.Errorf("a read is refused: %v", err)
		}
	}
	passes(false) // never led
	_ = send(t, election, http.MethodGet, lease)
	passes(false) // looking at the lease is not having it
	answer = http.StatusConflict
	_ = send(t, election, http.MethodPut, lease)
	passes(false) // another was faster
	answer = http.StatusOK
	_ = send(t, election, http.MethodPut, lease)
	passes(true)
	now.SetTime(time.Unix(1009, 0))
	passes(true)
	failure = errors.New("the network is gone")
	_ = send(t, election, http.MethodPut, lease)
	now.SetTime(time.Unix(1010, 0))
	passes(false) // too long without a renewal
	failure = nil
	_ = send(t, election, http.MethodPut, lease)
	passes(true)
	now.SetTime(now.Now().Add(time.Second))
	answer, failure = http.StatusOK, nil
	_ = send(t, election, http.MethodPut, lease)
	passes(true)
	fence.Close()
	passes(false)
	_ = send(t, election, http.MethodPut, lease) // it is given back, which renews nothing
	passes(false)
}

// TestRenewalCountsFromWhenItWasSent: the lease of the server starts before its response arrives.
func TestRenewalCountsFromWhenItWasSent(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	fence := New(10*time.Second, now)
	slow := fence.ObserveElection(answers(func(*http.Request) (int, error) { now.SetTime(time.Unix(1009, 0)); return http.StatusOK, nil }))
	_ = send(t, slow, http.MethodPut, lease)
	now.SetTime(time.Unix(1011, 0))
	if err := send(t, fence.Transport(answers(func(*http.Request) (int, error) { return http.StatusOK, nil })), http.MethodPost,
		"/"); err == nil {
		t.Error("the write passes")
	}
}

// TestSilence: every response counts that is not a failure of the server, also for a process that
// is not the leader.
func TestSilence(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	fence := New(10*time.Second, now)
	answer, failure := http.StatusOK, error(nil)
	election := fence.ObserveElection(answers(func(*http.Request) (int, error) { return answer, failure }))
	for _, step := range []struct {
		at      int64
		answer  int
		failure error
		want    time.Duration
	}{
		{1005, http.StatusOK, nil, 0}, {1010, http.StatusServiceUnavailable, nil, 5 * time.Second},
		{1020, http.StatusOK, errors.New("the network is gone"), 15 * time.Second}, {1030, http.StatusConflict, nil, 0},
	} {
		now.SetTime(time.Unix(step.at, 0))
		answer, failure = step.answer, step.failure
		_ = send(t, election, http.MethodGet, lease)
		if got := fence.Silence(); got != step.want {
			t.Errorf("at %d: %s", step.at, got)
		}
	}
}
