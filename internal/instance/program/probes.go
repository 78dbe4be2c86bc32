package program

import (
	"fmt"
	"net/http"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// stuck is for how long the loop of a live program may not have decided anything: it decides every
// second at least, and never waits for anything else.
const stuck = 30 * time.Second

// observed is what the probes ask.
type observed interface{ Status() instance.Status }

// probes answers the kubelet: /livez fails when the loop is stuck, /readyz when clients should not
// connect to the server. The answers contain no details: the annotation of the Pod says why.
func probes(of observed) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if age := time.Since(of.Status().Turn); age > stuck {
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
