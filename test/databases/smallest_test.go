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
	t.Cleanup(func() { kubectlAnyway(t, "delete", "namespace", namespace, "--timeout=2m") })
	apply(t, namespace, smallest)
	kubectl(t, "-n", namespace, "wait", "--for=condition=Ready", "postgresql/test-db", "--timeout=300s")
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
}
