package program

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

type fixed instance.Status

func (f fixed) Status() instance.Status { return instance.Status(f) }

func TestProbes(t *testing.T) {
	now := time.Now()
	primary := fixed{Turn: now, Report: contract.Report{Role: contract.Primary, State: "Leading", Term: 7, Full: 45}}
	waiting := fixed{Turn: now.Add(-time.Minute), Report: contract.Report{State: "Standby"}, WaitsFor: "a leader"}
	for _, c := range []struct {
		of       fixed
		path     string
		wantCode int
		wantText string
	}{
		{primary, "/livez", http.StatusOK, "ok"},
		{primary, "/readyz", http.StatusOK, "ok"},
		{primary, "/metrics", http.StatusNotFound, ""},
		{waiting, "/livez", http.StatusInternalServerError, "stuck"},
		{waiting, "/readyz", http.StatusServiceUnavailable, "not ready"},
		{waiting, "/other", http.StatusNotFound, ""},
	} {
		answer := httptest.NewRecorder()
		probes(c.of).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, c.path, nil))
		if strings.Contains(answer.Body.String(), "primary") || strings.Contains(answer.Body.String(), "leader") {
			t.Errorf("%s tells everyone %q", c.path, answer.Body)
		}
		if answer.Code != c.wantCode || !strings.Contains(answer.Body.String(), c.wantText) {
			t.Errorf("%s: %d %q, want %d %q", c.path, answer.Code, answer.Body, c.wantCode, c.wantText)
		}
	}
}
