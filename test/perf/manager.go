package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-platform/mainstay/internal/kit/transport"
	"github.com/mainstay-platform/mainstay/internal/setup"
)

// childCommand is the argument that makes this program a manager.
const childCommand = "manager"

// systemNamespace is the manager's own namespace.
const systemNamespace = "mainstay-system"

// runManager runs the complete manager, as setup makes it. It answers queries from standard input
// on standard output.
func runManager(encoded string) error {
	var options childOptions
	if err := json.Unmarshal([]byte(encoded), &options); err != nil {
		return err
	}
	logger := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	config, err := clientcmd.BuildConfigFromFlags("", options.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = setup.DefaultQPS, setup.DefaultBurst
	recorder := &recorder{path: options.Record, poison: options.Poison}
	config.Wrap(recorder.wrap)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	operator, err := setup.New(ctx, config, options.settings())
	if err != nil {
		return err
	}
	watched := &watched{started: options.Started, controller: cmp.Or(options.Controller, "webapp")}
	reconciles, err := registeredReconciles()
	if err != nil {
		return err
	}
	go watched.awaitFirst(ctx, reconciles)
	go func() {
		if err := answer(os.Stdin, os.Stdout, watched.read); err != nil {
			logger.Error(err, "Answering")
		}
	}()
	if err := operator.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// settings returns the settings of production, except for what a process outside a cluster needs.
func (o childOptions) settings() setup.Settings {
	settings := setup.DefaultSettings()
	settings.Namespace = systemNamespace
	settings.SecretNamespaces = o.SecretNamespaces
	settings.LeaderElection = o.Elect
	settings.LeaderElectionNamespace = systemNamespace
	settings.HealthAddress = "0"
	settings.InstanceImage = "registry.example.com/mainstay:1.0"
	settings.PostgreSQLImages = map[string]string{databaseVersion: "registry.example.com/postgresql:17.11"}
	settings.Webhooks.Enabled = o.WebhookPort != 0
	settings.DefaultPolicy = settings.Webhooks.Enabled
	if settings.Webhooks.Enabled {
		settings.Webhooks.Host, settings.Webhooks.Port = "127.0.0.1", o.WebhookPort
		settings.Webhooks.URL = fmt.Sprintf("https://127.0.0.1:%d", o.WebhookPort)
		settings.Webhooks.Certificates.Settle = time.Second
	}
	return settings
}

// watched observes the manager from inside its process, by controller-runtime's own metrics.
type watched struct {
	started    time.Time
	controller string
	first      atomic.Int64
}

// awaitFirst records when the first reconcile has ended. It reads this one counter: gathering all
// metrics takes milliseconds, which would be half of a processor for as long as the controller has
// nothing to reconcile.
func (w *watched) awaitFirst(ctx context.Context, reconciles *prometheus.CounterVec) {
	for !w.hasReconciled(reconciles) {
		if pause(ctx, 5*time.Millisecond) != nil {
			return
		}
	}
	w.first.Store(int64(time.Since(w.started)))
}

func (w *watched) hasReconciled(reconciles *prometheus.CounterVec) bool {
	for _, result := range []string{"success", "error", "requeue", "requeue_after"} {
		var counted dto.Metric
		if err := reconciles.WithLabelValues(w.controller, result).Write(&counted); err == nil && counted.GetCounter().GetValue() > 0 {
			return true
		}
	}
	return false
}

// registeredReconciles returns controller-runtime's counter of reconciles, which it does not
// export. When a counter with the same description is registered, the registry refuses it and
// returns the existing one.
func registeredReconciles() (*prometheus.CounterVec, error) {
	options := prometheus.CounterOpts{Name: "controller_runtime_reconcile_total", Help: "Total number of reconciliations per controller"}
	var there prometheus.AlreadyRegisteredError
	err := ctrlmetrics.Registry.Register(prometheus.NewCounterVec(options, []string{"controller", "result"}))
	if !errors.As(err, &there) {
		return nil, fmt.Errorf("looking for controller-runtime's counter of reconciles: %w", cmp.Or(err, errors.New("it is not registered")))
	}
	found, isVector := there.ExistingCollector.(*prometheus.CounterVec)
	if !isVector {
		return nil, fmt.Errorf("controller-runtime's counter of reconciles is a %T", there.ExistingCollector)
	}
	return found, nil
}

// answer writes the state for each line read.
func answer(questions io.Reader, answers io.Writer, read func() state) error {
	encoder := json.NewEncoder(answers)
	for lines := bufio.NewScanner(questions); lines.Scan(); {
		found := read()
		if lines.Text() == "true" {
			// Twice: objects with a Go finalizer are freed by the second collection.
			runtime.GC()
			runtime.GC()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			found.Heap = memory.HeapAlloc
		}
		if err := encoder.Encode(found); err != nil {
			return err
		}
	}
	return nil
}

// read reads the metrics of the controller.
func (w *watched) read() state {
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		return state{}
	}
	sum := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if w.isCounted(metric) {
				sum[family.GetName()] += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + within(metric, 50*time.Millisecond)
			}
		}
	}
	return state{
		FirstReconcile: time.Duration(w.first.Load()),

		Reconciled: int(sum["controller_runtime_reconcile_total"]),
		Panics:     int(sum["controller_runtime_reconcile_panics_total"]),
		Quick:      int(sum["controller_runtime_reconcile_time_seconds"]),
		Waiting:    int(sum["workqueue_depth"]),
		Working:    int(sum["controller_runtime_active_workers"]),
	}
}

// within returns how many observations of a histogram are at most limit, which must be the bound of
// a bucket; 0 for any other metric.
func within(metric *dto.Metric, limit time.Duration) float64 {
	for _, bucket := range metric.GetHistogram().GetBucket() {
		if bucket.GetUpperBound() == limit.Seconds() {
			return float64(bucket.GetCumulativeCount())
		}
	}
	return 0
}

func (w *watched) isCounted(metric *dto.Metric) bool {
	for _, label := range metric.GetLabel() {
		if label.GetName() == "controller" && label.GetValue() == w.controller {
			return true
		}
	}
	return false
}

// recorder records writes, so that another program can repeat them, and makes calls panic.
type recorder struct {
	path, poison string
	mutex        sync.Mutex
}

// write is a request that changed something.
type write struct {
	Method, URI string
	Header      http.Header
	Body        string
}

func (r *recorder) wrap(next http.RoundTripper) http.RoundTripper {
	return transport.Func(func(request *http.Request) (*http.Response, error) {
		if r.poison != "" && strings.HasSuffix(request.URL.Path, "/"+r.poison) {
			panic("poisoned")
		}
		if r.path != "" && request.Method != http.MethodGet && request.URL.Query().Get("dryRun") == "" {
			if err := r.note(request); err != nil {
				return nil, err
			}
		}
		return next.RoundTrip(request)
	})
}

func (r *recorder) note(request *http.Request) error {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	r.mutex.Lock()
	defer r.mutex.Unlock()
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	header := request.Header.Clone()
	header.Del("Authorization")
	return json.NewEncoder(file).Encode(write{Method: request.Method, URI: request.URL.RequestURI(), Header: header, Body: string(body)})
}
