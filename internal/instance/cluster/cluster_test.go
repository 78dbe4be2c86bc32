package cluster

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// TestRefusals: an error of the API server is logged when it first occurs, when it changes and when
// it is over, and not at each attempt.
func TestRefusals(t *testing.T) {
	var code atomic.Int32
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(code.Load()))
		_, _ = w.Write([]byte(`{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "db"}}`))
	}))
	defer served.Close()
	var lines []string
	c, err := New(Configure(&rest.Config{Host: served.URL}), Options{
		Namespace: "shop", Database: "db", Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
		Log: funcr.New(func(_, text string) { lines = append(lines, text) }, funcr.Options{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []int32{200, 403, 403, 403, 500, 500, 200, 200} {
		code.Store(answer)
		if read := c.Read(t.Context()); read.Failed != (answer != 200) {
			t.Errorf("%d: %+v", answer, read)
		}
	}
	if len(lines) != 3 || !strings.Contains(lines[0], "reading the Lease failed") || !strings.Contains(lines[2], "succeeds again") {
		t.Errorf("reads: %q", lines)
	}
	lines = nil
	code.Store(403)
	for range 3 {
		if outcome, _ := c.Write(t.Context(), election.WriteRecord{Version: "1"}); outcome != election.Unanswered {
			t.Errorf("a refused write: %v", outcome)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "writing the Lease failed") {
		t.Errorf("writes: %q", lines)
	}
}
