//go:build e2e

package databases

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestPooler: through the pooler, no statement of a client fails while the primary hands over, and
// a wrong password is refused. In the end an instance is removed with its volume.
func TestPooler(t *testing.T) {
	d := newDatabase(t, "databases-pooler", "  version: \"17\"\n  storage: 1Gi\n  replicas: 2\n  pooler: {}\n")
	eventually(t, "two instances of the pooler are ready", func() bool {
		pooler := d.postgreSQL().Status.Pooler
		return pooler != nil && pooler.SecretName == "db-pooler" && pooler.ReadyInstances == 2
	})
	uri := kubectl(t, "-n", d.namespace, "get", "secret", "db-pooler", "-o", "go-template={{.data.uri|base64decode}}")
	psql := func(uri, script string) (string, error) {
		return command(t.Context(), script, "sh", "-c", `"$KUBECTL" -n "$0" exec -i db-0 -- psql -v ON_ERROR_STOP=1 -At "$1" 2>&1`, d.namespace, uri)
	}
	// The nodes may learn a moment later where the pooler is.
	eventually(t, "the pooler answers", func() bool { _, err := psql(uri, "SELECT 1"); return err == nil })
	if answer, err := psql(uri, "CREATE TABLE rows (number int);"); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	wrong := strings.Replace(uri, "app:", "app:x", 1)
	if answer, err := psql(wrong, "SELECT 1"); err == nil || !strings.Contains(answer, "authentication failed") {
		t.Errorf("with a wrong password the pooler answers %q (%v)", answer, err)
	}
	// A row in each of some seconds, in one connection, while the primary hands over.
	const rows = 60
	var script strings.Builder
	for number := range rows {
		fmt.Fprintf(&script, "INSERT INTO rows VALUES (%d);\nSELECT pg_sleep(0.1);\n", number)
	}
	done := make(chan error, 1)
	go func() {
		answer, err := psql(uri, script.String())
		if err != nil {
			err = fmt.Errorf("%w: %s", err, answer)
		}
		done <- err
	}()
	former := d.postgreSQL().Status.Primary
	kubectl(t, "-n", d.namespace, "patch", "pg", name, "--type", "merge", "-p", `{"spec":{"switchoverAt":"2026-11-25T12:00:00Z"}}`)
	eventually(t, "the handover", func() bool {
		change := d.postgreSQL().Status.PrimaryChange
		return change != nil && change.From == former && change.Planned
	})
	if err := <-done; err != nil {
		t.Errorf("a statement failed during the handover: %v", err)
	}
	if answer, err := psql(uri, "SELECT count(*) FROM rows"); err != nil || strings.TrimSpace(answer) != fmt.Sprint(rows) {
		t.Errorf("there are %s rows (%v), and should be %d", answer, err, rows)
	}
	d.awaitReady()
	removesAnInstance(d)
}

// removesAnInstance wants fewer instances, without the volumes of those that go: the rows are there
// afterwards, and the other volume is not.
func removesAnInstance(d *database) {
	d.t.Helper()
	d.patch(`{"replicas": 1, "reclaim": "Delete"}`)
	eventually(d.t, "one volume is left", func() bool {
		var claims corev1.PersistentVolumeClaimList
		d.must(cluster.List(d.t.Context(), &claims, client.InNamespace(d.namespace)))
		return len(claims.Items) == 1 && claims.Items[0].Name == "data-db-0"
	})
	d.awaitReady()
	if answer, err := d.trySQL("db-0", "app", "SELECT count(*) > 0 FROM rows"); err != nil || answer != "t" {
		d.t.Errorf("the remaining instance answers %q (%v)", answer, err)
	}
}
