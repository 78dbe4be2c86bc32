package program

import (
	"fmt"
	"net/http"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// stuckAfter is how long ago the loop of a live program may have made its last decision. It makes
// one every second at least, and never waits for anything else.
const stuckAfter = 30 * time.Second

// observed is an instance whose status is read.
type observed interface{ Status() instance.Status }

// probes returns the handler of the kubelet's probes: /livez fails when the loop is stuck, and
// /readyz when clients should not connect to the server. The answers contain no details: the report
// in the Pod's annotation has them.
func probes(of observed) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if age := time.Since(of.Status().Turn); age > stuckAfter {
			http.Error(w, "stuck", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok") //nolint:errcheck // the kubelet has gone then
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if of.Status().Report.Role == contract.NoRole {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok") //nolint:errcheck // the kubelet has gone then
	})
	return mux
}
