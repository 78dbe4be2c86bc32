//go:build e2e

package databases

import (
	"fmt"
	"strings"
	"testing"
)

// TestVersions: every version that can be chosen starts, replicates and answers, and fails over. It
// runs on request.
func TestVersions(t *testing.T) {
	for version := 12; version <= 18; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, fmt.Sprintf("databases-%d", version), fmt.Sprintf("  version: \"%d\"\n  storage: 1Gi\n  replicas: 2\n", version))
			eventually(t, "whole database", d.isWhole)
			w := newWriter(t, d)
			s := d.begin()
			answer, err := d.trySQL(s.replicas[0], "app", "SELECT version(), pg_is_in_recovery()")
			if err != nil || !strings.HasPrefix(answer, fmt.Sprintf("PostgreSQL %d.", version)) || !strings.HasSuffix(answer, "|t") {
				t.Errorf("the replica answers %q (%v)", answer, err)
			}
			deletes("--force")(s) // After the end of its server alone, the primary may lead on.
			eventually(t, "another primary", func() bool { return anotherLeads(s) })
			w.awaitMore("acknowledged writes by the next primary")
			t.Logf("no write for %s", w.Ledger.LongestGap(s.begun))
			eventually(t, "whole database after the failover", d.isWhole)
			for _, wrong := range w.check(false) {
				t.Error(wrong)
			}
		})
	}
}
