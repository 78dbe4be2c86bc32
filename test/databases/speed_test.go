//go:build e2e

package databases

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/pki"
)

// byHand is a server of the same image, with the same limits and settings, started without
// Mainstay, and its Service.
const byHand = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: by-hand}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: by-hand}
spec: {selector: {app: by-hand}, ports: [{port: 5432}]}
---
apiVersion: v1
kind: Pod
metadata: {name: by-hand, labels: {app: by-hand}}
spec:
  nodeSelector: {kubernetes.io/hostname: %[1]s}
  securityContext: {runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: postgres
      image: %[2]s
      resources: %[3]s
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      command: [sh, -ec]
      args:
        - |
          initdb --pgdata /data/pgdata --username postgres --data-checksums --encoding UTF8 --locale C > /dev/null
          printf 'local all all trust\nhostssl all all all scram-sha-256\n' > /data/pgdata/pg_hba.conf
          exec postgres -D /data/pgdata -c listen_addresses='*' -c unix_socket_directories=/tmp -c ssl_cert_file=/tls/tls.crt \
            -c ssl_key_file=/tls/tls.key %[4]s
      volumeMounts: [{name: data, mountPath: /data}, {name: tls, mountPath: /tls}, {name: shm, mountPath: /dev/shm}, {name: tmp, mountPath: /tmp}]
  volumes:
    - {name: data, persistentVolumeClaim: {claimName: by-hand}}
    - {name: tls, secret: {secretName: by-hand, defaultMode: 0440}}
    - {name: shm, emptyDir: {medium: Memory}}
    - {name: tmp, emptyDir: {}}
`

// measured runs pgbench once, in a pod on a node of its own.
const measured = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/hostname: %[2]s}
  securityContext: {runAsUser: 65532, runAsGroup: 65532, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: pgbench
      image: %[3]s
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      command: [pgbench, %[4]s, "%[5]s"]
`

// excluded matches the settings that say where something is, and those of replication.
var excluded = regexp.MustCompile(`^(mainstay\.|.*_file$|.*_directory$|.*_directories$|listen_addresses$|port$|primary_|restore_|synchronous_standby|tcp_keepalives_)`)

// rate matches what pgbench prints.
var rate = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// TestSpeed compares the transactions a second of a PostgreSQL through its Service with those of
// the same server started by hand with the same settings, in pairs. It says the ratio of the
// medians, which is at least 0.95 on a machine that does nothing else: see
// docs/what-happens-when.md.
func TestSpeed(t *testing.T) {
	d := newDatabase(t, "databases-speed", "  version: \"17\"\n  storage: 1Gi\n  replicas: 1\n"+
		"  resources: {requests: {cpu: 100m}, limits: {cpu: \"1\", memory: 512Mi}}\n")
	pod := d.pod(d.postgreSQL().Status.Primary)
	image := pod.Spec.Containers[0].Image
	startByHand(t, d, pod)
	var app corev1.Secret
	d.get(name+"-app", &app)
	uris := map[string]string{
		"mainstay": fmt.Sprintf("host=%s-rw dbname=app user=app password=%s sslmode=require", name, app.Data["password"]),
		"by hand":  "host=by-hand dbname=app user=app password=by-hand sslmode=require",
	}
	client := otherNode(t, d, pod.Spec.NodeName)
	number := 0
	bench := func(uri, arguments string) string {
		number++
		run := fmt.Sprintf("pgbench-%d", number)
		apply(t, d.namespace, fmt.Sprintf(measured, run, client, image, arguments, uri))
		eventually(t, "the end of "+run, func() bool {
			phase := d.pod(run).Status.Phase
			return phase == corev1.PodSucceeded || phase == corev1.PodFailed
		})
		output := kubectl(t, "-n", d.namespace, "logs", run)
		if d.pod(run).Status.Phase == corev1.PodFailed {
			t.Fatal(output)
		}
		return output
	}
	for _, uri := range uris {
		bench(uri, `"--initialize", "--quiet", "--scale=10"`)
	}
	for load, options := range map[string]string{"reads and writes": "", "reads": `, "--select-only"`} {
		rates := map[string][]float64{}
		for range 5 {
			for _, server := range []string{"by hand", "mainstay"} {
				output := bench(uris[server], `"--client=8", "--jobs=2", "--time=10"`+options)
				found := rate.FindStringSubmatch(output)
				if found == nil {
					t.Fatalf("pgbench printed no rate: %s", output)
				}
				value, err := strconv.ParseFloat(found[1], 64)
				gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
				rates[server] = append(rates[server], value)
			}
		}
		t.Attr("speed", fmt.Sprintf("%s: %.0f transactions a second, %.0f by hand: %.2f (all: %.0f, %.0f)", load, median(rates["mainstay"]),
			median(rates["by hand"]), median(rates["mainstay"])/median(rates["by hand"]), rates["mainstay"], rates["by hand"]))
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// otherNode returns a node other than this one: the client's.
func otherNode(t *testing.T, d *database, node string) string {
	t.Helper()
	var nodes corev1.NodeList
	d.must(cluster.List(t.Context(), &nodes))
	return slices.MaxFunc(nodes.Items, func(a, b corev1.Node) int {
		return cmp.Compare(strconv.FormatBool(a.Name != node), strconv.FormatBool(b.Name != node))
	}).Name
}

// startByHand starts the other server beside the primary, and makes its role and database.
func startByHand(t *testing.T, d *database, primary *corev1.Pod) {
	t.Helper()
	_, issued, err := pki.Issue(time.Now(), time.Hour, pki.Request{CommonName: "by-hand", Names: []string{"by-hand"},
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	d.must(err)
	d.must(cluster.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "by-hand"},
		Data: map[string][]byte{"tls.crt": issued[0].Certificate, "tls.key": issued[0].Key}}))
	answer, err := d.trySQL(primary.Name, "postgres", "SELECT name || '=' || setting FROM pg_settings WHERE source = 'configuration file'")
	d.must(err)
	var settings []string
	for line := range strings.Lines(answer) {
		if line = strings.TrimSpace(line); !excluded.MatchString(line[:strings.Index(line, "=")]) {
			settings = append(settings, "-c '"+line+"'")
		}
	}
	limits := primary.Spec.Containers[0].Resources.Limits
	resources := fmt.Sprintf("{requests: {cpu: 100m}, limits: {cpu: %q, memory: %q}}", limits.Cpu(), limits.Memory())
	t.Cleanup(func() {
		if t.Failed() {
			output, err := command(context.WithoutCancel(t.Context()), "", os.Getenv("KUBECTL"), "-n", d.namespace, "logs", "by-hand", "--previous")
			t.Logf("the server by hand (%v): %s", err, output)
		}
	})
	apply(t, d.namespace, fmt.Sprintf(byHand, primary.Spec.NodeName, primary.Spec.Containers[0].Image, resources, strings.Join(settings, " ")))
	sql := func(statement string) error {
		_, err := command(t.Context(), "", "sh", "-c", `"$KUBECTL" -n "$0" exec by-hand -- psql -h /tmp -U postgres -c "$1"`, d.namespace, statement)
		return err
	}
	gomega.NewWithT(t).Eventually(func() error { return sql("SELECT 1") }, within).Should(gomega.Succeed())
	d.must(sql("CREATE ROLE app LOGIN PASSWORD 'by-hand'"))
	d.must(sql("CREATE DATABASE app OWNER app"))
	t.Logf("both servers have %d settings", len(settings))
}
