package program

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mainstay-platform/mainstay/internal/instance"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// stuck is for how long the loop of a live program may not have decided anything: it decides every
// second at least, and never waits for anything else.
const stuck = 30 * time.Second

// observed is what the probes ask.
type observed interface{ Status() instance.Status }

// probes answers the kubelet and Prometheus: /livez fails when the loop is stuck, /readyz when
// nobody should connect to the server.
func probes(of observed) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if age := time.Since(of.Status().Turn); age > stuck {
			http.Error(w, fmt.Sprintf("nothing was decided for %s", age.Round(time.Second)), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok") //nolint:errcheck // the kubelet has gone then
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		status := of.Status()
		if status.Report.Role == contract.NoRole {
			http.Error(w, fmt.Sprintf("%s: waiting for %s", status.Report.State, status.WaitsFor), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, status.Report.Role) //nolint:errcheck // the kubelet has gone then
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry(of), promhttp.HandlerOpts{}))
	return mux
}

// registry has the metrics of one instance. What they say is read when they are asked for.
func registry(of observed) *prometheus.Registry {
	made := prometheus.NewRegistry()
	gauge := func(name, help string, value func(contract.Report) float64) {
		made.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "mainstay", Subsystem: "instance", Name: name, Help: help},
			func() float64 { return value(of.Status().Report) }))
	}
	gauge("primary", "1 if this instance takes writes, else 0.", func(r contract.Report) float64 { return number(r.Role == contract.Primary) })
	gauge("replica", "1 if this instance receives from the primary, else 0.",
		func(r contract.Report) float64 { return number(r.Role == contract.Replica) })
	gauge("term", "The term of the leader that this instance is or follows; 0 without one.",
		func(r contract.Report) float64 { return float64(r.Term) })
	gauge("timeline", "The timeline of a leading server.", func(r contract.Report) float64 { return float64(r.Timeline) })
	gauge("volume_full_percent", "How full the volume is, in steps of five.", func(r contract.Report) float64 { return float64(r.Full) })
	return made
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
