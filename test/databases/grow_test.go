//go:build e2e

package databases

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// TestAutoGrow: volumes grow ahead of a client that writes 20 MB each second, until it has written
// twice what they had room for at first. None of its writes is refused.
func TestAutoGrow(t *testing.T) {
	const each, times = 20_000_000, 100
	d := newDatabase(t, "databases-grow", "  version: \""+*image+"\"\n  storage: 1Gi\n  replicas: 2\n  autoGrow: {limit: 8Gi, by: 50}\n")
	eventually(t, "whole database", d.isWhole)
	primary := d.postgreSQL().Status.Primary
	d.sql(primary, "app", "CREATE TABLE filler (content text); ALTER TABLE filler ALTER content SET STORAGE EXTERNAL")
	begun, sizes := time.Now(), []string{}
	for i := range times {
		next := time.NewTimer(time.Second)
		output, err := d.trySQL(primary, "app", fmt.Sprintf("INSERT INTO filler SELECT repeat('x', %d)", each))
		if err != nil {
			t.Fatalf("write %d of %d was refused after %s: %v\n%s", i, times, time.Since(begun).Round(time.Second), err, output)
		}
		if size := d.capacity(primary).String(); len(sizes) == 0 || sizes[len(sizes)-1] != size {
			sizes = append(sizes, size)
			t.Logf("the volume has %s after %s and %d writes", size, time.Since(begun).Round(time.Second), i)
		}
		<-next.C
	}
	t.Logf("%.1f MB/s were written", each*times/time.Since(begun).Seconds()/1e6)
	if least := resource.MustParse("2Gi"); d.capacity(primary).Cmp(least) <= 0 {
		t.Errorf("the volume has %s", d.capacity(primary))
	}
	d.awaitCondition(databasev1.ConditionStorageHealthy, metav1.ConditionTrue, "")
	eventually(t, "whole database", d.isWhole)
	for _, pod := range d.pods() {
		if got := d.capacity(pod.Name); got.Cmp(*d.capacity(primary)) != 0 {
			t.Errorf("the volume of %s has %s, and that of the primary %s", pod.Name, got, d.capacity(primary))
		}
	}
	if got, err := d.trySQL(primary, "app", "SELECT count(*) FROM filler"); err != nil || got != fmt.Sprint(times) {
		t.Errorf("%s of %d writes are there: %v", got, times, err)
	}
}

// capacity returns how large the volume of a pod's data is.
func (d *database) capacity(pod string) *resource.Quantity {
	d.t.Helper()
	var claim corev1.PersistentVolumeClaim
	d.get("data-"+pod, &claim)
	return claim.Status.Capacity.Storage()
}
