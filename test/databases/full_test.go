//go:build e2e

package databases

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// TestFullDisk: users fill the volumes of all instances. Writes are refused, nothing crashes again
// and again, and once the volumes have grown, writes are taken, on an idle machine within a minute.
func TestFullDisk(t *testing.T) {
	d := newDatabase(t, "databases-full", "  version: \""+*image+"\"\n  storage: 512Mi\n  replicas: 3\n")
	eventually(t, "whole database", d.isWhole)
	w := newWriter(t, d)
	primary := d.postgreSQL().Status.Primary
	d.sql(primary, "app", "CREATE TABLE filler (content text); ALTER TABLE filler ALTER content SET STORAGE EXTERNAL")
	eventually(t, "refused write", func() bool {
		primary := d.postgreSQL().Status.Primary
		if primary == "" {
			return true
		}
		output, err := d.trySQL(primary, "app", "INSERT INTO filler SELECT string_agg(gen_random_uuid()::text, '') FROM generate_series(1, 1000000)")
		return err != nil && strings.Contains(output+err.Error(), "No space left")
	})
	d.awaitCondition(databasev1.ConditionStorageHealthy, metav1.ConditionFalse, "increase spec.storage")
	full := d.restarts()
	begun := time.Now()
	eventually(t, "time with full volumes", func() bool { return time.Since(begun) > 2*failoverAfter })
	t.Logf("with full volumes:\n%s", kubectl(t, "-n", d.namespace, "get", "pg,pods", "-o", "wide"))
	if now := d.restarts(); now > full+1 {
		t.Errorf("containers were restarted %d times while the volumes were full", now-full)
	}

	grown := time.Now()
	d.patch(`{"storage":"1Gi"}`)
	w.awaitMore("acknowledged writes after the volumes have grown")
	t.Logf("writes %s after spec.storage was increased", time.Since(grown).Round(100*time.Millisecond))
	eventually(t, "whole database", d.isWhole)
	d.awaitCondition(databasev1.ConditionStorageHealthy, metav1.ConditionTrue, "")
	var claim corev1.PersistentVolumeClaim
	d.get("data-"+primary, &claim)
	if wanted := resource.MustParse("1Gi"); claim.Status.Capacity.Storage().Cmp(wanted) < 0 {
		t.Errorf("the volume has %s", claim.Status.Capacity.Storage())
	}
	for _, wrong := range w.check(false) {
		t.Error(wrong)
	}
}

// restarts is how often containers of the pods were restarted.
func (d *database) restarts() int {
	d.t.Helper()
	count := 0
	for _, pod := range d.pods() {
		for _, status := range pod.Status.ContainerStatuses {
			count += int(status.RestartCount)
		}
	}
	return count
}
