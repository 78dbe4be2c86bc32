package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// reports lets the program of an instance say something else.
func reports(t *testing.T, db *databasev1.PostgreSQL, ordinal int, report contract.Report) {
	t.Helper()
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := known(db, fmt.Sprintf("%s-%d", db.Name, ordinal), pod, always)(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := pod.DeepCopy()
	pod.Annotations[api.AnnotationInstance] = string(text)
	if err := cluster.Client.Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// told returns what the instances are told.
func told(ctx context.Context, db *databasev1.PostgreSQL) (contract.Settings, error) {
	settings := &corev1.ConfigMap{}
	if err := known(db, contract.SettingsName(db.Name), settings, always)(ctx); err != nil {
		return contract.Settings{}, err
	}
	return contract.ParseSettings(settings.Data[contract.SettingsKey])
}

// TestDatabaseSwitchesOver: a handover that is asked for is in the status before the instances are
// told, they are told until another leads, and that is told once.
func TestDatabaseSwitchesOver(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	db := newDatabase(namespace(t))
	recorded := &testenv.Requests{}
	startManagerWith(t, db.Namespace, recorded, withImages)
	create(t, db)
	observedRevision(t, db, "db-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Provided: true})
	for ordinal := 1; ordinal < 3; ordinal++ {
		runs(t, db, ordinal, contract.Report{Role: contract.Replica, State: "Following", Term: 2})
	}
	live := &databasev1.PostgreSQL{}
	g.Eventually(known(db, "db", live, func() bool { return live.Status.Phase == databasev1.PhaseRunning })).
		WithContext(t.Context()).Should(gomega.Succeed())

	before := recorded.Count()
	asked := live.DeepCopy()
	asked.Spec.SwitchoverAt = new(metav1.NewTime(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)))
	g.Expect(cluster.Client.Patch(t.Context(), asked, client.MergeFrom(live))).To(gomega.Succeed())
	g.Eventually(func(ctx context.Context) (string, error) {
		settings, err := told(ctx, db)
		return fmt.Sprint(settings.SwitchFrom, " ", settings.SwitchTo), err
	}).WithContext(t.Context()).Should(gomega.Equal("2 db-1"))
	written := strings.Join(recorded.Since(before, "PATCH "), "\n")
	status, settings := strings.Index(written, "/postgresqls/db/status"), strings.Index(written, "/configmaps/db-config")
	g.Expect(status >= 0 && status < settings).To(gomega.BeTrue(), "told before it is stored:\n%s", written)

	reports(t, db, 0, contract.Report{State: "Stopping", Term: 2})
	isSwitching := func() bool { return live.Status.Phase == databasev1.PhaseSwitchingOver && live.Status.Primary == "" }
	g.Eventually(known(db, "db", live, isSwitching)).
		WithContext(t.Context()).Should(gomega.Succeed(), "a planned handover is called otherwise")
	reports(t, db, 1, contract.Report{Role: contract.Primary, State: "Leading", Term: 3, Provided: true})
	reports(t, db, 0, contract.Report{Role: contract.Replica, State: "Following", Term: 3})
	reports(t, db, 2, contract.Report{Role: contract.Replica, State: "Following", Term: 3})
	g.Eventually(known(db, "db", live, func() bool {
		return live.Status.Phase == databasev1.PhaseRunning && live.Status.Primary == "db-1" && live.Status.SwitchoverFrom == 0 &&
			live.Status.SwitchoverAt.Equal(asked.Spec.SwitchoverAt)
	})).WithContext(t.Context()).Should(gomega.Succeed())
	g.Eventually(func(ctx context.Context) (uint64, error) {
		settings, err := told(ctx, db)
		return settings.SwitchFrom, err
	}).WithContext(t.Context()).Should(gomega.BeZero())
	g.Eventually(changes(db)).WithContext(t.Context()).
		Should(gomega.ConsistOf(gomega.HavePrefix("SwitchedOver db-0 handed over to db-1")))
}

// changes returns the events about another primary.
func changes(db *databasev1.PostgreSQL) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		var all eventsv1.EventList
		err := cluster.Client.List(ctx, &all, client.InNamespace(db.Namespace))
		var found []string
		for _, event := range all.Items {
			if event.Reason == databasev1.ReasonSwitchedOver || event.Reason == databasev1.ReasonFailedOver {
				found = append(found, event.Reason+" "+event.Note)
			}
		}
		return found, err
	}
}
