//go:build e2e

package databases

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// TestDegraded: of two instances, the replica's node dies, and the primary goes on alone. Then its
// node dies too. The replica, which is back, lacks what was acknowledged meanwhile: it does not
// lead, and the status says what it waits for. Once the former primary is back, nothing is lost.
func TestDegraded(t *testing.T) {
	d := newDatabase(t, "databases-degraded", "  version: \""+*image+"\"\n  storage: 1Gi\n  replicas: 2\n")
	eventually(t, "whole database", d.isWhole)
	w := newWriter(t, d)
	s := d.begin()
	replica := d.pod(s.replicas[0])
	stopNode(t, replica.Spec.NodeName)
	eventually(t, "primary that waits for nobody", func() bool {
		record, known := d.record()
		return known && len(record.Rules) == 1 && len(record.Rules[0].Set) == 0
	})
	w.awaitMore("acknowledged writes without the replica")
	d.awaitCondition(databasev1.ConditionDurable, metav1.ConditionFalse, "")

	stopNode(t, s.node)
	testbed(t, "start", replica.Spec.NodeName)
	d.awaitCondition(databasev1.ConditionWritable, metav1.ConditionFalse, s.primary)
	begun := time.Now()
	eventually(t, "time for a wrong election", func() bool { return time.Since(begun) > 3*failoverAfter })
	if record, _ := d.record(); record.Term != s.term {
		t.Errorf("%s leads in term %d, although only %s has all that was acknowledged", record.Holder.Member.Name, record.Term, s.primary)
	}
	t.Logf("while only %s is there:\n%s", replica.Name, kubectl(t, "-n", d.namespace, "get", "pg,pods", "-o", "wide"))

	testbed(t, "start", s.node)
	w.awaitMore("acknowledged writes once the former primary is back")
	eventually(t, "whole database once the former primary is back", d.isWhole)
	for _, wrong := range w.check(false) {
		t.Error(wrong)
	}
}

// stopNode lets a node die, and brings it back at the end of the test, if that has not been done.
func stopNode(t *testing.T, node string) {
	t.Helper()
	testbed(t, "stop", node)
	t.Cleanup(func() { testbedAnyway(t, "start", node) })
}

// awaitCondition waits until a condition has a status, and a message that contains a text.
func (d *database) awaitCondition(name string, status metav1.ConditionStatus, message string) {
	d.t.Helper()
	eventually(d.t, name+" "+string(status)+" because of "+message, func() bool {
		for _, condition := range d.postgreSQL().Status.Conditions {
			if condition.Type == name {
				return condition.Status == status && strings.Contains(condition.Message, message)
			}
		}
		return false
	})
}
