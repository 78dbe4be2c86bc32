//go:build e2e

package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
)

// prometheus is a real Prometheus on this machine that scrapes our pods as docs/monitoring.md says.
type prometheus struct {
	url string
	// targets is the folder of the files with the pods of each job.
	targets string
}

// scraped are the pods that serve metrics, by their job in docs/monitoring.md.
var scraped = map[string]struct{ selector, port string }{
	"mainstay": {managers, "8443"}, "mainstay-apiserver": {servers, "6443"},
}

// addresses returns the addresses of a job's pods.
func addresses(t *testing.T, job string) []string {
	t.Helper()
	var found []string
	for _, pod := range pods(t, system, scraped[job].selector) {
		found = append(found, net.JoinHostPort(pod.Status.PodIP, scraped[job].port))
	}
	return found
}

// monitored is a namespace, and a Prometheus that scrapes us until the end of a test.
type monitored struct {
	ns      string
	scraper *prometheus
}

// newMonitored starts a Prometheus with the rights of a reader and with our alerts.
func newMonitored(t *testing.T) *monitored {
	t.Helper()
	m := &monitored{ns: namespace(t, "monitoring-prod")}
	kubectl(t, "-n", m.ns, "create", "serviceaccount", "prometheus")
	token := kubectl(t, "-n", m.ns, "create", "token", "prometheus")
	t.Run("scrapes without the right are refused", func(t *testing.T) { testRefusedScrapes(t, token) })
	kubectl(t, "create", "clusterrolebinding", m.ns, "--clusterrole=mainstay-metrics-reader", "--serviceaccount="+m.ns+":prometheus")
	t.Cleanup(func() { discard(t, "", "clusterrolebinding/"+m.ns) })
	m.scraper = startPrometheus(t, token)
	return m
}

// test checks that Prometheus has all documented metrics, and that an alert fires when there is
// nothing to scrape.
func (m *monitored) test(t *testing.T) absence {
	g := gomega.NewWithT(t)
	scraper := m.scraper
	scraper.find(t)
	g.Eventually(scraper.value(t, `count(up{job="mainstay"} == 1)`)).Should(gomega.Equal(2.0), "both replicas are scraped, verified by the CA")
	g.Eventually(scraper.value(t, "sum(mainstay_leader)")).Should(gomega.Equal(1.0))
	g.Eventually(scraper.value(t, "min(mainstay_webhooks_ready)")).Should(gomega.Equal(1.0))
	g.Eventually(scraper.value(t, "max(mainstay_apiservice_published) + max(mainstay_apiservice_available) + max(mainstay_apiservice_endpoints)")).Should(gomega.Equal(4.0),
		"our API server is published, reachable, and has two replicas")
	g.Eventually(scraper.value(t, "count(mainstay_certificate_expiry_timestamp_seconds{of='apiserver'})")).Should(gomega.Equal(1.0))
	t.Run("our own API server", func(t *testing.T) { testServerScraped(t, scraper, m.ns) })
	g.Eventually(scraper.value(t, "min(mainstay_certificate_expiry_timestamp_seconds) - time()")).Should(gomega.BeNumerically(">", 59*24*3600))
	m.count(t)
	t.Run("every documented metric exists", func(t *testing.T) { testDocumented(t, scraper) })
	// With seconds for minutes, they fire for some slow scrapes too, and end.
	g.Eventually(scraper.firing(t)).ShouldNot(gomega.Or(gomega.ContainElement("MainstayDown"), gomega.ContainElement("MainstayNoLeader")))
	return absence{
		meanwhile: func(t *testing.T) {
			gomega.NewWithT(t).Eventually(scraper.firing(t)).Should(gomega.ContainElement("MainstayDown"))
		},
		afterwards: func(t *testing.T) {
			// The Secret was deleted meanwhile. Prometheus rereads the mounted CA.
			gomega.NewWithT(t).Eventually(func() ([]string, error) {
				scraper.find(t)
				if err := os.WriteFile(filepath.Join(scraper.targets, "mainstay-webhook.crt"), []byte(mountedCA(t, "mainstay-webhook")),
					0o600); err != nil {
					return nil, err
				}
				return scraper.firing(t)()
			}, within, 5*time.Second).ShouldNot(gomega.ContainElement("MainstayDown"))
		},
	}
}

// count triggers what is counted, and checks the counters.
func (m *monitored) count(t *testing.T) {
	t.Helper()
	g, ns, scraper := gomega.NewWithT(t), m.ns, m.scraper
	apply(t, ns, webapp("shop", demo, "replicas: 1", limits))
	restart := configMap("message", "one") + strings.Replace(plain("greeter", fromConfigMap), "metadata: {name: greeter}",
		"metadata: {name: greeter, annotations: {config.mainstay.dev/reload: auto}}", 1)
	apply(t, ns, restart)
	waitReady(t, ns, "shop")
	_, err := tryApply(t, ns, webapp("large", demo, "replicas: 11", limits))
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("maxReplicas")))
	inNamespace := fmt.Sprintf("{kind=%q, namespace=%q}", "WebApp", ns)
	g.Eventually(scraper.value(t, "sum(mainstay_ready_duration_seconds_count"+inNamespace+")")).Should(gomega.Equal(1.0))
	g.Eventually(scraper.value(t, "sum(mainstay_policy_denials_total"+inNamespace+")")).Should(gomega.Equal(1.0))
	g.Eventually(scraper.value(t, `max(mainstay_objects{kind="WebApp", phase="Ready"})`)).Should(gomega.BeNumerically(">=", 1))
	rolledOut(t, ns, "greeter")
	apply(t, ns, configMap("message", "two"))
	g.Eventually(scraper.value(t, fmt.Sprintf("sum(mainstay_config_restarts_total{namespace=%q})", ns))).Should(gomega.Equal(1.0))
	g.Eventually(scraper.value(t, fmt.Sprintf("sum(mainstay_config_rollout_duration_seconds_count{namespace=%q})",
		ns))).Should(gomega.Equal(1.0))
	rolledOut(t, ns, "greeter")
}

// testServerScraped checks that both replicas of our API server are scraped, verified by the CA,
// and report requests and watches.
func testServerScraped(t *testing.T, scraper *prometheus, ns string) {
	g := gomega.NewWithT(t)
	g.Eventually(scraper.value(t, `count(up{job="mainstay-apiserver"} == 1)`)).Should(gomega.Equal(2.0))
	watching(t, "farmpods", "-n", ns)
	kubectl(t, "-n", ns, "get", "farmpods")
	ofFarmPods := func(verb string) string {
		return fmt.Sprintf(`{group="farm.mainstay.dev", resource="farmpods", verb=%q}`, verb)
	}
	g.Eventually(scraper.value(t, "sum(apiserver_request_total"+ofFarmPods("LIST")+")")).Should(gomega.BeNumerically(">=", 1))
	g.Eventually(scraper.value(t, "sum(apiserver_longrunning_requests"+ofFarmPods("WATCH")+")")).Should(gomega.BeNumerically(">=", 1))
	// The dashboard identifies our processes by this metric.
	g.Eventually(scraper.value(t, `count(process_resident_memory_bytes and on (instance) apiserver_watch_cache_initializations_total{group="farm.mainstay.dev"})`)).Should(gomega.Equal(2.0))
	g.Eventually(scraper.firing(t)).ShouldNot(gomega.ContainElement("MainstayAPIServerErrors"))
}

// testRefusedScrapes checks that scrapes without a token, without the right, or without TLS are
// refused.
func testRefusedScrapes(t *testing.T, powerless string) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // another test verifies the server
	defer transport.CloseIdleConnections()
	for _, address := range slices.Concat(addresses(t, "mainstay"), addresses(t, "mainstay-apiserver")) {
		for _, test := range []struct {
			scheme, token string
			want          int
		}{
			{"https", "", http.StatusUnauthorized},
			{"https", "made-up", http.StatusUnauthorized},
			{"https", powerless, http.StatusForbidden},
			{"http", powerless, http.StatusBadRequest},
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.scheme+"://"+address+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.token != "" {
				request.Header.Set("Authorization", "Bearer "+test.token)
			}
			response, err := (&http.Client{Transport: transport, Timeout: patience}).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != test.want {
				t.Errorf("%s://%s with the token %.8q: %s, want %d", test.scheme, address, test.token, response.Status, test.want)
			}
		}
	}
}

// testDocumented checks that Prometheus has everything that docs/metrics.md documents, and that the
// API server has the metrics that our alerts use.
func testDocumented(t *testing.T, scraper *prometheus) {
	var names []string
	gomega.NewWithT(t).Eventually(func() error {
		return scraper.get(t, "/api/v1/label/__name__/values", nil, &names)
	}).Should(gomega.Succeed())
	for _, metric := range slices.Concat(metrics.Declared(), metrics.Others(), metrics.Served()) {
		name := metric.Name
		if metric.Type == "histogram" {
			name += "_bucket"
		}
		// There may have been no errors and no contested writes, and no object may be unready now.
		mayBeMissing := []string{
			"mainstay_errors_total", "mainstay_contested_writes_total", "mainstay_unready_objects", "mainstay_unready_object",
		}
		if !slices.Contains(names, name) && !slices.Contains(mayBeMissing, name) {
			t.Errorf("metric %s is missing", name)
		}
	}
	served := kubectl(t, "get", "--raw", "/metrics")
	for _, metric := range metrics.Elsewhere() {
		name := metric.Name
		if metric.Type == "histogram" {
			name += "_count"
		}
		series := regexp.MustCompile(`(?m)^` + name + `\{.*name="webapps\.apps\.mainstay\.dev".*\}`).FindString(served)
		for _, label := range metric.Labels {
			if !strings.Contains(series, label.Name+`="`) {
				t.Errorf("the API server's %s has no label %s: %q", metric.Name, label.Name, series)
			}
		}
	}
}

// mountedCA returns the CA of a serving certificate, as a mounted Secret would have it.
func mountedCA(t *testing.T, secret string) string {
	t.Helper()
	content, err := base64.StdEncoding.DecodeString(read(t, system, "secret/"+secret, `{.data.ca\.crt}`))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// startPrometheus runs Prometheus with the configuration of docs/monitoring.md and our alerts,
// until the test ends.
func startPrometheus(t *testing.T, token string) *prometheus {
	t.Helper()
	program := os.Getenv("PROMETHEUS")
	if program == "" {
		t.Fatal("PROMETHEUS is not set: run `make test-e2e`")
	}
	folder := t.TempDir()
	write := func(name, content string) string {
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	ca := func(secret string) string { return write(secret+".crt", mountedCA(t, secret)) }
	configuration := write("prometheus.yml", configure(t, map[string]string{
		"mainstay-alerts.yaml":                                write("alerts.yaml", hastened(t)),
		"/var/run/secrets/kubernetes.io/serviceaccount/token": write("token", token),
		"/etc/prometheus/mainstay/ca.crt":                     ca("mainstay-webhook"),
		"/etc/prometheus/mainstay-apiserver/ca.crt":           ca("mainstay-apiserver"),
	}, folder))
	// No client has an address of loopback other than the first one: nobody takes the port meanwhile.
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.98.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	run := exec.CommandContext(t.Context(), program, "--config.file="+configuration, "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address="+address)
	var output bytes.Buffer
	run.Stdout, run.Stderr = &output, &output
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	run.WaitDelay = 20 * time.Second
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of the test has ended by now.
		_ = run.Wait()
		if t.Failed() {
			t.Logf("Prometheus says:\n%s", output.String())
		}
	})
	started := &prometheus{"http://" + address, folder}
	started.find(t)
	gomega.NewWithT(t).Eventually(func() error { _, err := fetch(t.Context(), started.url+"/-/ready"); return err }).Should(gomega.Succeed())
	return started
}

// configure returns the configuration of docs/monitoring.md, adapted to this machine: paths are
// different, intervals are one second, and each job has a file of targets, because Debian's
// Prometheus is built without the discovery by Kubernetes.
func configure(t *testing.T, files map[string]string, targets string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository, "docs/monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?m)^    rule_files:.*\n(?:    .*\n)+`).Find(page)
	text := regexp.MustCompile(`(?m)^    `).ReplaceAllString(string(block), "")
	for documented, here := range files {
		if !strings.Contains(text, documented) {
			t.Fatalf("docs/monitoring.md lacks %s:\n%s", documented, text)
		}
		text = strings.ReplaceAll(text, documented, here)
	}
	discovery := regexp.MustCompile(`(?m)^  - job_name: (\S+)\n((?:    .*\n)*?)    kubernetes_sd_configs:\n(?:      .*\n)+`)
	if found := len(discovery.FindAllString(text, -1)); found != len(scraped) {
		t.Fatalf("docs/monitoring.md has the service discovery of %d jobs, not of %d", found, len(scraped))
	}
	text = discovery.ReplaceAllString(text, "  - job_name: ${1}\n${2}    file_sd_configs: [{files: ["+targets+"/${1}.json]}]\n")
	return "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n" + text
}

// find writes the current pods to the files of targets. Each file is replaced as a whole.
func (p *prometheus) find(t *testing.T) {
	t.Helper()
	for job := range scraped {
		content, err := json.Marshal([]map[string]any{{
			"targets": addresses(t, job),
			// As the discovery of the page labels the port with the metrics.
			"labels": map[string]string{"__meta_kubernetes_endpointslice_port_name": "metrics"},
		}})
		name := filepath.Join(p.targets, job+".json")
		if err == nil {
			err = os.WriteFile(name+".new", content, 0o600)
		}
		if err == nil {
			err = os.Rename(name+".new", name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// hastened returns our alerts with seconds in place of minutes.
func hastened(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, "charts/mainstay/files/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^( +for: \d+)m$`).ReplaceAllString(string(content), "${1}s")
}

// get requests a path of Prometheus' API.
func (p *prometheus) get(t *testing.T, path string, query url.Values, data any) error {
	t.Helper()
	body, err := fetch(t.Context(), p.url+path+"?"+query.Encode())
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(body), &struct{ Data any }{data})
}

// value returns a function for Eventually: the single result of a query.
func (p *prometheus) value(t *testing.T, query string) func() (float64, error) {
	return func() (float64, error) {
		t.Helper()
		var data struct {
			Result []struct{ Value [2]any }
		}
		if err := p.get(t, "/api/v1/query", url.Values{"query": {query}}, &data); err != nil {
			return 0, err
		}
		if len(data.Result) != 1 {
			return 0, fmt.Errorf("%s has %d answers", query, len(data.Result))
		}
		return strconv.ParseFloat(fmt.Sprint(data.Result[0].Value[1]), 64)
	}
}

// firing returns a function for Eventually: the alerts that fire.
func (p *prometheus) firing(t *testing.T) func() ([]string, error) {
	return func() ([]string, error) {
		t.Helper()
		var data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
		err := p.get(t, "/api/v1/alerts", nil, &data)
		var names []string
		for _, alert := range data.Alerts {
			if alert.State == "firing" {
				names = append(names, alert.Labels["alertname"])
			}
		}
		return names, err
	}
}
