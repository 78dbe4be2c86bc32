//go:build e2e

package databases

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// smallestCache are the three lines of a cache, for a version.
const smallestCache = `apiVersion: database.mainstay.dev/v1
kind: Cache
metadata:
  name: sessions
spec:
  version: "%d"
  memory: 64Mi
  replicas: 3
`

// cacheOf is a Cache on the cluster.
type cacheOf struct {
	t         *testing.T
	namespace string
	password  string
}

// status reads what the Cache says.
func (c cacheOf) status() databasev1.CacheStatus {
	c.t.Helper()
	var found databasev1.Cache
	if err := cluster.Get(c.t.Context(), types.NamespacedName{Namespace: c.namespace, Name: "sessions"}, &found); err != nil {
		c.t.Fatal(err)
	}
	return found.Status
}

// try sends a command to a Service, from the pod of an instance, by TLS and with the password of
// the application.
func (c cacheOf) try(from, service string, words ...string) (string, error) {
	c.t.Helper()
	arguments := append([]string{
		"-n", c.namespace, "exec", from, "--", "valkey-cli", "-a", c.password, "-t", "2", "--tls",
		"--cacert", "/etc/mainstay/certificates/" + from + "/ca.crt", "-h", service + "." + c.namespace + ".svc", "--user", "app", "--no-auth-warning",
	}, words...)
	return command(c.t.Context(), "", os.Getenv("KUBECTL"), arguments...)
}

// awaits waits until a command is answered so.
func (c cacheOf) awaits(want, from, service string, words ...string) {
	c.t.Helper()
	eventually(c.t, strings.Join(words, " ")+" answers "+want, func() bool {
		answer, err := c.try(from, service, words...)
		return err == nil && answer == want
	})
}

// cacheVersions are those of Valkey. The first is that of a stable release of Debian, and the same
// tomorrow.
var cacheVersions = []int{8, 9}

// TestCaches: each version starts, replicates, fails over and hands over; what was written before a
// planned handover is there after it, and dangerous commands are refused. With -brief only the
// first does.
func TestCaches(t *testing.T) {
	versions := cacheVersions
	if *brief {
		versions = versions[:1]
	}
	for _, version := range versions {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			c := cacheOf{t: t, namespace: fmt.Sprintf("databases-valkey-%d", version)}
			kubectl(t, "create", "namespace", c.namespace)
			kubectl(t, "label", "namespace", c.namespace, "pod-security.kubernetes.io/enforce=restricted")
			t.Cleanup(func() { kubectlAnyway(t, "delete", "namespace", c.namespace, atMost) })
			apply(t, c.namespace, fmt.Sprintf(smallestCache, version))
			kubectl(t, "-n", c.namespace, "wait", "--for=condition=Ready", "cache/sessions", atMost)
			table := kubectl(t, "-n", c.namespace, "get", "caches")
			for _, column := range []string{"READY", "PRIMARY", "INSTANCES", "MEMORY", "VERSION", "True", "3/3", "64Mi"} {
				if !strings.Contains(table, column) {
					t.Errorf("kubectl get caches prints no %s:\n%s", column, table)
				}
			}
			c.password = kubectl(t, "-n", c.namespace, "get", "secret", "sessions-app", "-o", `go-template={{.data.password|base64decode}}`)
			c.failsOver()
			c.handsOver()
			if answer, err := c.try("sessions-0", "sessions-rw", "CONFIG", "GET", "*"); err == nil && !strings.Contains(answer, "NOPERM") {
				t.Errorf("CONFIG is answered: %s", answer)
			}
		})
	}
}

// failsOver deletes the primary's pod, and waits for the next one with all data.
func (c cacheOf) failsOver() {
	c.t.Helper()
	former := c.status().Primary
	c.awaits("OK", former, "sessions-rw", "SET", "first", "1")
	c.awaits("1", former, "sessions-ro", "GET", "first")
	kubectl(c.t, "-n", c.namespace, "delete", "pod", former, "--wait=false")
	eventually(c.t, "another primary", func() bool { now := c.status(); return now.Primary != "" && now.Primary != former })
	c.awaits("1", c.status().Primary, "sessions-rw", "GET", "first")
	kubectl(c.t, "-n", c.namespace, "wait", "--for=condition=Ready", "cache/sessions", atMost)
}

// handsOver asks for a handover, and waits for it: nothing is lost.
func (c cacheOf) handsOver() {
	c.t.Helper()
	former := c.status().Primary
	c.awaits("OK", former, "sessions-rw", "SET", "second", "2")
	kubectl(c.t, "-n", c.namespace, "patch", "cache", "sessions", "--type", "merge", "-p", `{"spec":{"switchoverAt":"2026-11-25T12:00:00Z"}}`)
	eventually(c.t, "the handover", func() bool {
		change := c.status().PrimaryChange
		return change != nil && change.From == former && change.Planned
	})
	c.awaits("2", c.status().Primary, "sessions-rw", "GET", "second")
}
