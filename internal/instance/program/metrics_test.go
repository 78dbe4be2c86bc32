package program

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
	"github.com/mainstay-platform/mainstay/internal/valkey"
)

// full returns the sources of a leading server that has a value for each metric.
func full() measured {
	return measured{
		of:        fixed{Report: contract.Report{Role: contract.Primary, State: "Leading", Term: 7, Timeline: 3}},
		receivers: func() int { return 1 }, needed: func() int { return 1 }, commitsWait: func() bool { return false },
		kind: postgresql, server: withRotation(postgresqlMetrics(func(context.Context) (postgres.Statistics, bool, error) {
			return postgres.Statistics{
				Connections: 12, MaxConnections: 100, OldestTransaction: 1.5, TransactionIDAge: 700,
				Databases: []postgres.DatabaseStatistics{
					{Name: "app", Size: 8e6, Commits: 9, Rollbacks: 2, Deadlocks: 1, BlocksRead: 5, BlocksHit: 95},
				},
				Receivers: []postgres.ReceiverStatistics{{Pod: "db-1", LagBytes: 64, LagTime: 0.25}},
			}, true, nil
		}), func() bool { return true }, func() *time.Time { return &time.Time{} }),
		usage:    func() (uint64, uint64, error) { return 45, 100, nil },
		events:   &events{},
		database: "db", log: logr.Discard(),
	}
}

// text returns what Prometheus gets from a collector.
func text(t *testing.T, m measured) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newCollector(m))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			all.WriteString(family.GetName() + " " + metric.String() + "\n")
		}
	}
	return all.String()
}

// TestRotationOverdue: the primary reports for how long a rotation has been overdue, once it knows
// when passwords change.
func TestRotationOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(due time.Duration) *time.Time { return new(time.Now().Add(due)) }
		for want, test := range map[string]struct {
			leads bool
			due   *time.Time
		}{
			"":     {true, nil},
			" ":    {false, at(-time.Hour)},
			"0":    {true, &time.Time{}},
			"0 ":   {true, at(time.Hour)},
			"3600": {true, at(-time.Hour)},
		} {
			got := ""
			add := func(name string, value float64, _ ...string) { got += fmt.Sprint(value) }
			none := func(context.Context, adder) error { return nil }
			err := withRotation(none, func() bool { return test.leads }, func() *time.Time { return test.due })(t.Context(), add)
			if err != nil || got != strings.TrimSpace(want) {
				t.Errorf("got %q, want %q, %v", got, want, err)
			}
		}
	})
}

// TestEveryMetric: all declared metrics are served, and no others, and each has the label with the
// name of the object.
func TestEveryMetric(t *testing.T) {
	m := full()
	m.events.promotions.Add(2)
	served := newCollector(m)
	problems, err := testutil.CollectAndLint(served)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	all := text(t, m)
	for _, metric := range slices.Concat(instanceMetrics(), serverMetrics()) {
		if !strings.Contains(all, metric.Name+" ") || !strings.HasSuffix(metric.Help, ".") || !strings.HasSuffix(metric.Normal, ".") {
			t.Errorf("%s is not served, or not explained: %+v", metric.Name, metric)
		}
		delete(served.descriptions, metric.Name)
	}
	if len(served.descriptions) > 0 {
		t.Errorf("not declared: %v", served.descriptions)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(all), "\n") {
		if !strings.Contains(line, `name:"postgresql"`) || !strings.Contains(line, `value:"db"`) {
			t.Errorf("whose is %s", line)
		}
	}
	const want = `# HELP mainstay_instance_needed_receivers How many replicas have to receive, so that no failure of one instance loses a commit.
# TYPE mainstay_instance_needed_receivers gauge
mainstay_instance_needed_receivers{postgresql="db"} 1
# HELP mainstay_instance_promotions_total Promotions of this instance since its program began.
# TYPE mainstay_instance_promotions_total counter
mainstay_instance_promotions_total{postgresql="db"} 2
# HELP mainstay_postgresql_replication_lag_bytes At the primary: bytes of write-ahead log that a replica has not replayed.
# TYPE mainstay_postgresql_replication_lag_bytes gauge
mainstay_postgresql_replication_lag_bytes{member="db-1",postgresql="db"} 64
`
	if err := testutil.CollectAndCompare(newCollector(m), strings.NewReader(want), "mainstay_instance_needed_receivers", "mainstay_instance_promotions_total",
		"mainstay_postgresql_replication_lag_bytes"); err != nil {
		t.Error(err)
	}
}

// TestEveryMetricOfACache is TestEveryMetric for a Cache, with the answers of a Valkey 8.
func TestEveryMetricOfACache(t *testing.T) {
	m := full()
	m.kind, m.server = cache, cacheMetrics(func(context.Context) (valkey.Statistics, bool, error) {
		return valkey.Statistics{Connections: 3, Keys: 7, Receivers: []valkey.ReceiverStatistics{{Pod: "db-1", LagBytes: 64}}}, true, nil
	})
	served := newCollector(m)
	problems, err := testutil.CollectAndLint(served)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	all := text(t, m)
	for _, metric := range slices.Concat(instanceMetrics(), valkeyMetrics()) {
		if !strings.Contains(all, metric.Name+" ") || !strings.HasSuffix(metric.Help, ".") || !strings.HasSuffix(metric.Normal, ".") {
			t.Errorf("%s is not served, or not explained: %+v", metric.Name, metric)
		}
		delete(served.descriptions, metric.Name)
	}
	if len(served.descriptions) > 0 {
		t.Errorf("not declared: %v", served.descriptions)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(all), "\n") {
		if !strings.Contains(line, `name:"cache"`) || !strings.Contains(line, `value:"db"`) {
			t.Errorf("whose is %s", line)
		}
	}
	m.server = cacheMetrics(func(context.Context) (valkey.Statistics, bool, error) {
		return valkey.Statistics{}, false, errors.New("gone")
	})
	if all := text(t, m); !strings.Contains(all, "mainstay_cache_up ") || strings.Contains(all, "mainstay_cache_keys ") {
		t.Errorf("a server that does not answer: got %s", all)
	}
}

// TestPrimaryThatTakesNoWrites: a primary that refuses writes, or whose commits wait, does not take
// any.
func TestPrimaryThatTakesNoWrites(t *testing.T) {
	primary := contract.Report{Role: contract.Primary, State: "Leading", Term: 7}
	refusing := primary
	refusing.Refuses = "the volume is full"
	for name, test := range map[string]struct {
		report contract.Report
		waits  bool
		want   string
	}{
		"one that takes them":    {primary, false, "1"},
		"one that refuses them":  {refusing, false, "0"},
		"one whose commits wait": {primary, true, "0"},
		"a replica":              {contract.Report{Role: contract.Replica}, false, "0"},
	} {
		m := full()
		m.of, m.commitsWait = fixed{Report: test.report}, func() bool { return test.waits }
		want := "# HELP mainstay_instance_primary " + instanceMetrics()[0].Help + "\n# TYPE mainstay_instance_primary gauge\n" +
			`mainstay_instance_primary{postgresql="db"} ` + test.want + "\n"
		if err := testutil.CollectAndCompare(newCollector(m), strings.NewReader(want), "mainstay_instance_primary"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatDoesNotAnswer: the metrics of a server and of a volume that do not answer are left out in
// time, and a volume that hangs is measured only once.
func TestWhatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, release, asked := full(), make(chan struct{}), 0
		m.server = postgresqlMetrics(func(ctx context.Context) (postgres.Statistics, bool, error) {
			<-ctx.Done()
			return postgres.Statistics{}, false, ctx.Err()
		})
		m.usage = func() (uint64, uint64, error) { asked++; <-release; return 0, 0, errors.New("gone") }
		registry := prometheus.NewRegistry()
		registry.MustRegister(newCollector(m))
		for range 3 {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			names := map[string]float64{}
			for _, family := range families {
				names[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
			}
			if up, there := names["mainstay_postgresql_up"]; !there || up != 0 || names["mainstay_instance_primary"] != 1 || len(names) != 10 {
				t.Errorf("got %v", names)
			}
		}
		close(release)
		synctest.Wait()
		if asked != 1 {
			t.Errorf("the volume was asked %d times", asked)
		}
	})
}

// TestUsageOfTheNode: while the data are ephemeral there is no volume to measure, only the disk of
// the node.
func TestUsageOfTheNode(t *testing.T) {
	p := &parts{}
	p.remember(contract.Settings{Ephemeral: true})
	m := full()
	m.usage = p.usage
	if all := text(t, m); strings.Contains(all, "mainstay_instance_volume_") {
		t.Errorf("the disk of the node is measured: %s", all)
	}
}

// killed is an engine whose server is in a given state.
type killed struct {
	engine.Engine
	state election.ServerState
	fails error
}

func (k killed) Kill() {}
func (k killed) Promote(context.Context, uint32) error {
	return k.fails
}

func (k killed) Observe() engine.Observation {
	return engine.Observation{Server: election.Server{State: k.state}}
}

// TestEvents: successful promotions are counted, and kills of servers that led.
func TestEvents(t *testing.T) {
	seen := &events{}
	for _, of := range []killed{{state: election.Leading}, {state: election.Standby, fails: errors.New("no")}, {state: election.Stopped}} {
		_ = counted{of, seen}.Promote(t.Context(), 2)
		counted{of, seen}.Kill()
	}
	if seen.promotions.Load() != 2 || seen.fences.Load() != 1 {
		t.Errorf("got %d promotions, %d fences", seen.promotions.Load(), seen.fences.Load())
	}
}

// TestReceiving: a replica that has not reported recently counts as not receiving, and two
// connections of one replica count as one.
func TestReceiving(t *testing.T) {
	now := time.Now()
	of := func(pod, incarnation string, reported time.Time) engine.Receiver {
		return engine.Receiver{Member: election.Member{Name: pod, Incarnation: incarnation}, FlushedAt: reported}
	}
	seen := engine.Observation{Receivers: []engine.Receiver{
		of("db-1", "a", now.Add(-time.Second)), of("db-1", "b", now), of("db-2", "c", now.Add(-time.Minute)), {},
	}}
	if got := receiving(seen, now); got != 1 {
		t.Errorf("got %d", got)
	}
}

// TestNeededReceivers: half of the instances, rounded down, unless commits wait for none.
func TestNeededReceivers(t *testing.T) {
	pods := []string{"db-0", "db-1", "db-2", "db-3", "db-4"}
	for count, want := range []int64{1: 0, 2: 1, 3: 1, 4: 2, 5: 2} {
		settings := contract.Settings{Pods: pods[:count], Durability: "Preferred"}
		if got := neededReceivers(settings); got != want {
			t.Errorf("%d: got %d", count, got)
		}
		settings.Durability = "Asynchronous"
		if got := neededReceivers(settings); got != 0 {
			t.Errorf("%d, Asynchronous: got %d", count, got)
		}
	}
}

// TestScrape: only a client with the current credentials can read the metrics, and nothing else.
func TestScrape(t *testing.T) {
	directory, asked := t.TempDir(), 0
	m := full()
	server := m.server
	m.server = func(ctx context.Context, add adder) error { asked++; return server(ctx, add) }
	served := httptest.NewTLSServer(metricsHandler(newCollector(m), directory))
	t.Cleanup(served.Close)
	get := func(path, user, password string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, served.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if user+password != "" {
			request.SetBasicAuth(user, password)
		}
		answer, err := served.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close() //nolint:errcheck // it was read
		content, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(content)
	}
	refused := func(why, user, password string) {
		t.Helper()
		if code, content := get("/metrics", user, password); code != http.StatusUnauthorized || content != "Unauthorized\n" {
			t.Errorf("%s: got %d %s", why, code, content)
		}
	}
	refused("without a Secret", "", "")
	write(t, directory, map[string]string{"username": "metrics", "password": ""})
	refused("an empty password", "metrics", "")
	write(t, directory, map[string]string{"username": "metrics", "password": "right"})
	refused("nothing", "", "")
	refused("a wrong password", "metrics", "wrong")
	refused("another user", "admin", "right")
	if asked != 0 {
		t.Errorf("the server was asked %d times for who may not know", asked)
	}
	if code, content := get("/metrics", "metrics", "right"); code != http.StatusOK || !strings.Contains(content, "mainstay_postgresql_up") {
		t.Errorf("got %d %s", code, content)
	}
	if code, _ := get("/other", "metrics", "right"); code != http.StatusNotFound {
		t.Errorf("another path: got %d", code)
	}
	write(t, directory, map[string]string{"username": "metrics", "password": "changed"})
	refused("the password of before", "metrics", "right")
	if code, _ := get("/metrics", "metrics", "changed"); code != http.StatusOK {
		t.Errorf("the password of now: got %d", code)
	}
}

// TestServeMetrics: metrics are served by TLS only, with the current certificate.
func TestServeMetrics(t *testing.T) {
	plain := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, issued := make(chan error), 0
	go func() {
		ended <- serveMetrics(ctx, listener, func() *tls.Certificate { issued++; return &plain.TLS.Certificates[0] },
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	}()
	client := plain.Client()
	for _, test := range []struct {
		scheme string
		want   int
	}{{"https://", http.StatusTeapot}, {"http://", http.StatusBadRequest}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.scheme+listener.Addr().String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != test.want {
			t.Errorf("%s: got %d, %v", test.scheme, answer.StatusCode, err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || issued != 1 {
		t.Errorf("it ended with %v; %d certificates were asked for", err, issued)
	}
}
