//go:build e2e

package databases

import (
	"strings"
	"testing"
)

// smallest is the least that a user writes.
const smallest = `apiVersion: database.mainstay.dev/v1
kind: PostgreSQL
metadata:
  name: test-db
spec:
  version: "14"
  storage: "1Gi"
  replicas: 1
`

// TestSmallest is the first thing that a user tries, word for word.
func TestSmallest(t *testing.T) {
	const namespace = "databases-smallest"
	kubectl(t, "create", "namespace", namespace)
	t.Cleanup(func() { kubectlAnyway(t, "delete", "namespace", namespace, atMost) })
	apply(t, namespace, smallest)
	kubectl(t, "-n", namespace, "wait", "--for=condition=Ready", "postgresql/test-db", atMost)
	answer := kubectl(t, "-n", namespace, "exec", "test-db-0", "--", "psql", "-U", "postgres", "-c", "SELECT version();")
	if !strings.Contains(answer, "PostgreSQL 14.") {
		t.Errorf("the server answers %s", answer)
	}
	table := kubectl(t, "-n", namespace, "get", "pg")
	for _, column := range []string{"READY", "PRIMARY", "INSTANCES", "VERSION", "True", "test-db-0", "1/1"} {
		if !strings.Contains(table, column) {
			t.Errorf("kubectl get pg prints no %s:\n%s", column, table)
		}
	}
	hibernates(t, namespace)
}

// hibernates stops the database and starts it again: what was written is there.
func hibernates(t *testing.T, namespace string) {
	t.Helper()
	psql := func(statement string) string {
		return kubectl(t, "-n", namespace, "exec", "test-db-0", "--", "psql", "-U", "postgres", "-Atc", statement)
	}
	psql("CREATE TABLE kept AS SELECT 17 AS number")
	kubectl(t, "-n", namespace, "patch", "pg", "test-db", "--type", "merge", "-p", `{"spec":{"hibernated":true}}`)
	kubectl(t, "-n", namespace, "wait", "--for=jsonpath={.status.phase}=Hibernated", "pg/test-db", atMost)
	kubectl(t, "-n", namespace, "patch", "pg", "test-db", "--type", "merge", "-p", `{"spec":{"hibernated":false}}`)
	kubectl(t, "-n", namespace, "wait", "--for=jsonpath={.status.phase}=Running", "pg/test-db", atMost)
	if answer := psql("SELECT number FROM kept"); answer != "17" {
		t.Errorf("after hibernation the row is %q", answer)
	}
}
